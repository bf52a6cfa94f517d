"""The drawing of effects of many comparisons on one scale: centre, sides, band, and what lies beyond."""

from tasks.publish.site.forest import WIDTH, draw_forest
from tasks.publish.site.index import IndexedComparison


def result(case: str, effect: float | None, **more: object) -> IndexedComparison:
    return IndexedComparison.model_validate(
        {
            "comparison": "c", "case": case, "id": "1", "target": "cpu", "created": "2026-11-21", "verdict": "same",
            "headline": "", "baseline": "main", "candidate": "x", "effect": effect, **more,
        }
    )  # fmt: skip


def test_slower_is_right_and_the_threshold_is_a_band_around_the_centre() -> None:
    slower = result("a", 0.1, interval=(0.05, 0.15), allowed=0.02)
    faster, dead = result("b", -0.1), result("c", 0.3, died=True)
    forest = draw_forest([slower, faster, dead, result("d", None)])
    right, left = forest.effects[slower.key], forest.effects[faster.key]
    assert len(forest.effects) == 2  # none of a dead arm, none without an effect
    assert left.point < WIDTH / 2 < right.point
    assert abs(left.point + right.point - WIDTH) < 0.11  # px are rounded to 0.1: as far left as right
    assert right.interval is not None
    assert right.interval[0] < right.point < right.interval[1]
    start, width = right.band
    assert abs(start + width / 2 - WIDTH / 2) < 0.11
    # the band is ±2 %, the point at 10 %: a fifth of its distance on either side
    assert abs(width / 2 - (right.point - WIDTH / 2) / 5) < 0.2
    assert left.interval is None
    assert (right.words, left.words) == ("+10.0 % (+5.0 … +15.0)", "-10.0 %")
    assert [label for _, label in forest.ticks] == ["-10 %", "-5 %", "0", "+5 %", "+10 %"]


def test_an_effect_beyond_the_axis_is_an_arrow_at_its_end() -> None:
    huge, small = result("a", 9.0), result("b", 0.01)
    forest = draw_forest([huge, small])
    assert (forest.effects[huge.key].beyond, forest.effects[small.key].beyond) == ("→", "")
    assert small.effect is not None
    assert WIDTH / 2 < forest.effects[small.key].point < forest.effects[huge.key].point < WIDTH


def test_without_effects_there_is_no_axis() -> None:
    assert draw_forest([result("a", None)]).ticks == ()
