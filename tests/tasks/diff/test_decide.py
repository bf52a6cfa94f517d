"""Edge cases of the decision about metrics without noise."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.verdict_rules import Tolerance
from tasks.diff.judge.decide import decide_exact, show_threshold
from tasks.diff.phrases.amounts import show_duration
from tasks.records.compared_case import Better, Verdict
from tests.wording.sentences import Wording

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
        # a value that became NaN is worse, whichever side is better
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
        (1.0, 2.0, "equal", ZERO, 0.0, "changed"),
        (2.0, 1.0, "equal", ZERO, 0.0, "changed"),
        # exactly the threshold is within it, one bit more is not
        (1.0, 1.5, "lower", HALF, 0.0, "same"),
        (1.0, 0.5, "lower", HALF, 0.0, "same"),
        (1.0, 1.5001, "lower", HALF, 0.0, "regressed"),
        (100.0, 105.0, "lower", FIVE_PERCENT, 0.0, "same"),
        (100.0, 105.1, "lower", FIVE_PERCENT, 0.0, "regressed"),
        (-100.0, -105.0, "lower", FIVE_PERCENT, 0.0, "same"),
        (0.0, 1e-30, "lower", FIVE_PERCENT, 0.0, "regressed"),  # 0 has no relative tolerance
        (0.6, 1.1, "lower", HALF, 0.0, "same"),  # in binary, 1.1 - 0.6 is a bit more than 0.5
        # one printed unit may be rounding; two are not
        (8.459, 8.458, "equal", ZERO, 0.001, "unknown"),
        (8.458, 8.459, "equal", ZERO, 0.001, "unknown"),
        (8.459, 8.457, "equal", ZERO, 0.001, "changed"),
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


def test_the_reason_of_an_exact_metric_names_the_tolerance_or_the_precision(wording: Wording) -> None:
    equal = decide_exact(1.0, 1.0, better="lower", tolerance=ZERO, precision="the last bit")
    assert equal.reason == "equal to the last bit"
    within = decide_exact(1.0, 1.5, better="lower", tolerance=HALF, precision="")
    assert within.reason == "within ±0.5: half a unit does not matter"
    beyond = decide_exact(1.0, 2.5, better="lower", tolerance=HALF, precision="")
    assert "+1.5" in beyond.reason
    assert HALF.why in beyond.reason
    assert (beyond.threshold, beyond.threshold_text) == (0.5, "±0.5")
    share = decide_exact(
        200.0, 221.0, better="lower", tolerance=Tolerance(relative=0.02, why="two percent"), precision=""
    )
    assert (share.threshold, share.threshold_text) == (4.0, "±2 %")  # of 200
    assert "+10.5 %" in share.reason
    wording("reasons", beyond.reason)
    wording("reasons", share.reason)
    lost = decide_exact(1.0, nan, better="lower", tolerance=HALF, precision="")
    assert lost.reason == "1 became nan"


@given(a=st.floats(), b=st.floats(), better=st.sampled_from(BETTER), unit=st.sampled_from([0.0, 0.001, 0.1]))
def test_exact_metrics_always_have_an_answer(a: float, b: float, better: Better, unit: float) -> None:
    there = decide_exact(a, b, better=better, tolerance=HALF, precision="p", unit=unit).verdict
    back = decide_exact(b, a, better=better, tolerance=HALF, precision="p", unit=unit).verdict
    if there in ("same", "unknown"):
        assert back == there
    elif better == "equal" and abs(a) != inf and abs(b) != inf and a == a and b == b:
        assert there == back == "changed"
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
        (90, "90 s"),
        (150, "2.5 minutes"),
        (300, "5 minutes"),
        (7140, "119 minutes"),
        (7200, "2.0 hours"),
        (45190, "12.6 hours"),
    ],
)
def test_durations_as_people_read_them(seconds: float, expected: str) -> None:
    assert show_duration(seconds) == expected
