"""A log on a page: all of a small one; of a large one both ends and every line that a value refers to."""

import io
from collections.abc import Iterator

from tasks.publish import logview
from tasks.publish.logview import LogView, read_log
from tasks.records import Source


def lines(count: int, text: str = "line") -> Iterator[tuple[int, str]]:
    offset = 0
    for i in range(count):
        words = f"{text} {i}"
        yield offset, words
        offset += len(words.encode()) + 1


def read(items: Iterator[tuple[int, str]] | list[tuple[int, str]], **references: Source) -> LogView:
    named = {source: (name,) for name, source in references.items()}
    return read_log(items, named, title="run", prefix="baseline")


def offset_of(number: int, count: int) -> int:
    return next(offset for i, (offset, _) in enumerate(lines(count), start=1) if i == number)


def test_a_small_log_is_whole_and_a_place_inside_a_line_leads_to_that_line() -> None:
    view = read(lines(5), loss=Source(line=3, offset=offset_of(3, 5) + 2))
    assert view.whole
    assert [line.text for line in view.shown] == [f"line {i}" for i in range(5)]
    assert view.anchors == {offset_of(3, 5) + 2: "baseline-L3"}
    assert next(line for line in view.shown if line.values).text == "line 2"


def test_lines_are_numbered_as_in_the_file_that_holds_several_logs() -> None:
    view = read(lines(5), loss=Source(line=103, offset=offset_of(3, 5)), end=Source(line=105, offset=offset_of(5, 5)))
    assert [line.number for line in view.shown] == [101, 102, 103, 104, 105]


def test_a_log_that_is_one_line_to_its_references_is_numbered_from_one() -> None:
    view = read(lines(5), loss=Source(line=1, offset=offset_of(3, 5)), end=Source(line=1, offset=offset_of(5, 5)))
    assert [line.number for line in view.shown] == [1, 2, 3, 4, 5]
    assert view.anchors[offset_of(5, 5)] == "baseline-L5"


def test_a_place_outside_the_log_leads_nowhere() -> None:
    start = [(1000, "first"), (1006, "second")]
    view = read(start, before=Source(line=1, offset=10), after=Source(line=9, offset=5000))
    assert view.anchors == {}
    assert len(view.shown) == 2


def test_of_a_large_log_the_ends_and_the_lines_that_values_refer_to_are_kept() -> None:
    count, wanted = 200_000, 123_456
    view = read(lines(count), loss=Source(line=wanted, offset=offset_of(wanted, count)))
    numbers = [line.number for line in view.shown]
    assert not view.whole
    assert view.lines == count
    assert numbers[: logview.HEAD_LINES] == list(range(1, logview.HEAD_LINES + 1))
    assert numbers[-logview.TAIL_LINES :] == list(range(count - logview.TAIL_LINES + 1, count + 1))
    around = range(wanted - logview.CONTEXT, wanted + logview.CONTEXT + 1)
    assert set(around) <= set(numbers)
    assert len(numbers) == logview.HEAD_LINES + len(around) + logview.TAIL_LINES
    assert sum(line.skipped for line in view.shown) + len(view.shown) == count


def test_a_line_of_a_megabyte_is_cut_in_the_middle() -> None:
    view = read([(0, "start " + "x" * 1_000_000 + " end"), (1_000_011, "next")])
    assert len(view.shown[0].text) < logview.LONGEST_LINE + 100
    assert view.shown[0].text.startswith("start x")
    assert view.shown[0].text.endswith("x end")
    assert "characters left out" in view.shown[0].text


def test_many_long_lines_stay_within_bounds() -> None:
    view = read(lines(3_000, "y" * 100_000))
    assert sum(len(line.text) for line in view.shown) < 3_000_000
    assert view.shown[-1].number == 3_000


def test_the_copy_holds_every_line_even_what_is_no_unicode() -> None:
    copy = io.BytesIO()
    items = [(0, "a"), (2, "half \ud800"), (8, "z\x1b[0m")]
    read_log(items, {}, title="run", prefix="baseline", copy=copy)
    assert copy.getvalue() == b"a\nhalf \\ud800\nz\x1b[0m\n"


def test_an_empty_log_has_no_lines() -> None:
    view = read([])
    assert (view.lines, view.shown, view.whole) == (0, (), True)
