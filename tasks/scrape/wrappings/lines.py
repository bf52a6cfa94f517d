"""Takes off what stands before, behind and in the lines of a log: a pod, a severity and a time, a container runtime's
tags; HTML, Markdown, the columns of a console."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

POD = re.compile(rb"(?m)^\[pod/([^\]\s/]+/[^\]\s/]+)\] ")
NO_POD = re.compile(rb"(?m)^(?!\[pod/[^\]\s/]+/[^\]\s/]+\] )[^\n]*[^\s][^\n]*$")
_TIME = rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
# Logs Explorer's text export: severity, time, labels; `kubectl logs --timestamps` has the time alone
EXPORTED = re.compile(
    rb"(?m)^(?:(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY)[ \t]+)?%s"
    rb"(?: \[[\w./-]+: [^\]\n]*\])*(?:[ \t]|$)" % _TIME
)
# CRI's logging format, of containerd and CRI-O: time, stream, tags, text. A line that is longer than 16 KiB is cut into
# parts with the tag P; the tag F ends it. Each stream has its own, and others' lines may stand between the parts.
CRI = re.compile(rb"(?m)^%s[ \t](stdout|stderr)[ \t]([FP])(?::\w+)*(?:[ \t]|$)" % _TIME)
_NO_BREAK_SPACE = "\u00a0".encode()
# what people, consoles and launchers put into lines: its name, what stands in it, its pattern, what takes its place,
# and how many lines must have it
_IN_LINES = (
    ("HTML line breaks", b"<br", re.compile(rb"[ \t]*<br ?/?>\r?\n?"), b"\n", 2),
    ("backticks", b"`", re.compile(rb"(?m)^[ \t]*(?:[-*>] )?`([^`\n]+)`[ \t]*(?=\r?$)"), rb"\1", 2),
    ("Ray's repeats", b"x across cluster]", re.compile(
        rb"[ \t]*(?:\x1b\[[\d;]*m)*\[repeated \d+x across cluster\](?: \(Ray dedup[^\n]*\))?(?:\x1b\[0m)*"), b"", 1),
    # of `rich.logging.RichHandler`: the file at the right end of each line
    ("rich's file column", b".py:", re.compile(
        rb"(?m)^((?:\[[\d:/. ]{5,30}\]|[ ]{10,30}) (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [^\n]*?)[ \t]{2,}"
        rb"[\w.-]{1,60}\.py:\d{1,6}[ \t]*(?=\r?$)"), rb"\1", 2),
)  # fmt: skip

type Recode = Callable[[Iterator[bytes]], Iterator[bytes]]


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
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


def replaced(pattern: re.Pattern[bytes], instead: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The text with something else in the place of each match in its lines."""
    for lines in whole_lines(chunks):
        yield pattern.sub(instead, lines)


def recodings(head: bytes) -> Iterator[tuple[str, Recode]]:
    """(what it is called, what takes it off) of all that the lines of a text hold that begins so."""
    if head.count(_NO_BREAK_SPACE) > head.count(b" "):
        yield "no-break spaces", partial(replaced, re.compile(_NO_BREAK_SPACE), b" ")
        head = head.replace(_NO_BREAK_SPACE, b" ")
    for name, hint, pattern, instead, least in _IN_LINES:
        if hint in head and len(pattern.findall(head)) >= least:
            yield name, partial(replaced, pattern, instead)


def starts_most_lines(prefix: re.Pattern[bytes], head: bytes) -> bool:
    """Whether most lines of a text that begins so begin like this."""
    lines = [line for line in head.split(b"\n", 200)[:200] if line.strip()]
    return bool(lines) and sum(bool(prefix.match(line)) for line in lines) * 2 > len(lines)


def lines_of(pod: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The text of one pod of several."""
    own = re.compile(rb"(?m)^\[pod/%s\] (.*(?:\n|\Z))" % re.escape(pod))
    for lines in whole_lines(chunks):
        yield b"".join(own.findall(lines))


def written_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The text of the lines that a container runtime wrote, without what it put before them."""
    parts: dict[bytes, bytes] = {}  # of a line that is not yet whole, by its stream
    for lines in whole_lines(chunks):
        yield b"".join(_written(line, parts) for line in lines.splitlines(keepends=True))
    yield b"".join(rest + b"\n" for rest in parts.values())


def _written(line: bytes, parts: dict[bytes, bytes]) -> bytes:
    match = CRI.match(line)
    if match is None:
        return line
    stream, tag = match.groups()
    text = parts.pop(stream, b"") + line[match.end() :]
    if tag == b"F":
        return text
    parts[stream] = text.rstrip(b"\r\n")
    return b""
