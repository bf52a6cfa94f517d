"""The time account of a run, in words and as a chart."""

import re
from pathlib import Path

import pytest

from tasks.publish.content.templating import read_asset
from tasks.publish.content.time_bars import average_parts, axis_ticks, describe_part, list_parts, place_time_bars
from tasks.publish.page.write_page import write_page
from tasks.records.compared_case import ComparisonRecord
from tasks.records.run_facts import TimeAccount, TimePart
from tasks.records.shared_fields import Source


def account(arm: str, run: str, parts: dict[str, float], place: Source | None = None) -> TimeAccount:
    total = sum(parts.values())
    return TimeAccount(
        arm=arm,
        run_name=run,
        total_s=total,
        parts=tuple(
            TimePart(part=name, seconds=seconds, share=seconds / total, steps=1, source=place)
            for name, seconds in parts.items()
        ),
    )


@pytest.fixture
def record(record_002: ComparisonRecord) -> ComparisonRecord:
    """Two runs of the baseline, one with a wait for a checkpoint; none of the candidate."""
    runs = (
        account("main", "a", {"compute": 6.0, "start": 2.0}),
        account("main", "b", {"compute": 4.0, "checkpoint": 8.0}, Source(line=9, offset=90, run=1)),
    )
    return record_002.replace(times=runs)


def test_the_parts_of_an_arm_are_means_over_its_runs(record: ComparisonRecord) -> None:
    parts = {part.part: part for part in average_parts(record, "main")}
    assert {name: part.seconds for name, part in parts.items()} == {"compute": 5.0, "start": 1.0, "checkpoint": 4.0}
    assert {name: part.share for name, part in parts.items()} == {"compute": 0.5, "start": 0.1, "checkpoint": 0.4}
    assert parts["checkpoint"].source == Source(line=9, offset=90, run=1)
    assert average_parts(record, "feat/x") == []


def test_the_largest_part_comes_first(record: ComparisonRecord) -> None:
    words = [describe_part(part) for part in list_parts(record, "main")]
    assert words == ["compute 5 s (50 %)", "checkpoint 4 s (40 %)", "start 1 s (10 %)"]


def test_the_axis_has_round_seconds(record: ComparisonRecord) -> None:
    ticks = axis_ticks(place_time_bars(record))  # the mean run of main takes 10 s
    assert ticks == [(0.0, "0 s"), (20.0, "2 s"), (40.0, "4 s"), (60.0, "6 s"), (80.0, "8 s"), (100.0, "10 s")]
    assert axis_ticks({}) == []


def test_each_part_has_its_own_fill_and_waiting_is_hatched() -> None:
    css = read_asset("page.css")
    parts = ["compute", "dispatch", "compile", "checkpoint", "eval", "profiler", "restart", "start", "end", "between"]
    fills = [re.findall(rf"\.p-{part}(?:, [^{{]*)? {{ fill: (var\(--\w+\))", css)[-1] for part in parts]
    assert len(set(fills)) == len(parts)
    waiting = re.findall(r"\.p-(waits|wait|blocking) { fill: url\(#hatch-\1\)", css)
    assert sorted(waiting) == ["blocking", "wait", "waits"]


def test_a_bar_has_labels_where_they_fit(record: ComparisonRecord, tmp_path: Path) -> None:
    short = account(record.candidate.name, "c", {"start": 5.0, "eval": 0.01})
    record = record.replace(times=(*record.times, short))
    assert [(bar.words, bar.has_room) for bar in place_time_bars(record)[record.candidate.name]] == [
        ("start 5 s", True),
        ("eval 0.01 s", False),
    ]
    page = write_page(record, tmp_path, log_lines={}).read_text()
    assert 'aria-label="candidate: start 5 s, eval 0.01 s"' in page
    assert ">start 5 s</text>" in page
    assert "eval 0.01 s</text>" not in page
