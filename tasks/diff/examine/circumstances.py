"""Defines the inputs of a decision about noise besides runs and rules."""

from collections.abc import Mapping

from configs.frozen import Frozen
from tasks.diff.examine.noise import Past

CHANCE = 0.01  # probability that a comparison of equal arms finds a difference in any of its cases and decisions


class Circumstances(Frozen):
    """The inputs of a decision about noise besides the runs and the rules: see `decide_noisy`."""

    past: Mapping[str, Past] = {}  # keys: `Metric.quick` (level of steady steps), `Metric.name` (of typical ones)
    chance: float = CHANCE  # see `chance_of`
    excuse: str = ""  # what makes both arms equal in program and host loop; empty if they may differ
    instead: str = ""  # the alternative to more runs, if only logs were given; else empty

    def shared_by(self, metrics: int) -> "Circumstances":
        """Return a copy whose chance is divided by the number of metrics: Bonferroni, as over the cases."""
        return self.replace(chance=self.chance / metrics)


def chance_of(*, cases: int = 1, look: int | None = None) -> float:
    """Return the part of CHANCE for one decision: the probability that it finds a difference between equal arms.

    CHANCE is divided by the number of cases (Bonferroni). With --until-decided a case is decided several times, each
    time with more runs. The k-th decision (`look` = k) gets the share 1 / (k (k + 1)); all shares add up to at most 1.
    """
    spent = 1.0 if look is None else 1.0 / (look * (look + 1))
    return CHANCE * spent / cases
