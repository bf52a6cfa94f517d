"""A log on a page: all of its lines, in pieces, with their numbers in the file.

The filter of a piece: words in a line always pass, other words mostly do not.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.publish.page.logview import MAX_FILTERED_BYTES, PIECE, LogView, SearchFilter, write_log
from tasks.records.shared_fields import Source

CHAIN = [
    "I0418 start",
    "7: Traceback (most recent call last):",
    '7:   File "a.py", line 1, in f',
    "7:     raise KeyError(1)",
    "7: KeyError: 1",
    "7: ",
    "7: During handling of the above exception, another exception occurred:",
    "7: ",
    "7: Traceback (most recent call last):",
    '7:   File "a.py", line 3, in g',
    "7: RuntimeError: no key",
    "I0418 end",
]


def lines(count: int, text: str = "line") -> Iterator[tuple[int, str]]:
    offset = 0
    for i in range(count):
        words = f"{text} {i}"
        yield offset, words
        offset += len(words.encode()) + 1


def read(items: Iterable[tuple[int, str]], folder: Path, **references: Source) -> LogView:
    named = {source: (name,) for name, source in references.items()}
    return write_log(items, named, folder, title="run", prefix="baseline")


def offset_of(number: int, count: int) -> int:
    return next(offset for i, (offset, _) in enumerate(lines(count), start=1) if i == number)


def pieces(view: LogView, folder: Path) -> list[str]:
    """Return all lines that the page can load, in order."""
    found: list[str] = []
    for number, (_, count) in enumerate(view.pieces, start=1):
        text = (folder / f"logs/baseline-{number}.js").read_text(encoding="utf-8")
        name, place, content = json.loads(f"[{text.removeprefix('maxviewLog(').removesuffix(');' + chr(10))}]")
        assert (name, place) == ("baseline", number)
        assert len(content.split("\n")) == count
        found += content.split("\n")
    return found


def test_an_offset_inside_a_line_links_to_that_line(tmp_path: Path) -> None:
    view = read(lines(5), tmp_path, loss=Source(line=3, offset=offset_of(3, 5) + 2))
    assert pieces(view, tmp_path) == [f"line {i}" for i in range(5)]
    assert view.anchor(offset_of(3, 5) + 2) == "baseline-L3"
    assert view.values == {3: ["loss"]}


def test_lines_are_numbered_as_in_a_file_with_several_logs(tmp_path: Path) -> None:
    places = {"loss": Source(line=103, offset=offset_of(3, 5)), "end": Source(line=105, offset=offset_of(5, 5))}
    view = read(lines(5), tmp_path, **places)
    assert view.pieces == [(101, 5)]
    assert view.values == {103: ["loss"], 105: ["end"]}


def test_a_log_without_line_breaks_is_numbered_from_one(tmp_path: Path) -> None:
    places = {"loss": Source(line=1, offset=offset_of(3, 5)), "end": Source(line=1, offset=offset_of(5, 5))}
    view = read(lines(5), tmp_path, **places)
    assert view.pieces == [(1, 5)]
    assert view.anchor(offset_of(5, 5)) == "baseline-L5"


@pytest.mark.parametrize("offset", [10, 5000])
def test_an_offset_outside_the_log_has_no_link(tmp_path: Path, offset: int) -> None:
    view = read([(1000, "first"), (1006, "second")], tmp_path, other=Source(line=1, offset=offset))
    assert view.anchor(offset) is None
    assert view.values == {}


def test_a_large_log_is_complete_and_each_piece_is_small(tmp_path: Path) -> None:
    count, wanted = 200_000, 123_456
    view = read(lines(count), tmp_path, loss=Source(line=wanted, offset=offset_of(wanted, count)))
    assert len(view.pieces) > 1
    assert pieces(view, tmp_path) == [text for _, text in lines(count)]
    assert [first for first, _ in view.pieces[1:]] == [first + many for first, many in view.pieces[:-1]]
    assert max(file.stat().st_size for file in (tmp_path / "logs").glob("*.js")) < 2 * PIECE
    assert view.anchor(offset_of(wanted, count)) == f"baseline-L{wanted}"
    shorter = read(lines(3), tmp_path)
    assert len(list((tmp_path / "logs").glob("*.js"))) == len(shorter.pieces) == 1


def test_a_line_of_megabytes_is_complete(tmp_path: Path) -> None:
    long = "start " + "x" * (2 * PIECE) + " end"
    assert pieces(read([(0, long), (len(long) + 1, "next")], tmp_path), tmp_path) == [long, "next"]


def test_a_chain_of_tracebacks_is_one_fold_under_its_last_exception(tmp_path: Path) -> None:
    offsets = [sum(len(text) + 1 for text in CHAIN[:i]) for i in range(len(CHAIN))]
    view = read(zip(offsets, CHAIN, strict=True), tmp_path)
    assert view.folds == [(2, 11, "RuntimeError: no key")]


def test_the_copy_has_every_line_even_with_invalid_unicode(tmp_path: Path) -> None:
    read([(0, "a"), (2, "half \ud800"), (8, "z\x1b[0m")], tmp_path)
    assert (tmp_path / "logs/baseline.txt").read_bytes() == b"a\nhalf \\ud800\nz\x1b[0m\n"


def test_an_empty_log_has_no_lines(tmp_path: Path) -> None:
    view = read([], tmp_path)
    assert (view.lines, view.pieces) == (0, [])


def test_lines_of_one_kind_are_counted_once(tmp_path: Path) -> None:
    texts = [
        "I0418 18:09:48.357237 135278194456384 metric_logger.py:196] completed step: 0, loss: 10.889",
        "I0418 18:09:49.357237 135278194456384 metric_logger.py:196] completed step: 1, loss: nan",
        "I0419 18:09:50.357237 135278194456399 metric_logger.py:185] completed step: 2, loss: 9e-05",
        "saved to gs://bucket/run-1/checkpoints/0",
        "saved to /tmp/run",
        "1," * 50_000,  # would make an unbounded pattern run for ever
        "XPK Start: Sat Apr 18 18:08:48 UTC 2026",
        "XPK Start: Sun Apr 19 06:41:58 UTC 2026",
    ]
    lines = [(i * 200, text) for i, text in enumerate(texts)]
    view = write_log(lines, {}, tmp_path, title="x", prefix="baseline")
    assert [(kind.count, kind.place) for kind in view.kinds.values()] == [(2, 1), (1, 2), (2, 4), (2, 7)]


def may_hold(found: str, word: str) -> bool:
    """Query the filter like the page's script, which lower-cases only ASCII letters."""
    bits = base64.b64decode(found)
    asked = "".join("0" if letter.isdigit() and letter.isascii() else letter for letter in word.lower())
    for i in range(len(asked) - 2):
        three = [ord(letter) for letter in asked[i : i + 3]]
        if max(three) < 128:
            place = (three[0] * 1024 ^ three[1] * 32 ^ three[2]) % (8 * len(bits))
            if not bits[place // 8] & 2 ** (place % 8):
                return False
    return True


@given(st.lists(st.text(max_size=60), max_size=20), st.data())
def test_words_of_a_line_always_pass(lines: list[str], data: st.DataObject) -> None:
    search_filter = SearchFilter()
    for line in lines:
        search_filter.take(line)
    found = search_filter.filter()
    for line in lines:
        begin = data.draw(st.integers(0, len(line)))
        assert may_hold(found, line[begin : data.draw(st.integers(begin, len(line)))])


def test_other_words_are_mostly_excluded() -> None:
    search_filter = SearchFilter()
    for step in range(1000):
        search_filter.take(f"completed step: {step}, seconds: {step / 7:.3f}, loss: {8 - step / 999:.4f}")
    found = search_filter.filter()
    assert may_hold(found, "STEP: 77, seconds")
    assert not may_hold(found, "needle")
    assert not may_hold(found, "step=77")


def test_a_piece_without_similar_lines_may_contain_all() -> None:
    search_filter = SearchFilter()
    for number in range(MAX_FILTERED_BYTES):
        search_filter.take(f"{number:x}".translate({ord("0") + i: ord("g") + i for i in range(10)}))
    assert search_filter.filter() == ""
