"""Tests whether the difference of two curves can be chance: for an offset from one step on, or over blocks of steps."""

from math import comb, inf

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]  # scipy.stats takes 2 s to load

from configs.schema import Frozen
from tasks.diff.effect import CONFIDENCE
from tasks.metrics.printed import Values

MOST_BLOCKS = 4  # blocks of steps whose means are compared; they share the chance of a false difference
AT_ONCE = 5e-5  # of a value: after equal values in full precision, a larger jump is too large for rounding
SAME_GAP = 1e-6  # of a value: gaps that differ by less count as equal
MOVED = 0.25  # of the first gap: an offset's gap moves by no more; a gap that moves by more may wander
FEWEST = 2  # minimum number of steps that show an offset
OFFSET_CHANCE = 0.001  # that flips of the last digit look like an offset; wandering gaps do up to ten times as often
DIGIT_STEPS = 10  # minimum for an offset of one printed unit: a wandering gap stays at one for fewer in up to 5 %


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
        """The block's steps in words: `step 3`, `steps 3–9`."""
        return f"step {self.first}" if self.first == self.last else f"steps {self.first}–{self.last}"

    @property
    def furthest(self) -> float:
        """The largest difference inside the interval."""
        return abs(self.difference) + self.half


def compare_blocks(steps: NDArray[np.int64], sides: tuple[Values, Values]) -> tuple[Block, ...]:
    """Return Student's t test of each block's means; with one run of an arm, `half` and `chance` are unknown.

    Neighbouring steps of a run are not independent, so each run contributes one mean per block.
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
    """Return whether the curves differ by an offset from one step on, which neither rounding nor chance explains.

    Nondeterminism starts small and grows. In full precision, the first difference after equal steps is therefore small;
    in printed values, single last digits flip before all steps differ. So an offset of printed values has to be present
    at every step from the first difference on, in one direction, and as large as at first: the chance that n flips
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
