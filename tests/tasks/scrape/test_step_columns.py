"""Reading lines as columns gives what the grammar gives, line by line, whatever the lines look like."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tasks.scrape.ahead import Ahead
from tasks.scrape.step_line import parse_step
from tasks.scrape.step_table import UNREAD_SHOWN, StepTable
from tasks.scrape.window import Window, windows

FEW, NEVER = 1, 10**9


def read(data: bytes, columns_from: int) -> StepTable:
    table = StepTable(columns_from=columns_from)
    for window in windows([data]):
        table.add(window)
    return table


def same(data: bytes) -> StepTable:
    fast, slow = read(data, FEW), read(data, NEVER)
    assert_frame_equal(fast.frame(None), slow.frame(None), check_column_order=False)
    assert (fast.seen, fast.parsed, fast.glued, fast.unknown_keys, fast.cut) == (
        slow.seen, slow.parsed, slow.glued, slow.unknown_keys, slow.cut,
    )  # fmt: skip
    assert fast.unread == slow.unread
    return fast


NUMBERS = st.one_of(
    st.decimals(0, 10**9, places=3).map(lambda d: f"{d:.3f}"),
    st.sampled_from(["nan", "inf", "-inf", "-1.250", "1e+20", "8.1x9", "", "12345678.125", "123456789.125"]),
)
SEPARATORS = st.sampled_from(["\n", "\n", "\n", " ", "\r\n", "", "\n\n", " \n", "\nXPK End: now\n", '\n  File "x"\n'])


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Step lines, most of them sound, with prefixes that differ and separators that vary."""
    parts = ["x" * 600, "\n"] * draw(st.booleans())
    for _ in range(draw(st.integers(1, 30))):
        usual = draw(st.integers(0, 5)) > 0
        step = draw(st.integers(0, 10**8) if usual else st.sampled_from([0, 99_999_999, 10**12]))
        numbers = [draw(NUMBERS) if not usual else f"{draw(st.integers(0, 10**6)) / 1000:.3f}" for _ in range(3)]
        source = draw(st.sampled_from(["metric_logger.py:196", "metric_logger.py:196", "max_logging.py:20"]))
        prefix = draw(st.sampled_from(["", "I", "I", "I", "W"]))
        if prefix:
            parts.append(f"{prefix}0418 00:55:39.{draw(st.integers(0, 999_999)):06d} 135104514455360 {source}] ")
        weights = draw(st.sampled_from(["65536", "65536", "4096.0", "7.5", "0"]))
        fields = f"seconds: {numbers[0]}, TFLOP/s/device: {numbers[1]}, total_weights: {weights}, loss: {numbers[2]}"
        parts.append(f"completed step: {step}, {fields}{draw(st.sampled_from(['', '', ', moe_lb_loss: 0.010203']))}")
        parts.append(draw(SEPARATORS))
    return "".join(parts).encode() + b"y" * draw(st.sampled_from([0, 700]))


@settings(max_examples=200, deadline=None)
@given(logs())
def test_columns_agree_with_the_grammar(data: bytes) -> None:
    fast, slow = read(data, FEW), read(data, NEVER)
    assert fast.seen == slow.seen
    for table in (fast, slow):
        assert len(table.unread) == min(UNREAD_SHOWN, table.seen - table.parsed)
    left, right = fast.frame(None), slow.frame(None)
    both = sorted(set(left["offset"]) & set(right["offset"]))
    # whether a line that ends early is believed depends on the line it is held against
    for offset in set(left["offset"]) ^ set(right["offset"]):
        alone = parse_step(data, offset, last=True, before=None)
        assert alone is None or not data[alone.end : alone.end + 1].isspace() or len(alone.fields) < 5
    columns = [column for column in left.columns if column in right.columns]
    kept = [frame.filter(pl.col("offset").is_in(both)).select(columns) for frame in (left, right)]
    assert_frame_equal(*kept)


def test_many_lines_are_read_as_columns(logs: type) -> None:
    data = logs.framed(*logs.steps(3000))
    table = same(data)
    assert table.seen == table.parsed == 3000
    frame = table.frame(None)
    assert frame["step"].to_list() == list(range(3000))
    # printed with three decimals, so this is what reading the decimal gives
    assert frame["loss"].to_list() == [float(f"{9 - step / 1000:.3f}") for step in range(3000)]


def test_a_log_that_changes_its_form(logs: type) -> None:
    old = [f"completed step: {n}, seconds: 1.500, TFLOP/s/device: 9.250, loss: 2.500" for n in range(500)]
    new = [logs.step(n) for n in range(500, 1000)]
    table = same(logs.framed(*old, *new))
    assert table.parsed == 1000
    assert table.frame(None)["perplexity"].null_count() == 500


def test_windows_join_without_a_seam(logs: type, tmp_path: Path) -> None:
    data = logs.framed(*logs.steps(4000))
    table = StepTable()
    pieces = [data[begin : begin + 90_000] for begin in range(0, len(data), 90_000)]
    seen = list(windows(pieces))
    assert len(seen) > 5
    for window in seen:
        table.add(window)
    whole = read(data, NEVER)
    assert_frame_equal(table.frame(None), whole.frame(None))
    assert table.seen == 4000


def test_reading_ahead_changes_nothing(logs: type) -> None:
    """Layouts that come and go, between lines of other kinds, in windows of which some are read ahead."""
    lines = []
    for n in range(9000):
        lines.append(logs.step(n, seconds=0.148 if n % 3000 < 2000 else 1.5 + n % 7 * 3, loss=9 - n / 1000))
        if n % 1000 == 500:
            lines += [logs.line("something else"), "Traceback (most recent call last):", logs.step(n)[:90]]
    data = logs.framed(*lines)
    inline, ahead = StepTable(), StepTable()
    pieces = [data[begin : begin + 150_000] for begin in range(0, len(data), 150_000)]
    for window in windows(pieces):
        inline.add(window)
    threads = Ahead(ahead)
    for window in windows(pieces):
        for own, known in threads.put(window):
            ahead.add(own, known)
    slow = read(data, NEVER)
    for table in (inline, ahead):
        assert_frame_equal(table.frame(None), slow.frame(None))
        assert (table.seen, table.parsed, table.unread) == (slow.seen, slow.parsed, slow.unread)
    assert slow.seen == 9009
    assert slow.parsed == 9000


def test_one_single_line_with_other_records_between(logs: type) -> None:
    lines = []
    for n in range(3000):
        lines.append(logs.step(n, loss=9 - n / 1000))
        if n % 5 == 0:
            lines.append(logs.line("saved something of length " + "x" * (n % 13)))
    data = " ".join(lines).encode() + b"\n"
    table = same(data)
    assert table.parsed == table.seen == 3000


def test_unknown_values_of_both_kinds_become_words() -> None:
    lines = [f"completed step: {n}, seconds: 1.000, loss: 2.000, phase: {v}\n" for n, v in enumerate(("1.5", "warm"))]
    table = read("".join(lines).encode(), NEVER)
    assert table.frame(None)["phase"].to_list() == ["1.5", "warm"]
    assert table.unknown_keys == ("phase",)


def test_keys_that_the_table_needs_itself() -> None:
    table = read(b"completed step: 0, seconds: 1.000, time: 3.000, line: 7, loss: 2.000\n", NEVER)
    row = table.frame(None).row(0, named=True)
    assert (row["time (log)"], row["line (log)"], row["line"], row["time"]) == (3.0, 7.0, 1, None)


@pytest.mark.parametrize("columns_from", [FEW, NEVER])
def test_nothing_in_it(columns_from: int) -> None:
    table = read(b"no steps here, only words\n", columns_from)
    assert table.frame(None).is_empty()
    assert table.seen == 0


def test_lines_are_counted_from_one() -> None:
    window = next(windows([b"a\nb\n"], base=100, line=7))
    assert isinstance(window, Window)
    assert (window.source(0).line, window.source(2).line, window.source(2).offset) == (7, 8, 102)
    assert pl.Series(window.breaks).to_list() == [1, 3]
