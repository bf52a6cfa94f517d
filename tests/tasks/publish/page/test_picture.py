"""The picture at the top of a page: the deciding curve without stalls, or how far each arm came."""

from itertools import pairwise

from tasks.publish.page.picture import STRETCHES, draw_picture, draw_reach
from tasks.records import ComparisonRecord, Curve


def timed(record: ComparisonRecord, steps: int) -> ComparisonRecord:
    """The record with step times of 80 ms (baseline) and 100 ms (candidate), a slow first step, and a finding less."""
    curves = tuple(
        Curve(
            metric="step_time_s",
            arm=arm.name,
            run_name=arm.runs[0],
            steps=tuple(range(steps)),
            values=(9.0, *[seconds] * (steps - 1)),
            lines=tuple(range(steps)),
            offsets=tuple(range(steps)),
        )
        for arm, seconds in ((record.baseline, 0.08), (record.candidate, 0.1))
    )
    return record.model_copy(update={"curves": curves, "findings": (), "stalls": {}})


def test_the_first_step_is_left_out_and_both_arms_are_drawn(record_002: ComparisonRecord) -> None:
    picture = draw_picture(timed(record_002, 20))
    assert picture is not None
    assert [line.side for line in picture.lines] == ["baseline", "candidate"]
    assert picture.steps == (1, 19)
    assert picture.ends[1] == "102 ms"  # 100 ms and a tenth of the range above it
    heights = [{float(point.split(",")[1]) for point in line.path[1:].split("L")} for line in picture.lines]
    assert min(heights[0]) > max(heights[1])  # slower is higher


def test_a_long_curve_keeps_its_extremes(record_002: ComparisonRecord) -> None:
    record = timed(record_002, 50_000)
    values = list(record.curves[1].values)
    values[31_234] = 0.5
    spiked = record.curves[1].model_copy(update={"values": tuple(values)})
    picture = draw_picture(record.model_copy(update={"curves": (record.curves[0], spiked)}))
    assert picture is not None
    points = [tuple(map(float, point.split(","))) for point in picture.lines[1].path[1:].split("L")]
    assert len(points) <= 2 * STRETCHES
    assert sum(y < 20 for _, y in points) == 1
    assert all(a[0] <= b[0] for a, b in pairwise(points))


def test_a_death_shows_how_far_each_arm_came(record_000: ComparisonRecord, record_002: ComparisonRecord) -> None:
    assert draw_picture(record_000) is None
    reached = {one.side: (one.steps, one.share, one.died) for one in draw_reach(record_000)}
    assert reached == {"baseline": (10, 1.0, False), "candidate": (0, 0.0, True)}
    assert draw_reach(record_002) == []


def test_what_cannot_be_compared_has_no_picture(record_002: ComparisonRecord) -> None:
    assert any(finding.effect == "blocks" for finding in record_002.findings)
    assert draw_picture(record_002) is None
