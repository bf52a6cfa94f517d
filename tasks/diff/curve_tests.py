"""Says of two curves that differ whether that can be chance: an offset that begins at one step, or blocks of steps."""

from math import comb, inf

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]  # scipy.stats takes 2 s to load

from configs.schema import Frozen
from tasks.diff.effect import CONFIDENCE
from tasks.metrics.printed import Values

MOST_BLOCKS = 4  # of steps, whose means are compared; each takes its share of the chance
AT_ONCE = 5e-5  # of a value: what is known in full and jumps by more, where all before was equal, is no rounding
SAME_GAP = 1e-6  # of a value: gaps that differ by less are one and the same
MOVED = 0.25  # of the first gap: a gap that moves by more is no offset, but may wander
FEWEST = 2  # steps that show one
OFFSET_CHANCE = 0.001  # that flips of the last digit look like one; wandering gaps do up to ten times as often
DIGIT_STEPS = 10  # one unit of the last digit in fewer steps is no offset: a wandering gap stays at one in up to 5 %


class Block(Frozen):
    """The means of both arms over neighbouring steps: candidate − baseline, half of its 99 % interval, its chance."""

    first: int
    last: int
    baseline: float
    difference: float
    half: float = inf
    chance: float = 1.0

    @property
    def steps(self) -> str:
        """Its steps as people name them."""
        return f"step {self.first}" if self.first == self.last else f"steps {self.first}–{self.last}"

    @property
    def furthest(self) -> float:
        """The largest difference inside the interval."""
        return abs(self.difference) + self.half


def compare_blocks(steps: NDArray[np.int64], sides: tuple[Values, Values]) -> tuple[Block, ...]:
    """Student's t of each block's means, run by run; with one run of an arm nothing is known of the chance.

    Neighbouring steps are not independent, and neither are the blocks of one run: so a run counts once in each.
    """
    counts = [len(side) for side in sides]
    degrees = sum(counts) - 2
    blocks = []
    for index in np.array_split(np.arange(len(steps)), min(len(steps), MOST_BLOCKS)):
        means = [side[:, index].mean(axis=1) for side in sides]
        difference = float(means[1].mean() - means[0].mean())
        spread = {}
        if min(counts) > 1:
            variance = sum(float(np.sum((side - side.mean()) ** 2)) for side in means) / degrees
            error = (variance * (1 / counts[0] + 1 / counts[1])) ** 0.5
            spread["half"] = float(stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error
            spread["chance"] = float(2 * stdtr(degrees, -abs(difference) / error)) if error else float(not difference)
        place = {"first": int(steps[index[0]]), "last": int(steps[index[-1]])}
        blocks.append(Block(**place, baseline=float(means[0].mean()), difference=difference, **spread))
    return tuple(blocks)


def is_offset(sides: tuple[Values, Values], *, exact: bool, unit: float = 0.0) -> bool:
    """Whether one curve lies beside the other from one step on, so that rounding and chance are no explanation.

    What nondeterminism makes begins small: in full precision the first difference behind equal steps is then no jump;
    of printed digits some flip here and there before all do, and the gap grows. So of printed values every step from
    the first difference on has to differ, in one direction, and by as much as at first: the chance that n flips
    among all steps are the last n and of one sign is 2^(1 - n) ÷ C(steps, n). Curves that differ from the first step on
    may be other draws, unless the gap is the same at every step. unit: of the last printed digit; 0 in full precision.
    """
    gaps = sides[1][0] - sides[0][0]
    differs = np.flatnonzero(gaps)
    if not differs.size:
        return False
    first, later = int(differs[0]), gaps[differs[0] :]
    if exact and first > 0:
        return bool(abs(later[0]) >= AT_ONCE * abs(sides[0][0][first]))
    if first and later.size < DIGIT_STEPS and abs(later[0]) <= unit * (1 + SAME_GAP):
        return False
    largest = float(np.max(np.abs(sides[0][0])))
    if later.size < FEWEST or not (np.all(later > 0) or np.all(later < 0)):
        return False
    if float(np.max(np.abs(later - later[0]))) > (MOVED if first else 0.0) * abs(later[0]) + SAME_GAP * largest:
        return False
    return bool(2.0 ** (1 - later.size) / comb(gaps.size, later.size) <= OFFSET_CHANCE)
