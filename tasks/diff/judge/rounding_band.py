"""Finds the largest difference of two losses that rounding can explain. An arm is one of two compared versions."""

from configs.verdict_rules import Tolerance, VerdictRules
from tasks.diff.examine.arms import Arms
from tasks.diff.examine.setting_differences import config_of
from tasks.records.run import RunRecord

STATED = "loss_of_rounding_"  # the stated bands are the tolerances with this prefix
CHOICES = "choices"  # the band of runs in which a last bit decides about an integer


def rounding_band(arms: Arms, rules: VerdictRules) -> Tolerance | None:
    """Return the stated band of the type in which the arms train; None if their rules are older than these bands.

    If the arms' types differ or are unknown, it is the widest band: a difference inside it may be rounding.
    """
    bands = {name.removeprefix(STATED): one for name, one in rules.tolerances.items() if name.startswith(STATED)}
    kinds = {_kind_of(run) for arm in arms for run in arm.runs}
    known = [bands[kind] for kind in kinds if kind in bands]
    chosen = known if len(known) == len(kinds) else bands.values()
    return max(chosen, key=lambda band: band.relative or 0.0, default=None)


def _kind_of(run: RunRecord) -> str:
    """Return CHOICES, or the type of the activations; empty if unknown."""
    config = config_of(run)
    if config.get("quantization") or config.get("num_experts", "1") != "1":
        return CHOICES
    return config.get("dtype", "").rpartition(".")[2].strip("'\"")  # MaxText may print jnp.bfloat16
