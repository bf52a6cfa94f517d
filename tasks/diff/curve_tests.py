"""Tests whether the difference of two curves can be chance: for an offset from one step on, or over blocks of steps."""

from math import comb, inf

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]  # scipy.stats takes 2 s to load

from configs.schema import Frozen
from tasks.diff.effect import CONFIDENCE
from tasks.metrics.printed import Values

MOST_BLOCKS = 4  # blocks of steps whose means are compared; they share the chance of a false difference
AT_ONCE = 5e-5  # relative to the value: a larger first difference of precise values is not a rounding difference
SAME_GAP = 1e-6  # relative to the largest value: gaps that differ by less count as equal
MOVED = 0.25  # relative to the first gap: the gap of an offset changes by no more; random gaps change by more
FEWEST = 2  # least number of steps that show an offset
OFFSET_CHANCE = 0.001  # false alarm rate for random flips of the last digit; for random walks, up to ten times that
DIGIT_STEPS = 10  # least steps of an offset of one printed unit; up to 5 % of random walks stay there for fewer


class Block(Frozen):
    """A block of consecutive steps: the difference of the arms' mean values over it."""

    first: int  # number of its first step
    last: int
    baseline: float  # the baseline's mean value
    difference: float  # candidate − baseline
    half: float = inf  # half of the difference's confidence interval; inf if unknown
    chance: float = 1.0  # p-value of the difference; 1 if unknown

    @property
    def steps(self) -> str:
        """The block's steps in words: `step 3`, `steps 3–9`."""
        return f"step {self.first}" if self.first == self.last else f"steps {self.first}–{self.last}"

    @property
    def furthest(self) -> float:
        """The largest difference inside the interval."""
        return abs(self.difference) + self.half


def compare_blocks(steps: NDArray[np.int64], sides: tuple[Values, Values]) -> tuple[Block, ...]:
    """Return the blocks with Student's t test of their means; if an arm has one run, `half` and `chance` are unknown.

    sides: [runs, steps] of each arm. Neighbouring steps are not independent, so a run gives one mean per block.
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

    Nondeterminism starts small and grows. In full precision (`exact`), a large first difference after equal steps is
    an offset. In printed values, single last digits flip before all steps differ. So an offset must be present at every
    step from the first difference on, in one direction, and about as large as at first: n random flips are the last n
    steps and of one sign with probability 2^(1 - n) ÷ C(steps, n). Curves that differ from the first step on may have
    other random weights or data, unless the gap is the same at every step. unit: of the last printed digit, or 0.
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
