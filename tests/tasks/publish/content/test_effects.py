"""The interval of a row, drawn against its threshold on the scale of its table."""

from collections.abc import Callable

import pytest

from tasks.publish.content.effects import MARGIN, MAX_REACH, MIN_REACH, WIDTH, DrawnEffect, draw_effects
from tasks.records.compared_case import MetricDiff

type MakeRow = Callable[..., MetricDiff]


def noisy(make_row: MakeRow, name: str, effect: float, better: str = "lower") -> MetricDiff:
    """A row of 1 s with a threshold of 2 %, known to half a percent."""
    row = make_row(name, name, ("1", "1", "0"), "unknown", "", better=better)
    reported = {"baseline": 1.0, "threshold": 0.02, "effect": effect}
    return row.replace(**(reported | {"effect_low": effect - 0.005, "effect_high": effect + 0.005}))


def thresholds(line: DrawnEffect) -> float:
    """The drawn distance of the point from the middle, to the right, in thresholds."""
    return (line.point - WIDTH / 2) / (line.band[1] / 2)


@pytest.mark.parametrize("effect", [0.0, 0.01, -0.05, 0.08, 0.24])
def test_a_points_distance_is_its_effect_in_thresholds(make_row: MakeRow, effect: float) -> None:
    slower, faster = noisy(make_row, "slower", effect), noisy(make_row, "fewer", effect, better="higher")
    drawn = draw_effects([slower, faster])
    assert thresholds(drawn["slower"]) == pytest.approx(effect / 0.02, abs=0.05)
    assert thresholds(drawn["fewer"]) == pytest.approx(-effect / 0.02, abs=0.05)
    for line in drawn.values():
        assert line.interval is not None
        low, high = line.interval
        assert MARGIN <= low <= line.point <= high <= WIDTH - MARGIN


def test_all_rows_share_a_scale_of_limited_range(make_row: MakeRow) -> None:
    half = WIDTH / 2 - MARGIN
    calm = draw_effects([noisy(make_row, "calm", 0.0)])["calm"]
    assert calm.band[1] / 2 == pytest.approx(half / MIN_REACH, abs=0.1)
    both = draw_effects([noisy(make_row, "calm", 0.0), noisy(make_row, "wild", 5.0)])
    assert both["calm"].band == both["wild"].band
    assert both["calm"].band[1] / 2 == pytest.approx(half / MAX_REACH, abs=0.1)
    assert both["wild"].point == WIDTH - MARGIN  # at the edge, and not cut off


def test_a_row_without_a_threshold_is_not_drawn(make_row: MakeRow) -> None:
    row = noisy(make_row, "x", 0.01)
    assert draw_effects([row.replace(threshold=None)]) == {}
    assert draw_effects([row.replace(better="equal")]) == {}


def test_the_axis_says_the_threshold_and_which_side_is_worse(make_row: MakeRow) -> None:
    """A threshold of 2 %; fewer tokens are worse, and the axis is turned."""
    drawn = draw_effects([noisy(make_row, "slower", 0.0), noisy(make_row, "fewer", 0.0, better="higher")])
    assert drawn["slower"].ends == drawn["fewer"].ends == ("±2 % allowed", "worse →")


def test_a_long_axis_has_no_exponent(make_row: MakeRow) -> None:
    row = noisy(make_row, "scattered", 0.0).replace(threshold=0.5)
    assert draw_effects([row])["scattered"].ends == ("±50 % allowed", "worse →")
