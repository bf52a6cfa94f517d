"""Takes the lines of a container runtime (`2026-04-18T00:00:00.1Z stdout F text`) back to the lines that were written.

CRI's logging format, of containerd and CRI-O: time, stream, tags, text. A line that is longer than 16 KiB is cut into
parts with the tag P; the tag F ends it. Each stream has its own, and others' lines may stand between the parts.
"""

import re
from collections.abc import Iterable, Iterator

_BLANK = rb"(?: |\t|\xc2\xa0)"
_TAGGED = _BLANK + rb"(stdout|stderr)" + _BLANK + rb"([FP])(?::\w+)*(?:" + _BLANK + rb"|$)"
LINE = re.compile(rb"(?m)^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)" + _TAGGED)
# its time is damaged: a part of a line is one nevertheless, and without it two lines would become one
_DAMAGED = re.compile(rb"[^\n]{0,60}?" + _TAGGED)
LONGEST = 1 << 20  # bytes of a line that are held back; a longer one is given as it comes


def written_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The text of whole lines, without what the runtime put before them."""
    parts: dict[bytes, bytes] = {}  # of a line that is not yet whole, by its stream
    for some in lines:
        yield b"".join(_written(some, parts))
    for rest in parts.values():
        yield rest + b"\n"


def _written(some: bytes, parts: dict[bytes, bytes]) -> Iterator[bytes]:
    if not parts and not any(match[2] == b"P" for match in LINE.finditer(some)):
        yield LINE.sub(b"", some)
        return
    for line in some.splitlines(keepends=True):
        match = LINE.match(line) or _DAMAGED.match(line)
        if match is None:
            yield line
            continue
        stream, tag = match.groups()
        text = parts.pop(stream, b"") + line[match.end() :]
        if tag == b"P" and len(text) < LONGEST:
            parts[stream] = text.rstrip(b"\r\n")
        else:
            yield text if tag == b"F" else text.rstrip(b"\r\n")
