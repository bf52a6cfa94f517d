"""Decides whether the runs prove a difference: of bad against good, or of a suspect against the point before it.

A point is a commit or a package version. A suspect is a point that probably changed the metric. The first point is
good, the last one is bad: the ends. A machine may be noisier than the verdict rule states: other work slows some runs,
or the clock has two states. If repeats of the points show this, only rank tests count, because they assume no size of
the noise. Otherwise the verdict rule can also prove that bad is worse. It proves that a suspect's time is worse only if
the suspect's mean also exceeds the previous point's mean significantly, by the noise that the posterior estimates.
"""

from math import sqrt

from scipy.special import fdtrc, stdtrit  # type: ignore[import-untyped]  # scipy-stubs is not installed

from questions.bisect.posterior import Belief
from questions.bisect.terms import HALVES, WORSE, Judge, Line
from tasks.diff.examine.circumstances import CHANCE
from tasks.records.compared_case import Decision

# Minimum runs of a suspect whose time is proven worse, and of each end if the verdict on a time is not worse, because
# other work on the machine may have slowed a single run.
MIN_RUNS = 2
SCATTER = 0.01  # if the repeats' p-value under the stated noise is below this, the machine is noisier than stated
MIN_RANKED_RUNS = 3  # minimum runs of each point in a rank test, without the point's first run


def judge_ends(line: Line, judge: Judge) -> Decision:
    """Return the verdict on bad against good.

    The verdict is regressed if the ranks show it, else unknown if repeats scatter. Otherwise the first 1, 2, … runs of
    each end are compared until a verdict is sure; without one it is unknown. If the metric is a time, a verdict other
    than worse needs MIN_RUNS runs of each end, because one slowed run of good hides a difference.
    """
    both = min(judge.runs(0), judge.runs(line.last))
    pair_verdict = Decision(verdict="unknown", reason="not run yet", runs_wanted=1)
    if both and rank_chance(judge, 0, line.last) <= CHANCE / HALVES:
        return judge.compare(0, line.last, shares=HALVES).replace(verdict="regressed")
    if both and scatters(line, judge):
        return judge.compare(0, line.last, shares=HALVES).replace(verdict="unknown")
    for runs in range(1, both + 1):
        pair_verdict = judge.compare(0, line.last, runs=runs, shares=HALVES)
        if pair_verdict.verdict in WORSE or (
            pair_verdict.verdict != "unknown" and (runs >= MIN_RUNS or not judge.judges_time)
        ):
            return pair_verdict
    return pair_verdict.replace(verdict="unknown")


def is_proven(
    line: Line, judge: Judge, belief: Belief, pair: tuple[int, int], pair_verdict: Decision, chance: float
) -> bool:
    """Return whether the second point of a pair is surely worse than the first.

    pair_verdict: the verdict rule's comparison of the pair. chance: the allowed false-alarm probability.
    """
    if not judge.judges_time:
        return pair_verdict.verdict in WORSE
    if rank_chance(judge, *pair) <= chance:
        return True
    return pair_verdict.verdict in WORSE and not scatters(line, judge) and _exceeds_noise(judge, belief, pair, chance)


def scatters(line: Line, judge: Judge) -> bool:
    """Return whether the repeats of the points differ by more than the stated noise allows (F test over all points).

    False if the metric is no time, or if no point has repeats.
    """
    squares, df = 0.0, 0
    for point in {*line.alike, 0, line.last} if judge.judges_time else ():
        values = [] if judge.failed(point) else [one.value for one in judge.observe(point)]
        if len(values) > 1:
            mean = sum(values) / len(values)
            squares += sum((value - mean) ** 2 for value in values)
            df += len(values) - 1
    return bool(df) and float(fdtrc(df, judge.noise.df, 2 * squares / df / judge.noise.scale**2)) < SCATTER


def rank_chance(judge: Judge, before: int, after: int) -> float:
    """Return the one-sided exact p-value of the Mann-Whitney test that the point `after` is slower than `before`.

    The test leaves out each point's first run, because the first runs made the pair suspect. Returns 1 if the metric is
    no time, if a point failed, or if a point has fewer than MIN_RANKED_RUNS further runs.
    """
    if not judge.judges_time or judge.failed(before) or judge.failed(after):
        return 1.0
    sides = [[one.value for one in judge.observe(point)][1:] for point in (before, after)]
    if min(map(len, sides)) < MIN_RANKED_RUNS:
        return 1.0
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]  # slow to load, and few searches need it

    return float(mannwhitneyu(sides[1], sides[0], alternative="greater", method="exact").pvalue)


def _exceeds_noise(judge: Judge, belief: Belief, pair: tuple[int, int], chance: float) -> bool:
    """Return whether the mean of the second point's runs exceeds that of the first point's runs significantly.

    Returns False if the second point has fewer than MIN_RUNS runs. The test uses the noise that the posterior
    (`belief`) estimates from the runs of all points.
    """
    before, after = ([one.value for one in judge.observe(point)] for point in pair)
    if len(after) < MIN_RUNS:
        return False
    step = sum(after) / len(after) - sum(before) / len(before)
    error = belief.sigma * sqrt(1 / len(before) + 1 / len(after))
    return step > error * float(stdtrit(belief.df, 1 - chance / 2))
