"""The decision rule at its edges."""

from collections.abc import Sequence
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.comparison import Tolerance
from tasks.diff.decide import decide_exact, decide_noisy, show_duration, show_threshold
from tasks.records import Better, Verdict

ZERO = Tolerance(absolute=0.0, why="it is exact")
HALF = Tolerance(absolute=0.5, why="half a unit does not matter")
FIVE_PERCENT = Tolerance(relative=0.05, why="runs differ by that much")
BETTER: tuple[Better, ...] = ("lower", "higher", "equal")


@pytest.mark.parametrize(
    ("baseline", "candidate", "better", "tolerance", "unit", "expected"),
    [
        (1.0, 1.0, "lower", ZERO, 0.0, "same"),
        (0.0, -0.0, "equal", ZERO, 0.0, "same"),
        (nan, nan, "lower", ZERO, 0.0, "same"),
        (inf, inf, "lower", ZERO, 0.0, "same"),
        # a value that stopped being a number is worse, whatever is better
        (1.0, nan, "lower", HALF, 0.0, "regressed"),
        (1.0, nan, "higher", HALF, 0.0, "regressed"),
        (1.0, inf, "higher", HALF, 0.0, "regressed"),
        (1.0, -inf, "lower", HALF, 0.0, "regressed"),
        (nan, 1.0, "equal", HALF, 0.0, "improved"),
        (inf, 1.0, "lower", HALF, 0.0, "improved"),
        (nan, inf, "lower", HALF, 0.0, "unknown"),
        # the direction
        (1.0, 2.0, "lower", ZERO, 0.0, "regressed"),
        (1.0, 2.0, "higher", ZERO, 0.0, "improved"),
        (2.0, 1.0, "lower", ZERO, 0.0, "improved"),
        (2.0, 1.0, "higher", ZERO, 0.0, "regressed"),
        (1.0, 2.0, "equal", ZERO, 0.0, "regressed"),
        (2.0, 1.0, "equal", ZERO, 0.0, "regressed"),
        # the threshold: on it is within it, one bit more is not
        (1.0, 1.5, "lower", HALF, 0.0, "same"),
        (1.0, 0.5, "lower", HALF, 0.0, "same"),
        (1.0, 1.5001, "lower", HALF, 0.0, "regressed"),
        (100.0, 105.0, "lower", FIVE_PERCENT, 0.0, "same"),
        (100.0, 105.1, "lower", FIVE_PERCENT, 0.0, "regressed"),
        (-100.0, -105.0, "lower", FIVE_PERCENT, 0.0, "same"),
        (0.0, 1e-30, "lower", FIVE_PERCENT, 0.0, "regressed"),  # nothing is within 5 % of nothing
        (0.6, 1.1, "lower", HALF, 0.0, "same"),  # in binary, 1.1 - 0.6 is a bit more than 0.5
        # one printed unit may be rounding; two are not
        (8.459, 8.458, "equal", ZERO, 0.001, "unknown"),
        (8.458, 8.459, "equal", ZERO, 0.001, "unknown"),
        (8.459, 8.457, "equal", ZERO, 0.001, "regressed"),
        (1.376, 1.408, "lower", Tolerance(absolute=0.005, why="two decimals"), 0.032, "unknown"),
        (1.376, 1.440, "lower", Tolerance(absolute=0.005, why="two decimals"), 0.032, "regressed"),
        (1.5, 1.6, "lower", ZERO, 0.1, "unknown"),
        (1.5, 1.7, "lower", ZERO, 0.1, "regressed"),
    ],
)
def test_exact_metrics(
    baseline: float, candidate: float, better: Better, tolerance: Tolerance, unit: float, expected: Verdict
) -> None:
    decision = decide_exact(baseline, candidate, better=better, tolerance=tolerance, precision="3 decimals", unit=unit)
    assert decision.verdict == expected, decision.reason
    assert decision.reason


def test_the_reason_of_an_exact_metric_names_the_tolerance_or_the_precision() -> None:
    equal = decide_exact(1.0, 1.0, better="lower", tolerance=ZERO, precision="the last bit")
    assert equal.reason == "equal to the last bit"
    within = decide_exact(1.0, 1.5, better="lower", tolerance=HALF, precision="")
    assert within.reason == "within ±0.5: half a unit does not matter"
    beyond = decide_exact(1.0, 2.5, better="lower", tolerance=HALF, precision="")
    assert beyond.reason == "differs by +1.5, allowed is 0.5 (half a unit does not matter)"
    assert (beyond.threshold, beyond.threshold_text) == (0.5, "±0.5")
    lost = decide_exact(1.0, nan, better="lower", tolerance=HALF, precision="")
    assert lost.reason == "1 became nan"


def noisy(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    better: Better = "lower",
    spread: float = 0.0,
    same_program: bool = False,
    cost_s: float | None = None,
    tolerance: Tolerance = FIVE_PERCENT,
) -> tuple[Verdict, str]:
    decision = decide_noisy(
        baseline,
        candidate,
        better=better,
        tolerance=tolerance,
        spread=spread,
        same_program=same_program,
        cost_s=cost_s,
    )
    return decision.verdict, decision.reason


A = (1.00, 1.01, 0.99)


@pytest.mark.parametrize(
    ("baseline", "candidate", "better", "spread", "expected"),
    [
        # fewer than three runs tell nothing, however large the difference
        ([1.0], [9.0], "lower", 0.0, "unknown"),
        ([1.0, 1.0], [9.0, 9.0], "lower", 0.0, "unknown"),
        (A, [9.0, 9.0], "lower", 0.0, "unknown"),
        ([9.0], A, "lower", 0.0, "unknown"),
        # beyond the tolerance, and apart
        (A, (1.10, 1.11, 1.09), "lower", 0.0, "regressed"),
        (A, (1.10, 1.11, 1.09), "higher", 0.0, "improved"),
        (A, (0.90, 0.91, 0.89), "lower", 0.0, "improved"),
        (A, (0.90, 0.91, 0.89), "higher", 0.0, "regressed"),
        # beyond the tolerance, but one run lies among those of the other arm
        (A, (1.10, 1.11, 1.005), "lower", 0.0, "unknown"),
        (A, (1.10, 1.11, 1.01), "lower", 0.0, "unknown"),  # equal to the slowest of the other is not apart
        # within the tolerance, with room for what the runs differ by
        (A, A, "lower", 0.0, "same"),
        (A, (1.02, 1.03, 1.01), "lower", 0.0, "same"),
        (A, (1.04, 1.05, 1.03), "lower", 0.0, "unknown"),  # apart, 4 % off, 2 % between runs: it may be 6 %
        # runs that agree, of steps that do not
        (A, A, "lower", 0.06, "same"),  # 0.06 / √3 = 0.035
        (A, A, "lower", 0.09, "unknown"),  # 0.09 / √3 = 0.052
        # on the tolerance is within it
        ((4.0, 4.0, 4.0), (4.25, 4.25, 4.25), "lower", 0.0, "regressed"),
        ((4.0, 4.0, 4.0), (4.125, 4.125, 4.125), "lower", 0.0, "same"),
    ],
)
def test_noisy_metrics(
    baseline: Sequence[float], candidate: Sequence[float], better: Better, spread: float, expected: Verdict
) -> None:
    verdict, reason = noisy(baseline, candidate, better=better, spread=spread)
    assert verdict == expected, reason


def test_the_reason_asks_for_as_many_runs_as_are_lacking_and_says_what_they_cost() -> None:
    assert noisy([1.0], [1.2], cost_s=341.0)[1] == (
        "+20.0 % from 1 run per arm: run-to-run noise is not known; run 2 more of each (--repeats 3, about 11 minutes)"
    )
    assert noisy([1.0, 1.0], [1.2, 1.2])[1].endswith("run 1 more of each (--repeats 3)")
    assert noisy(A, (1.10, 1.11, 1.005), cost_s=20.0)[1].endswith("run 3 more of each (--repeats 6, about 60 s)")


def test_the_same_program_makes_every_difference_noise() -> None:
    verdict, reason = noisy([1.0], [9.0], same_program=True)
    assert verdict == "same"
    assert reason == "both arms run the same compiled program: the measured +800.0 % is noise by construction"


def test_a_baseline_of_zero_has_no_percentage() -> None:
    verdict, reason = noisy((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), tolerance=Tolerance(absolute=0.1, why="a tenth"))
    assert verdict == "regressed"
    assert reason.startswith("+1, more than ±0.1")


times = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6)


@given(baseline=times, candidate=times, spread=st.floats(0, 10))
def test_swapping_the_arms_swaps_the_verdict(baseline: list[float], candidate: list[float], spread: float) -> None:
    tolerance = Tolerance(absolute=0.5, why="half")
    there = noisy(baseline, candidate, spread=spread, tolerance=tolerance)[0]
    back = noisy(candidate, baseline, spread=spread, tolerance=tolerance)[0]
    assert back == {"improved": "regressed", "regressed": "improved"}.get(there, there)


@given(baseline=times, candidate=times, spread=st.floats(0, 10))
def test_higher_is_better_is_the_mirror_of_lower_is_better(
    baseline: list[float], candidate: list[float], spread: float
) -> None:
    lower = noisy(baseline, candidate, better="lower", spread=spread)[0]
    higher = noisy(baseline, candidate, better="higher", spread=spread)[0]
    assert higher == {"improved": "regressed", "regressed": "improved"}.get(lower, lower)


@given(baseline=times, candidate=times, spread=st.floats(0, 10))
def test_runs_that_overlap_and_single_runs_never_show_a_change(
    baseline: list[float], candidate: list[float], spread: float
) -> None:
    overlap = max(baseline) >= min(candidate) and max(candidate) >= min(baseline)
    if overlap or min(len(baseline), len(candidate)) < 3:
        assert noisy(baseline, candidate, spread=spread)[0] in ("same", "unknown")


@given(runs=times, spread=st.floats(0, 10))
def test_equal_runs_never_differ(runs: list[float], spread: float) -> None:
    assert noisy(runs, runs, spread=spread)[0] in ("same", "unknown")


@given(a=st.floats(), b=st.floats(), better=st.sampled_from(BETTER), unit=st.sampled_from([0.0, 0.001, 0.1]))
def test_exact_metrics_always_have_an_answer(a: float, b: float, better: Better, unit: float) -> None:
    there = decide_exact(a, b, better=better, tolerance=HALF, precision="p", unit=unit).verdict
    back = decide_exact(b, a, better=better, tolerance=HALF, precision="p", unit=unit).verdict
    if there in ("same", "unknown"):
        assert back == there
    elif better == "equal" and abs(a) != inf and abs(b) != inf and a == a and b == b:
        assert there == back == "regressed"
    else:
        assert {there, back} == {"improved", "regressed"}


@pytest.mark.parametrize(
    ("tolerance", "unit", "expected"),
    [
        (FIVE_PERCENT, 0.0, "±5 %"),
        (Tolerance(relative=0.025, why="x"), 0.0, "±2.5 %"),
        (HALF, 0.001, "±0.5"),
        (ZERO, 0.0, "exact"),
        (ZERO, 0.001, "equal to 3 decimals"),
        (ZERO, 0.1, "equal to 1 decimal"),
    ],
)
def test_thresholds_as_people_read_them(tolerance: Tolerance, unit: float, expected: str) -> None:
    assert show_threshold(tolerance, unit) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.4, "0 s"),
        (89.4, "89 s"),
        (90, "2 minutes"),
        (7140, "119 minutes"),
        (7200, "2.0 hours"),
        (45190, "12.6 hours"),
    ],
)
def test_durations_as_people_read_them(seconds: float, expected: str) -> None:
    assert show_duration(seconds) == expected
