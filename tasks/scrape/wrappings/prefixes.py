"""Takes off what stands before each line of a log: a pod, a severity and a time, a container runtime's tags."""

import re
from collections.abc import Iterable, Iterator

POD = re.compile(rb"(?m)^\[pod/([^\]\s/]+/[^\]\s/]+)\] ")
NO_POD = re.compile(rb"(?m)^(?!\[pod/[^\]\s/]+/[^\]\s/]+\] )[^\n]*[^\s][^\n]*$")
# Logs Explorer's text export: severity, time, labels; `kubectl logs --timestamps` has the time alone
EXPORTED = re.compile(
    rb"(?m)^(?:(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY)[ \t]+)?"
    rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)(?: \[[\w./-]+: [^\]\n]*\])*(?:[ \t]|$)"
)
LINE_PREFIXES = (POD, EXPORTED)
# CRI's logging format, of containerd and CRI-O: time, stream, tags, text. A line that is longer than 16 KiB is cut into
# parts with the tag P; the tag F ends it. Each stream has its own, and others' lines may stand between the parts.
_TAGGED = rb"[ \t](stdout|stderr)[ \t]([FP])(?::\w+)*(?:[ \t]|$)"
CRI = re.compile(rb"(?m)^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)" + _TAGGED)
LONGEST = 1 << 20  # bytes of a line that are held back; a longer one is given as it comes


def written_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The text of whole lines, without what the runtime put before them."""
    parts: dict[bytes, bytes] = {}  # of a line that is not yet whole, by its stream
    for some in lines:
        yield b"".join(_written(some, parts))
    for rest in parts.values():
        yield rest + b"\n"


def _written(some: bytes, parts: dict[bytes, bytes]) -> Iterator[bytes]:
    if not parts and not any(match[2] == b"P" for match in CRI.finditer(some)):
        yield CRI.sub(b"", some)
        return
    for line in some.splitlines(keepends=True):
        match = CRI.match(line)
        if match is None:
            yield line
            continue
        stream, tag = match.groups()
        text = parts.pop(stream, b"") + line[match.end() :]
        if tag == b"P" and len(text) < LONGEST:
            parts[stream] = text.rstrip(b"\r\n")
        else:
            yield text if tag == b"F" else text.rstrip(b"\r\n")


def starts_most_lines(prefix: re.Pattern[bytes], head: bytes) -> bool:
    """Whether most lines of a text that begins so begin like this."""
    lines = [line for line in head.split(b"\n", 200)[:200] if line.strip()]
    return bool(lines) and sum(bool(prefix.match(line)) for line in lines) * 2 > len(lines)
