"""A layout reads every number of its rows as reading the text alone would, and takes no row that differs in more."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.scrape.digits import Mask, Positions
from tasks.scrape.layout import Layout, layout_of
from tasks.scrape.rows import FIRST_ROWS, read_rows, read_run
from tasks.scrape.step_columns import StepColumns
from tasks.scrape.step_line import parse_step
from tasks.scrape.window import Window

DIGIT = st.characters(min_codepoint=ord("0"), max_codepoint=ord("9"))


def window_of(data: bytes) -> Window:
    return Window(data, base=0, line=1, start=0, limit=len(data), last=True)


def starts(data: bytes, text: bytes = b"completed") -> np.ndarray:
    found = [position for position in range(len(data)) if data.startswith(text, position)]
    return np.array(found, np.int64)


@st.composite
def same_numbers(draw: st.DrawFn) -> list[str]:
    """Numbers with the same sign, the same digits before and behind the point, and the same exponent."""
    whole, decimals = draw(st.integers(1, 9)), draw(st.integers(0, 8))
    sign = draw(st.sampled_from(["", "-"]))
    exponent = draw(st.sampled_from(["", "", "e-05", "e+10", "E-7", "e+22"]))
    digits = st.text(DIGIT, min_size=whole + decimals, max_size=whole + decimals)
    if whole > 1:  # a number that begins with a zero is damaged
        digits = digits.filter(lambda text: text[0] != "0")
    texts = draw(st.lists(digits, min_size=2, max_size=9))
    return [f"{sign}{text[:whole]}{'.' + text[whole:] if decimals else ''}{exponent}" for text in texts]


@settings(max_examples=300, deadline=None)
@given(same_numbers(), st.integers(0, 17))
def test_numbers_are_what_their_texts_say(numbers: list[str], places: int) -> None:
    first = 10**places
    lines = [f"completed step: {first + n}, rate: {text}, loss: 1.000\n" for n, text in enumerate(numbers)]
    data = "".join(lines).encode()
    line = parse_step(data, 0, last=False, before=None)
    assert line is not None
    layout = layout_of(data, line)
    if layout is None:  # more digits or places than one rounding takes
        mantissa, _, exponent = numbers[0].lower().partition("e")
        behind = len(mantissa.partition(".")[2]) - int(exponent or 0)
        assert sum(map(str.isdigit, mantissa)) > 15 or abs(behind) > 22
        return
    columns, used = read_layout(data, layout, starts(data))
    assert used.all()
    assert columns.step.tolist() == [first + n for n in range(len(numbers))]
    read = columns.values["rate"].tolist()
    assert read == [float(text) for text in numbers]
    assert [math.copysign(1, value) for value in read] == [math.copysign(1, float(text)) for text in numbers]


def read_layout(data: bytes, layout: Layout, records: Positions) -> tuple[StepColumns, Mask]:
    (columns,), used = read_rows(window_of(data), [layout], records, np.arange(len(records)))
    assert columns.line.tolist() == np.flatnonzero(used).tolist()
    return columns, used


ROW = b"I0418 00:55:39.221671 135104514455360 metric_logger.py:196] completed step: 10, seconds: 0.148, loss: 9.734\n"


@settings(max_examples=300)
@given(st.integers(0, len(ROW) - 1), st.integers(0, 255))
def test_a_row_with_another_byte_is_only_taken_for_other_digits(at: int, byte: int) -> None:
    line = parse_step(ROW, ROW.index(b"completed"), last=False, before=None)
    assert line is not None
    layout = layout_of(ROW, line)
    assert layout is not None
    changed = ROW[:at] + bytes([byte]) + ROW[at + 1 :]
    columns, used = read_layout(changed + ROW, layout, np.array([0, len(ROW)]))
    free = ROW[at : at + 1].isdigit() and not len(b"I0418 00:55:39.221671 ") <= at < ROW.index(b"completed")
    free = free and not (byte == ord("0") and at == ROW.index(b"10, "))  # no number begins with a zero
    assert used.tolist() == [byte == ROW[at] or (free and bytes([byte]).isdigit()), True]
    assert layout.fits(changed, 0) == used[0]
    if used[0]:
        place = ROW.index(b"seconds: ") + len(b"seconds: ")
        assert columns.values["seconds"][0] == float(changed[place : place + len(b"0.148")])
        month, day, clock = changed[1:3], changed[3:5], changed[6:21]
        assert bytes(columns.times[0]) == b"0000-%s-%sT%s" % (month, day, clock)


def test_words_and_what_is_no_number_are_the_same_on_all_rows() -> None:
    lines = [b"completed step: %d, loss: nan, grad: -inf, phase: warm\n" % n for n in range(5)]
    data = b"".join(lines)
    line = parse_step(data, 0, last=False, before=None)
    assert line is not None
    layout = layout_of(data, line)
    assert layout is not None
    columns, used = read_layout(data, layout, starts(data))
    assert used.all()
    assert np.isnan(columns.values["loss"]).all()
    assert columns.values["grad"].tolist() == [-math.inf] * 5
    assert columns.values["phase"].tolist() == ["warm"] * 5


@pytest.mark.parametrize("count", [1, FIRST_ROWS - 1, FIRST_ROWS, FIRST_ROWS + 1, 5000])
def test_a_run_ends_where_a_row_differs(count: int) -> None:
    rows = [ROW.replace(b"9.734", b"%d.%03d" % (n % 10, n % 1000)) for n in range(count)]
    data = b"before\n" + b"".join(rows) + ROW.replace(b"loss", b"lost") + ROW
    line = parse_step(data, data.index(b"completed"), last=False, before=None)
    assert line is not None
    layout = layout_of(data, line)
    assert layout is not None
    run = read_run(window_of(data), layout, 7, 2)
    assert len(run.record) == count
    assert run.line.tolist() == list(range(2, 2 + count))
    assert run.values["loss"].tolist() == [float(f"{n % 10}.{n % 1000:03d}") for n in range(count)]
    assert run.start.tolist() == starts(data)[:count].tolist()


def test_a_run_stays_inside_the_window() -> None:
    data = ROW * 10
    line = parse_step(data, ROW.index(b"completed"), last=False, before=None)
    assert line is not None
    layout = layout_of(data, line)
    assert layout is not None
    head = layout.head
    for limit, expected in [(head, 0), (head + 1, 1), (len(ROW) + head, 1), (len(ROW) + head + 1, 2), (len(data), 10)]:
        window = Window(data, base=0, line=1, start=0, limit=limit, last=False)
        assert len(read_run(window, layout, 0, 1).record) == expected
    cut = Window(data[:-1], base=0, line=1, start=0, limit=len(data), last=True)
    assert len(read_run(cut, layout, 0, 1).record) == 9


def test_rows_of_one_width_are_told_apart_by_their_commas() -> None:
    """Two layouts of the same width, whose numbers have their digits in other columns."""
    rows = [b"completed step: 1%d, seconds: 1.250, loss: 12.500\n" % (n % 10) for n in range(20)]
    rows[3::5] = [b"completed step: 1%d, seconds: 12.500, loss: 1.250\n" % (n % 10) for n in range(4)]
    rows[7] = rows[7].replace(b"loss", b"lost")
    data = b"".join(rows)
    layouts = []
    for begin in (starts(data)[0], starts(data)[3]):
        line = parse_step(data, int(begin), last=False, before=None)
        layout = layout_of(data, line) if line else None
        assert layout is not None
        layouts.append(layout)
    found, used = read_rows(window_of(data), layouts, starts(data), np.arange(20))
    assert np.flatnonzero(~used).tolist() == [7]
    assert [columns.line.tolist() for columns in found] == [
        [n for n in range(20) if n % 5 != 3 and n != 7], [3, 8, 13, 18]
    ]  # fmt: skip
    assert [set(columns.values["loss"].tolist()) for columns in found] == [{12.5}, {1.25}]
