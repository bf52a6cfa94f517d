"""Readable logs: line breaks are restored, and every line keeps its byte offset."""

from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest

from tasks.publish.page.log_lines import lines_of, stream_lines
from tasks.scrape.read_log import scrape_text

TRACEBACK = (
    'Traceback (most recent call last):\n  File "/x/maxtext/a.py", line 3, in f\n    g()\n'
    '  File "/x/maxtext/b.py", line 4, in g\n    raise ValueError("shapes")\nValueError: shapes'
)


def test_a_log_with_line_breaks_is_unchanged(logs: Any) -> None:
    data = logs.framed(*logs.steps(3), TRACEBACK)
    lines = list(lines_of(data, 0))
    assert [text for _, text in lines] == data.decode().splitlines()
    assert all(data[offset:].decode().startswith(text) for offset, text in lines)


def test_restored_lines(logs: Any) -> None:
    memory = logs.line("\nMemstats: After params initialized:")
    data = logs.framed(memory, *logs.steps(3), TRACEBACK, code=1).replace(b"\n", b" ")
    lines = [text for _, text in list(lines_of(data, 0))]
    assert lines == [
        "XPK Start: Sat Apr 18 00:00:00 UTC 2026",
        memory.replace("\n", " "),
        *logs.steps(3),
        "Traceback (most recent call last):",
        'File "/x/maxtext/a.py", line 3, in f     g()',
        'File "/x/maxtext/b.py", line 4, in g     raise ValueError("shapes")',
        "ValueError: shapes",
        "XPK End: Sat Apr 18 01:00:00 UTC 2026",
        "EXIT_CODE=1",
    ]


def test_every_value_has_its_line(logs: Any) -> None:
    data = logs.framed(*logs.steps(40)).replace(b"\n", b" ")
    lines = list(lines_of(data, 0))
    offsets = [offset for offset, _ in lines]
    assert offsets == sorted(set(offsets))
    for step, offset in scrape_text(data, name="x").runs[0].steps.select("step", "offset").iter_rows():
        assert lines[bisect_right(offsets, offset) - 1][1] == logs.steps(40)[step]


def test_glued_records_are_separated(logs: Any) -> None:
    data = (logs.step(0) + logs.step(1) + "\nlast").encode()
    assert [text for _, text in list(lines_of(data, 0))] == [logs.step(0), logs.step(1), "last"]


def test_only_the_span_is_read(logs: Any) -> None:
    data = b"before\n" + logs.framed(*logs.steps(2)) + b"after\n"
    begin = data.index(b"XPK Start")
    lines = list(lines_of(data[begin : data.index(b"after")], begin))
    assert lines[0] == (begin, "XPK Start: Sat Apr 18 00:00:00 UTC 2026")
    assert lines[-1][1] == "EXIT_CODE=0"
    assert list(lines_of(b"", 0)) == []


def test_invalid_utf8_bytes(logs: Any) -> None:
    data = b"caf\xe9\r\n" + logs.framed()
    assert next(lines_of(data, 0)) == (0, "caf\ufffd")


def test_a_traceback_that_ends_on_another_line_breaks_only_itself(logs: Any) -> None:
    glued = f"{logs.step(0)} {logs.step(1)} {TRACEBACK}"
    data = f"{glued}\n{logs.step(2)}\n".encode()
    lines = list(lines_of(data, 0))
    offsets = [offset for offset, _ in lines]
    assert offsets == sorted(set(offsets))
    assert [text for _, text in lines][-2:] == ["ValueError: shapes", logs.step(2)]


@pytest.mark.parametrize("joint", [b"\n", b" ", b"\n\n"])
def test_a_file_in_pieces_gives_the_same_lines(logs: Any, tmp_path: Path, joint: bytes) -> None:
    data = b"before " + logs.framed(
        *logs.steps(30_000 if joint == b"\n" else 30), TRACEBACK, logs.line("after"), code=1
    ).replace(b"\n", joint)
    path = tmp_path / "log"
    path.write_bytes(data)
    for span in ((7, len(data)), (7, len(data) - 40), (7, 7)):
        assert list(stream_lines(path, span)) == list(lines_of(data[span[0] : span[1]], span[0]))
