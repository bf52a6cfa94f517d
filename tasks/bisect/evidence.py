"""Decides whether the runs prove a difference: of the ends, and of the suspect against the point before it.

A machine may be noisier than stated: other work slows some runs, or it has two clock states. Repeats of one point
show that. From then on only ranks count, which assume nothing about the noise.
"""

from math import sqrt

from scipy.special import fdtrc, stdtrit  # type: ignore[import-untyped]  # its stubs are a package of their own

from tasks.bisect.posterior import Belief
from tasks.bisect.terms import ENDS, WORSE, Judge, Line, Rated
from tasks.diff.decide_noisy import CHANCE

WITNESSES = 2  # runs of the point that is named: other work on the machine may have slowed one of them
SCATTER = 0.01  # chance of such repeats by the stated noise, below which the machine is noisier than stated
RANKED = 3  # fresh runs of each side, from which on ranks are computed


def judge_ends(line: Line, judge: Judge) -> Rated:
    """Return the first look at the ends that decided, else the last: k runs of each are the k-th look.

    For a time, *same* needs two runs of each: one slowed run of good hides the difference.
    """
    both = min(judge.runs(0), judge.runs(line.last))
    rated = Rated(verdict="unknown", text="not run yet", wanted=1)
    if both and rank_chance(judge, 0, line.last) <= CHANCE / ENDS:
        return judge.compare(0, line.last, shares=ENDS).model_copy(update={"verdict": "regressed"})
    if both and scatters(line, judge):
        return judge.compare(0, line.last, shares=ENDS).model_copy(update={"verdict": "unknown"})
    for runs in range(1, both + 1):
        rated = judge.compare(0, line.last, runs=runs, shares=ENDS)
        if rated.verdict in WORSE or (rated.verdict != "unknown" and (runs >= WITNESSES or not judge.varies)):
            return rated
    return rated.model_copy(update={"verdict": "unknown"})


def is_proven(line: Line, judge: Judge, belief: Belief, pair: tuple[int, int], rated: Rated, chance: float) -> bool:
    """Return whether the second point of a pair is surely worse than the first.

    rated: the verdict rule's comparison of the pair. chance: of a false alarm.
    """
    if not judge.varies:
        return rated.verdict in WORSE
    if rank_chance(judge, *pair) <= chance:
        return True
    return rated.verdict in WORSE and not scatters(line, judge) and _is_witnessed(judge, belief, pair, chance)


def scatters(line: Line, judge: Judge) -> bool:
    """Return whether repeats of single points differ by more than the stated noise allows (F test)."""
    squares, df = 0.0, 0
    for point in {*line.alike, 0, line.last} if judge.varies else ():
        values = [] if judge.failed(point) else [one.value for one in judge.observe(point)]
        if len(values) > 1:
            mean = sum(values) / len(values)
            squares += sum((value - mean) ** 2 for value in values)
            df += len(values) - 1
    return bool(df) and float(fdtrc(df, judge.noise.df, 2 * squares / df / judge.noise.scale**2)) < SCATTER


def rank_chance(judge: Judge, before: int, after: int) -> float:
    """Return the chance that equal points have runs in such an order (Mann and Whitney, one-sided, exact).

    The first run of each is left out, because it made the pair the suspect. 1 if there are too few others.
    """
    if not judge.varies or judge.failed(before) or judge.failed(after):
        return 1.0
    sides = [[one.value for one in judge.observe(point)][1:] for point in (before, after)]
    if min(map(len, sides)) < RANKED:
        return 1.0
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]  # slow to load, and few searches need it

    return float(mannwhitneyu(sides[1], sides[0], alternative="greater", method="exact").pvalue)


def _is_witnessed(judge: Judge, belief: Belief, pair: tuple[int, int], chance: float) -> bool:
    """Return whether two runs of the suspect show a step larger than the scatter of all runs of the line."""
    before, after = ([one.value for one in judge.observe(point)] for point in pair)
    if len(after) < WITNESSES:
        return False
    step = sum(after) / len(after) - sum(before) / len(before)
    error = belief.sigma * sqrt(1 / len(before) + 1 / len(after))
    return step > error * float(stdtrit(belief.df, 1 - chance / 2))
