"""Estimates how much equal runs differ: from the stated noise, the target's history, and the runs' places and times.

Differences and their scales are natural logarithms of ratios: 0.01 is 1 %. An arm is one side of a comparison of runs.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np

from configs.frozen import Frozen
from configs.verdict_rules import DeviceNoise
from tasks.diff.examine.arms import Arms
from tasks.diff.examine.distributions import log_gamma
from tasks.records.run import RunRecord
from tasks.records.run_facts import seconds_between

MIN_PAIRS = 8  # pairs of equal runs in the history; with fewer, only the stated noise is used
STATED_WITHIN = 1.0  # standard deviation × √weight of the prior for log(scale), whose mean is the stated scale
# The weight of a statement counts how much machines of a kind differ from each other; one machine's own differences
# have lighter tails: the prior for their degrees of freedom is not below this
LEAST_TAILS = 3.0
TAILS_WITHIN = 0.7  # standard deviation of the prior for log(degrees of freedom)
FINEST = 1e-4  # smallest noise assumed, as a logarithm of a ratio
LENT = 0.5  # degrees of freedom per pair beyond MIN_PAIRS: below 1, as pairs share runs and machines change
NEIGHBOURS_S = 600.0  # longest pause between neighbouring runs; after a longer one, the machine may have other load
OTHER_TIMES, OTHER_PLACES = "the arms ran at other times", "the arms ran in other places"
NO_PLACE = "the logs do not name their nodes: taken as two places"


class Past(Frozen):
    """The differences of pairs of equal runs in a history."""

    differences: tuple[float, ...]  # one per pair: logarithm of the ratio of its two levels
    errors: tuple[float, ...] = ()  # one per pair: standard error of the difference due to both levels; () if unknown
    source: str  # e.g. "history of cpu"


class Noise(Frozen):
    """The distribution of the difference between two equal runs shortly after each other: Student's t around 0.

    It excludes the error of each run's own level, which is estimated from the run's steps.
    """

    scale: float
    df: float  # degrees of freedom
    pairs: int = 0  # pairs of the history that it was learnt from; 0: it is the stated noise
    source: str = ""  # in words
    one_run: tuple[float, float] | None = None  # scale and df where each arm has one run; None: the same


@lru_cache(maxsize=256)  # all cases of a comparison use the same history
def learn_noise(stated: DeviceNoise, past: Past | None = None) -> Noise:
    """Return the noise of a device: the stated one; from MIN_PAIRS pairs on, a fit to the history.

    Model: the variance of a pair follows a scaled inverse χ² with d₀ degrees of freedom around s₀², as in G. K. Smyth's
    moderated t ("Linear models and empirical Bayes methods", SAGMB 3 (2004)). Differences then follow Student's t with
    scale s₀ and d₀ degrees of freedom; a small d₀ means heavy tails. Both are fitted to the history's differences, with
    the stated values as priors, whose weight falls with every pair. The fitted scale excludes the errors of the pairs'
    levels; `measure_effect` adds those of the judged runs. The scale may lie above or below the stated one: a machine
    with two clock states has a larger scale and heavier tails.
    """
    sizes = np.asarray(past.differences if past else ())
    squares = np.square(past.errors if past and past.errors else np.zeros(sizes.size))
    known = np.isfinite(sizes) & np.isfinite(squares)
    sizes, squares = sizes[known], squares[known]
    one = stated.one_run or stated
    tails = max(one.weight, LEAST_TAILS)
    if past is None or sizes.size < MIN_PAIRS:
        return Noise(scale=stated.equal_runs, df=stated.weight, source=stated.why, one_run=(one.equal_runs, one.weight))
    from scipy import optimize  # type: ignore[import-untyped]  # slow to load, and only a long history needs it

    def cost(parameters: Sequence[float]) -> float:
        log_scale, log_df = parameters
        off = (log_scale - log(one.equal_runs)) * sqrt(one.weight) / STATED_WITHIN
        heavy, df = (log_df - log(tails)) / TAILS_WITHIN, exp(log_df)
        # minus the logarithms of the priors (normal) and of each difference's density (Student's t), less constants
        variances = exp(2 * log_scale) + squares
        each = log_gamma(df / 2) - log_gamma((df + 1) / 2) + log(df) / 2 + np.log(variances) / 2
        far = (df + 1) / 2 * np.log1p(sizes**2 / variances / df)
        return float((off**2 + heavy**2) / 2 + (each + far).sum())

    start = max(float(np.median(np.abs(sizes))), FINEST)
    fit = optimize.minimize(cost, [log(start), log(tails)], method="Nelder-Mead")
    scale, df = (exp(value) for value in fit.x)
    # less 1: fitting the scale uses one degree of freedom
    lent = min(df, tails - 1 + LENT * (sizes.size - MIN_PAIRS))
    return Noise(scale=max(scale, FINEST), df=lent, pairs=sizes.size, source=past.source)


# (machine or slice, session). A session is neighbouring runs of one arm; "" if the arms' runs ran shortly after each
# other.
type Group = tuple[str, str]


def estimate_noise_between(arms: Arms, noise: DeviceNoise) -> tuple[float, str]:
    """Return how much different machines or days make two arms differ (standard deviation), and the reason; 0 if none.

    Runs on the same machine in the same session form a group. All runs of a group have the same random offset. If each
    group has the same share of both arms' runs, these offsets cancel.
    """
    near = are_neighbours(arms)
    groups = [_groups(arm.runs, arm.name, near=near) for arm in arms]
    shares = [Counter(side) for side in groups]
    # `stated` below applies to arms with one group each; then `apart` is 2
    apart = sum(
        (shares[0][group] / len(groups[0]) - shares[1][group] / len(groups[1])) ** 2
        for group in {*groups[0], *groups[1]}
    )
    if not apart:
        return 0.0, ""
    places = noise.days_apart if noise.places_apart is None else noise.places_apart
    if not near:
        return noise.days_apart * sqrt(apart / 2), OTHER_TIMES
    named = all(place_of_run(run) for arm in arms for run in arm.runs)
    return places * sqrt(apart / 2), OTHER_PLACES if named else NO_PLACE


def place_of_run(run: RunRecord) -> str:
    """Return the machine or slice of a run; empty if unknown.

    All runs that maxview launched on this machine for one target have one place. On a cluster, the place of a
    run is its nodes.
    """
    if run.reading.environment.place:
        return run.reading.environment.place
    return f"this machine, {run.plan.target}" if run.plan is not None and run.plan.backend == "local" else ""


def _groups(runs: tuple[RunRecord, ...], arm: str, *, near: bool) -> list[Group]:
    """Return the group of each run. Runs on an unknown machine share a group only with runs of their own arm."""
    if near:
        return [(place_of_run(run) or f"of {arm}", "") for run in runs]
    groups, session = [], 0
    ordered = sorted(runs, key=_started)
    for before, run in pairwise([ordered[0], *ordered]):
        session += _waited_s(before, run) > NEIGHBOURS_S if before is not run else 0
        groups.append((place_of_run(run), f"{arm} {session}"))
    return groups


def are_neighbours(arms: Arms) -> bool:
    """Return whether the n-th runs of both arms ran shortly after one another; True for logs without times.

    If one arm has more runs, this is about each run and the next one in time. False e.g. for the reused runs of an
    earlier baseline, or logs from different days.
    """
    sides = [sorted(arm.runs, key=_started) for arm in arms]
    if len(sides[0]) == len(sides[1]):
        pairs = [sorted(pair, key=_started) for pair in zip(*sides, strict=True)]
    else:
        pairs = [list(pair) for pair in pairwise(sorted([*sides[0], *sides[1]], key=_started))]
    return all(_waited_s(before, after) <= NEIGHBOURS_S for before, after in pairs)


def _started(run: RunRecord) -> str:
    return run.reading.started or ""


def _waited_s(before: RunRecord, after: RunRecord) -> float:
    """Return the seconds from the end of a run to the start of a later one; 0 if the logs have no times."""
    waited = seconds_between(before.reading.ended or before.reading.started, after.reading.started)
    return max(0.0, waited or 0.0)
