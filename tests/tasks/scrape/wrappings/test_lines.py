"""Text around lines: UTF-16, non-breaking spaces and zero bytes; the log files of containerd and CRI-O."""

import codecs
import gzip
from typing import Any

import pytest

from tasks.scrape.read_log import scrape_text
from tasks.scrape.window import LogFormatError
from tasks.scrape.wrappings.lines import clean, join_cri_lines, recodings
from tasks.scrape.wrappings.unpack import from_utf16


@pytest.mark.parametrize(
    ("data", "wrapping"),
    [
        (lambda text: codecs.BOM_UTF16_LE + text.decode().encode("utf-16-le"), "UTF-16"),
        (lambda text: codecs.BOM_UTF16_BE + text.decode().encode("utf-16-be"), "UTF-16"),
        (lambda text: text.replace(b" ", "\u00a0".encode()), "non-breaking spaces"),
        (lambda text: b"\0" * 5000 + text, "zero bytes"),
        (lambda text: b"\0" * (5 << 20) + text, "zero bytes"),  # more than one read
        (lambda text: text + b"\0" * 100, "zero bytes"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_recoded_logs_are_read_like_the_original(data: Any, wrapping: str, packed: bool, logs: Any) -> None:
    text = logs.framed(*logs.steps(5), "café")
    expected = scrape_text(text, name="x").runs[0]
    wrapped = data(text)
    run = scrape_text(gzip.compress(wrapped) if packed else wrapped, name="x").runs[0]
    assert run.coverage.unwrapped == (("gzip", wrapping) if packed else (wrapping,))
    assert run.steps.drop("offset", "line").equals(expected.steps.drop("offset", "line"))
    assert (run.exit_code, run.coverage.complete) == (0, True)


def test_zero_bytes_end_the_text_before_them(logs: Any) -> None:
    """A crashed file system fills unwritten parts with zeros: the rest of a number is lost."""
    lines = logs.steps(4)
    lines[2] = lines[2][:-1] + "\0" * 700
    run = scrape_text(logs.framed(*lines), name="x").runs[0]
    assert run.steps["step"].to_list() == [0, 1, 3]
    assert [line.line for line in run.coverage.unread] == [4]


@pytest.mark.parametrize("data", [b"EXIT_CODE=0\n\x7fELF\0\0", "EXIT_CODE=0\n".encode("utf-16-le")])
def test_a_binary_file_is_refused(data: bytes) -> None:
    for text in (data, gzip.compress(data)):
        with pytest.raises(LogFormatError, match="is not text"):
            scrape_text(text, name="x")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pieces_of_any_size(size: int) -> None:
    text = "completed step: 3, café 😀\n"
    ((_, without_no_breaks),) = recodings(text.replace(" ", "\u00a0").encode())
    for recode, data in (
        (from_utf16, codecs.BOM_UTF16_LE + text.encode("utf-16-le")),
        (without_no_breaks, text.replace(" ", "\u00a0").encode()),
    ):
        pieces = [data[begin : begin + size] for begin in range(0, len(data), size)]
        assert b"".join(recode(iter(pieces))).decode() == text
    assert b"".join(without_no_breaks(iter([b"caf\xc2"]))) == b"caf\xc2"
    assert b"".join(from_utf16([b"\xff\xfea\0\x3d\xd8b\0c"])).decode() == "a\ufffdb\ufffd"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_cleaning_does_not_depend_on_the_pieces(size: int) -> None:
    data = b"a\r\0\0\0b\0c\x1b[31md\r\ne\0\x1b[0m\r\0\0\rf\x1b\0\0[1m\0\0"
    noted: list[str] = []
    whole = b"".join(clean([data], noted.append))
    assert whole == b"a\r\nb\ncd\r\ne\n\r\n\nf\x1b\n[1m\n"
    assert set(noted) == {"colour codes", "carriage returns", "zero bytes"}
    pieces = [data[begin : begin + size] for begin in range(0, len(data), size)]
    assert b"".join(clean(pieces, noted.append)) == whole


def entry(text: str, tag: str = "F", stream: str = "stdout", second: int = 0) -> str:
    """A line of such a file."""
    return f"2026-04-18T00:00:{second % 60:02d}.123456789+02:00 {stream} {tag} {text}\n"


def test_lines_of_a_container_runtime(logs: Any) -> None:
    text = logs.framed(*logs.steps(5))
    data = "".join(entry(line, second=n) for n, line in enumerate(text.decode().splitlines())).encode()
    run = scrape_text(data, name="x").runs[0]
    assert run.coverage.unwrapped == ("container runtime's prefixes",)
    assert run.steps.equals(scrape_text(text, name="x").runs[0].steps)


@pytest.mark.parametrize("width", [7, 40, 500])
def test_the_parts_of_a_long_line(logs: Any, width: int) -> None:
    """A log without line breaks is split every so many bytes, also inside numbers; another stream writes in between."""
    text = logs.framed(*logs.steps(5)).replace(b"\n", b" ").decode()
    parts = [text[begin : begin + width] for begin in range(0, len(text), width)]
    between = entry("a warning", stream="stderr") + entry("half of ", "P", "stderr")
    data = between.join(entry(part, "P") for part in parts) + entry("") + entry("another", stream="stderr")
    expected = scrape_text(text.encode(), name="x").runs[0]
    run = scrape_text(data.encode(), name="x").runs[0]
    assert run.steps["step"].to_list() == [0, 1, 2, 3, 4]
    assert run.steps["loss"].to_list() == expected.steps["loss"].to_list()


def test_other_lines_stay_and_unfinished_lines_are_yielded() -> None:
    lines = entry("a", "P") + "no entry\n" + entry("b") + entry("c", "P") + entry("", "F", "stderr")
    assert b"".join(join_cri_lines([lines.encode()])) == b"no entry\nab\n\nc\n"
    assert b"".join(join_cri_lines([entry("x").encode(), entry("y").encode().rstrip(b"\n")])) == b"x\ny"
