"""Decides whether the runs prove a difference: of bad against good, or of a suspect against the point before it.

A point is a commit or a package version. A suspect is a point that probably changed the metric. The first point is
good, the last one is bad: the ends. A machine may be noisier than the verdict rule states: other work slows some runs,
or the clock has two states. If repeats of one point show this, only rank tests count, because rank tests assume no size
of the noise. Otherwise a difference beyond the stated noise counts too.
"""

from math import sqrt

from scipy.special import fdtrc, stdtrit  # type: ignore[import-untyped]  # scipy-stubs is not installed

from tasks.bisect.posterior import Belief
from tasks.bisect.terms import HALVES, WORSE, Judge, Line, Rated
from tasks.diff.decide_noisy import CHANCE

MIN_RUNS = 2  # least runs of a culprit: other work on the machine may have slowed one run
SCATTER = 0.01  # below this p-value of the repeats under the stated noise, the machine is noisier than stated
RANKED = 3  # least runs of each point in a rank test, without the point's first run


def judge_ends(line: Line, judge: Judge) -> Rated:
    """Return the verdict on bad against good: by ranks, else unknown if repeats scatter, else the first sure verdict.

    First means with the fewest runs of each end: 1, 2, …. For a time, a verdict other than worse needs two runs of each
    end, because one slowed run of good hides a difference.
    """
    both = min(judge.runs(0), judge.runs(line.last))
    rated = Rated(verdict="unknown", text="not run yet", wanted=1)
    if both and rank_chance(judge, 0, line.last) <= CHANCE / HALVES:
        return judge.compare(0, line.last, shares=HALVES).model_copy(update={"verdict": "regressed"})
    if both and scatters(line, judge):
        return judge.compare(0, line.last, shares=HALVES).model_copy(update={"verdict": "unknown"})
    for runs in range(1, both + 1):
        rated = judge.compare(0, line.last, runs=runs, shares=HALVES)
        if rated.verdict in WORSE or (rated.verdict != "unknown" and (runs >= MIN_RUNS or not judge.varies)):
            return rated
    return rated.model_copy(update={"verdict": "unknown"})


def is_proven(line: Line, judge: Judge, belief: Belief, pair: tuple[int, int], rated: Rated, chance: float) -> bool:
    """Return whether the second point of a pair is surely worse than the first.

    rated: the verdict rule's comparison of the pair. chance: the allowed false-alarm probability.
    """
    if not judge.varies:
        return rated.verdict in WORSE
    if rank_chance(judge, *pair) <= chance:
        return True
    return rated.verdict in WORSE and not scatters(line, judge) and _exceeds_noise(judge, belief, pair, chance)


def scatters(line: Line, judge: Judge) -> bool:
    """Return whether repeats of a point differ by more than the stated noise allows (F test). For times; else False."""
    squares, df = 0.0, 0
    for point in {*line.alike, 0, line.last} if judge.varies else ():
        values = [] if judge.failed(point) else [one.value for one in judge.observe(point)]
        if len(values) > 1:
            mean = sum(values) / len(values)
            squares += sum((value - mean) ** 2 for value in values)
            df += len(values) - 1
    return bool(df) and float(fdtrc(df, judge.noise.df, 2 * squares / df / judge.noise.scale**2)) < SCATTER


def rank_chance(judge: Judge, before: int, after: int) -> float:
    """Return the one-sided exact p-value of the Mann-Whitney test that the point `after` is slower than `before`.

    The test leaves out each point's first run, because the first runs made the pair suspect. Returns 1 if a point has
    fewer than RANKED further runs.
    """
    if not judge.varies or judge.failed(before) or judge.failed(after):
        return 1.0
    sides = [[one.value for one in judge.observe(point)][1:] for point in (before, after)]
    if min(map(len, sides)) < RANKED:
        return 1.0
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]  # slow to load, and few searches need it

    return float(mannwhitneyu(sides[1], sides[0], alternative="greater", method="exact").pvalue)


def _exceeds_noise(judge: Judge, belief: Belief, pair: tuple[int, int], chance: float) -> bool:
    """Return whether the second point has MIN_RUNS runs, and their mean exceeds the first point's mean significantly.

    The test uses the noise that the posterior (`belief`) estimates from the runs of all points.
    """
    before, after = ([one.value for one in judge.observe(point)] for point in pair)
    if len(after) < MIN_RUNS:
        return False
    step = sum(after) / len(after) - sum(before) / len(before)
    error = belief.sigma * sqrt(1 / len(before) + 1 / len(after))
    return step > error * float(stdtrit(belief.df, 1 - chance / 2))
