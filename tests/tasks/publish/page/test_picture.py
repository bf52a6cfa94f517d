"""The picture at the top of a page: the deciding curve without stalls, or how far each arm came."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from tasks.publish.page.picture import HEIGHT, STRETCHES, draw_bars, draw_picture
from tasks.records.compared_case import ComparisonRecord, Curve, MetricDiff
from tasks.records.explanation import Explanation, TimeDifference, TimeExplanation

type MakeRow = Callable[..., MetricDiff]


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
    return record.replace(curves=curves, findings=(), stalls={})


def test_the_first_step_is_left_out_and_both_arms_are_drawn(record_002: ComparisonRecord) -> None:
    picture = draw_picture(timed(record_002, 20))
    assert picture is not None
    assert [side for side, _ in picture.lines] == ["baseline", "candidate"]
    assert picture.steps == (1, 19)
    assert picture.ends[1] == "102 ms"  # 100 ms and a tenth of the range above it
    heights = [{float(point.split(",")[1]) for point in path[1:].split("L")} for _, path in picture.lines]
    assert min(heights[0]) > max(heights[1])  # slower is higher


def test_a_long_curve_keeps_its_extremes(record_002: ComparisonRecord) -> None:
    record = timed(record_002, 50_000)
    values = list(record.curves[1].values)
    values[31_234] = 0.5
    spiked = record.curves[1].replace(values=tuple(values))
    picture = draw_picture(record.replace(curves=(record.curves[0], spiked)))
    assert picture is not None
    points = [tuple(map(float, point.split(","))) for point in picture.lines[1][1][1:].split("L")]
    assert len(points) <= 2 * STRETCHES
    assert sum(y < 20 for _, y in points) == 1
    assert all(a[0] <= b[0] for a, b in pairwise(points))


def test_a_death_shows_how_far_each_arm_came(record_000: ComparisonRecord, record_002: ComparisonRecord) -> None:
    assert draw_picture(record_000) is None
    shown = draw_bars(record_000)
    assert shown is not None
    assert [(one.label, one.words, one.width) for one in shown.bars] == [
        ("baseline", "10 steps", 100.0),
        ("candidate", "0 steps", 0.0),
    ]


@pytest.mark.parametrize(
    ("message", "bars"),
    [
        (
            "Attempting to allocate 7.85G. That was not possible. There are 6.00G free.; (0x0x0_HBM0)",
            [("asked for", "7.85 GiB", 100.0), ("free", "6.00 GiB", 76.4)],
        ),
        (
            "Ran out of memory in memory space hbm. Used 62.50G of 31.25G hbm. Exceeded hbm capacity by 31.25G.",
            [("needed", "62.50 GiB", 100.0), ("on the device", "31.25 GiB", 50.0)],
        ),
        ("Out of memory while trying to allocate 8589934592 bytes.", [("baseline", "10 steps", 100.0)]),
    ],
)
def test_lacking_memory_is_drawn_if_the_log_tells_both_sizes(
    record_000: ComparisonRecord, message: str, bars: list[tuple[str, str, float]]
) -> None:
    error = record_000.candidate.cause_of_death
    assert error is not None
    error = error.replace(kind="device_oom", message=message)
    dead = record_000.candidate.replace(cause_of_death=error)
    shown = draw_bars(record_000.replace(candidate=dead))
    assert shown is not None
    assert [(one.label, one.words, one.width) for one in shown.bars[: len(bars)]] == bars


def test_a_value_that_no_curve_shows_is_a_pair_of_bars(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    """The step time of the program is no step of a run: a curve of runs beside it would show another quantity."""
    row = make_row("program_step_s", "Step time of the program", ("0.08", "0.10", "0.02"), "regressed", "", unit="s")
    record = timed(record_002, 20).replace(rows=(row,), verdict="regressed")
    assert draw_picture(record) is None
    shown = draw_bars(record)
    assert shown is not None
    assert [(one.label, one.words, one.width) for one in shown.bars] == [
        ("baseline", "80.0 ms", 80.0),
        ("candidate", "100 ms", 100.0),
    ]


@pytest.mark.parametrize(("candidate", "is_drawn"), [("0.0815", False), ("0.085", True)])
def test_bars_of_the_same_length_are_not_drawn(
    candidate: str, is_drawn: bool, record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    """2 % of a bar are not seen, 6 % are."""
    row = make_row(
        "program_step_s", "Step time of the program", ("0.08", candidate, "0.002"), "regressed", "", unit="s"
    )
    record = timed(record_002, 20).replace(rows=(row,), verdict="regressed")
    assert (draw_bars(record) is not None) == is_drawn


def test_a_profile_shows_where_the_time_went(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    found = [
        TimeDifference(what="gather", baseline_s=0.0, candidate_s=0.004, sentence=""),
        TimeDifference(what="fusion", baseline_s=0.003, candidate_s=0.002, sentence=""),
        TimeDifference(what="dot", baseline_s=0.003, candidate_s=0.002, sure=False, sentence=""),
    ]
    times = {"steps": (5, 5), "step_s": (0.080, 0.085), "sentence": "slower"}
    time = TimeExplanation(**times, differences=tuple(found))
    row = make_row("step_time_s", "Step time, steady", ("0.080", "0.085", "0.005"), "regressed", "", unit="s")
    explained = {"rows": (row,), "verdict": "regressed", "explanation": Explanation(headline="", time=time)}
    record = timed(record_002, 20).replace(**explained)
    assert draw_picture(record) is None
    shown = draw_bars(record)
    assert shown is not None
    assert [(one.label, one.words, one.part) for one in shown.bars] == [
        ("gather", "+4.00 ms", "restart"),
        ("fusion", "-1.00 ms", "checkpoint"),
        ("everything else", "+2.00 ms", "restart"),
    ]


def test_losses_that_nearly_agree_are_drawn_as_their_difference(
    record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    losses = [curve for curve in record_002.curves if curve.metric == "loss"]
    row = make_row("loss_per_step", "Loss, step by step", ("10 steps", "10 steps", "—"), "changed", "")
    update = {"rows": (row,), "verdict": "changed", "findings": (), "curves": tuple(losses)}
    picture = draw_picture(record_002.replace(**update))
    assert picture is not None
    assert (picture.title, [side for side, _ in picture.lines]) == (
        "loss: candidate − baseline",
        ["baseline", "candidate"],
    )
    zero = [float(point.partition(",")[2]) for point in picture.lines[0][1].removeprefix("M").split("L")]
    assert len(set(zero)) == 1
    assert 0 <= zero[0] <= HEIGHT
    values = tuple(value and 2 * value for value in losses[1].values)
    far = (losses[0], losses[1].replace(values=values))
    picture = draw_picture(record_002.replace(**(update | {"curves": far})))
    assert picture is not None
    assert (picture.title, len(picture.lines)) == ("loss", 2)


def test_what_cannot_be_compared_has_no_picture(record_002: ComparisonRecord) -> None:
    assert any(finding.effect == "blocks" for finding in record_002.findings)
    assert draw_picture(record_002) is None
    assert draw_bars(record_002) is None
