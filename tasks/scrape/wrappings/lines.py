"""Removes text that tools add to the lines of a log, e.g. pod names, severities, times, runtime tags, HTML, Markdown.

Also removes colour codes, and turns carriage returns and zero bytes into line breaks.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

POD = re.compile(rb"(?m)^\[pod/([^\]\s/]+/[^\]\s/]+)\] ")
NO_POD = re.compile(rb"(?m)^(?!\[pod/[^\]\s/]+/[^\]\s/]+\] )[^\n]*[^\s][^\n]*$")
_TIME = rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
# prefixes of Logs Explorer's text export (severity, time, labels), and of `kubectl logs --timestamps` (time)
EXPORTED = re.compile(
    rb"(?m)^(?:(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY)[ \t]+)?%s"
    rb"(?: \[[\w./-]+: [^\]\n]*\])*(?:[ \t]|$)" % _TIME
)
# CRI's logging format (containerd, CRI-O): time, stream, tags, text. A line longer than 16 KiB is split into parts with
# the tag P and a last part with the tag F; other lines have the tag F. The parts of a line of stdout may be interleaved
# with those of stderr.
CRI = re.compile(rb"(?m)^%s[ \t](stdout|stderr)[ \t]([FP])(?::\w+)*(?:[ \t]|$)" % _TIME)
_NO_BREAK_SPACE = "\u00a0".encode()
# additions within lines: (name, literal to search first, pattern, replacement, least number of matches in the head)
_IN_LINES = (
    ("HTML line breaks", b"<br", re.compile(rb"[ \t]*<br ?/?>\r?\n?"), b"\n", 2),
    ("backticks", b"`", re.compile(rb"(?m)^[ \t]*(?:[-*>] )?`([^`\n]+)`[ \t]*(?=\r?$)"), rb"\1", 2),
    ("Ray's repeats", b"x across cluster]", re.compile(
        rb"[ \t]*(?:\x1b\[[\d;]*m)*\[repeated \d+x across cluster\](?: \(Ray dedup[^\n]*\))?(?:\x1b\[0m)*"), b"", 1),
    # `rich.logging.RichHandler` prints the file at the right end of each line
    ("rich's file column", b".py:", re.compile(
        rb"(?m)^((?:\[[\d:/. ]{5,30}\]|[ ]{10,30}) (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [^\n]*?)[ \t]{2,}"
        rb"[\w.-]{1,60}\.py:\d{1,6}[ \t]*(?=\r?$)"), rb"\1", 2),
)  # fmt: skip
# CSI sequences, OSC strings up to their end, and the two-byte escapes (ECMA-48)
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_])")
MAX_ESCAPE_LENGTH = 256  # limit of bytes of an escape sequence
# (name, byte to search first, pattern, replacement). Zero bytes are holes between texts that were written separately.
# A carriage return before a line break is kept.
_CONTROLS = (
    ("zero bytes", b"\0", re.compile(rb"\0+"), b"\n"),
    ("colour codes", b"\x1b", _ESCAPE, b""),
    ("carriage returns", b"\r", re.compile(rb"\r(?!\n)"), b"\n"),
)

type Recode = Callable[[Iterator[bytes]], Iterator[bytes]]


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text in chunks that end with a line break; the last chunk may end without one."""
    rest = b""
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        else:
            rest += chunk
    if rest:
        yield rest


def replace_matches(pattern: re.Pattern[bytes], instead: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text with every match of `pattern` replaced by `instead`."""
    for lines in whole_lines(chunks):
        yield pattern.sub(instead, lines)


def recodings(head: bytes) -> Iterator[tuple[str, Recode]]:
    """Yield (name, function that removes the addition) of the additions within lines that a text's `head` contains."""
    if head.count(_NO_BREAK_SPACE) > head.count(b" "):
        yield "non-breaking spaces", partial(replace_matches, re.compile(_NO_BREAK_SPACE), b" ")
        head = head.replace(_NO_BREAK_SPACE, b" ")
    for name, hint, pattern, instead, least in _IN_LINES:
        if hint in head and len(pattern.findall(head)) >= least:
            yield name, partial(replace_matches, pattern, instead)


def starts_most_lines(prefix: re.Pattern[bytes], head: bytes) -> bool:
    """Whether most of the first 200 lines of `head` begin with `prefix`; empty lines do not count."""
    lines = [line for line in head.split(b"\n", 200)[:200] if line.strip()]
    return bool(lines) and sum(bool(prefix.match(line)) for line in lines) * 2 > len(lines)


def lines_of_pod(pod: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of one pod from a log of several, without the pod's prefix."""
    own = re.compile(rb"(?m)^\[pod/%s\] (.*(?:\n|\Z))" % re.escape(pod))
    for lines in whole_lines(chunks):
        yield b"".join(own.findall(lines))


def join_cri_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of a container runtime's log: its lines without prefixes, and split lines joined."""
    parts: dict[bytes, bytes] = {}  # stream → parts of its incomplete line
    for lines in whole_lines(chunks):
        yield b"".join(_strip_prefix(line, parts) for line in lines.splitlines(keepends=True))
    yield b"".join(rest + b"\n" for rest in parts.values())


def _strip_prefix(line: bytes, parts: dict[bytes, bytes]) -> bytes:
    """Return a line without its prefix, joined to the line's earlier parts.

    For an incomplete line, returns b"" and adds the text to `parts` (stream → text so far). A line without a prefix is
    returned unchanged.
    """
    match = CRI.match(line)
    if match is None:
        return line
    stream, tag = match.groups()
    text = parts.pop(stream, b"") + line[match.end() :]
    if tag == b"F":
        return text
    parts[stream] = text.rstrip(b"\r\n")
    return b""


class Cleaner:
    """Replaces the matches of _CONTROLS in a text that arrives in pieces; calls `note` with each kind's name."""

    def __init__(self, note: Callable[[str], None] = lambda _: None) -> None:
        self._note, self._rest = note, b""

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        """Return the next part of the cleaned text; `last`: no further piece follows."""
        data = self._rest + piece
        keep = len(data) if last else _complete_length(data)
        self._rest = re.sub(rb"\0+", b"\0", data[keep:])  # bounds memory
        data = data[:keep]
        for name, hint, pattern, instead in _CONTROLS:
            if hint in data:
                data, found = pattern.subn(instead, data)
                if found:
                    self._note(name)
        return data


def clean(chunks: Iterable[bytes], note: Callable[[str], None]) -> Iterator[bytes]:
    """Yield a cleaned text (see `Cleaner`)."""
    cleaner = Cleaner(note)
    for chunk in chunks:
        yield cleaner.feed(chunk)
    yield cleaner.feed(b"", last=True)


def _complete_length(data: bytes) -> int:
    """Return the length of the data before an incomplete escape sequence, a final carriage return or final zero bytes.

    Later data may continue these.
    """
    escape = data.rfind(b"\x1b", max(0, len(data) - MAX_ESCAPE_LENGTH))
    if escape >= 0 and not _ESCAPE.match(data, escape):
        return escape
    end = len(data.rstrip(b"\0"))
    return end - data.endswith(b"\r", 0, end)
