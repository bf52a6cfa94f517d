"""Gives a log its line breaks back, for people: every record on a line of its own, each with its byte offset."""

import re

from tasks.scrape.exceptions import read_exception
from tasks.scrape.prefix import ABSL, PREFIX

# what starts a line without a prefix, in logs whose line breaks became spaces
_STARTS = re.compile(
    rb"(?<=\s)(?:XPK Start: |XPK End: |EXIT_CODE=|PyTorch was not found|TFRT TPU|Built on |Memstats: |Using \(GB\) |"
    rb"Per train step:|Total TFLOPs: |split as [\d.]+%|Traceback \(most recent call last\):|File \"[^\"\n]*\", line \d|"
    rb"During handling of the above exception|The above exception was the direct|\S+\s+(?=Shape:)|Shape:|Logical:\s+P|"
    rb"Physical:\s+\(|completed step: |WARNING: All log messages before absl|[IWEF]0000 00:00:\d{9}|"
    rb"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [EWIF] |[A-Z]+:20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d|"
    rb"(?:diloco|data|stage|fsdp|context|sequence|tensor|expert): \d+\s)"
)
_PREFIX_AND_SPACE = re.compile(ABSL + rb"\s*")
_TRACEBACK = re.compile(rb"Traceback \(most recent call last\):")


def display_lines(data: bytes, span: tuple[int, int]) -> list[tuple[int, str]]:
    """(byte offset, text) of every line of the log in data[span], ascending.

    The line that holds a byte is the last one whose offset is not greater. A line on which several records stand is
    broken before each; only where breaks were lost altogether are lines without a prefix looked for.
    """
    begin, end = span
    lines: list[tuple[int, str]] = []
    while begin < end:
        stop = data.find(b"\n", begin, end)
        stop = end if stop < 0 else stop
        breaks = _breaks(data, begin, stop)
        if len(breaks) == 1:
            lines.append((begin, _text(data[begin:stop])))
        else:
            lines.extend(
                (start, _text(data[start:following].rstrip()))
                for start, following in zip(breaks, [*breaks[1:], stop], strict=True)
            )
        begin = stop + 1
    return lines


def _breaks(data: bytes, begin: int, end: int) -> list[int]:
    """Where the records on one line start."""
    starts = [match.start() for match in PREFIX.finditer(data, begin, end)]
    found = {begin, *starts}
    if len(starts) > 1:
        found.update(_break_between(data, begin, end))
    return sorted(found)


def _break_between(data: bytes, begin: int, end: int) -> set[int]:
    """Where lines without a prefix start. What follows a prefix directly is that prefix's own line."""
    own = {match.end() for match in _PREFIX_AND_SPACE.finditer(data, begin, end)}
    found = {match.start() for match in _STARTS.finditer(data, begin, end)}
    for match in _TRACEBACK.finditer(data, begin, end):
        raised = read_exception(data, match.start())
        if raised is not None and raised.position < end:
            found.add(raised.position)
    return {position for position in found if position not in own}


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
