"""Splits a log into lines for display. A line with several records, whose line breaks were lost, is split too.

A record is the text that one call of a logger prints. Its prefix is the logger's: severity, time, process.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tasks.scrape.death.tracebacks import read_exception
from tasks.scrape.prefixes import ABSL, PREFIX
from tasks.scrape.window import CHUNK, report_read
from tasks.scrape.wrappings.lines import whole_lines

# starts of records without a prefix, for logs whose line breaks became spaces
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


def stream_lines(path: Path, span: tuple[int, int]) -> Iterator[tuple[int, str]]:
    """Yield (byte offset, text) of every line in the part `span` (begin, end) of a file, in constant memory.

    A line is split before every prefix in it. If it has several prefixes, it is also split before records without one.
    """
    begin, end = span
    with path.open("rb") as file:
        file.seek(begin)
        chunks = iter(lambda: file.read(min(CHUNK, end - file.tell())), b"")
        for lines in whole_lines(chunks):
            yield from lines_of(lines, begin)
            begin += len(lines)
            report_read(path, begin, end)


def lines_of(data: bytes, base: int) -> Iterator[tuple[int, str]]:
    """Yield (byte offset, text) like `stream_lines`, of a text whose first byte has the offset `base`."""
    begin, end = 0, len(data)
    while begin < end:
        stop = data.find(b"\n", begin)
        stop = end if stop < 0 else stop
        records = [match.start() for match in PREFIX.finditer(data, begin, stop)]
        starts = {begin, *records, *(_break_between(data, begin, stop) if len(records) > 1 else ())}
        for start, following in pairwise([*sorted(starts), stop]):
            text = data[start:following] if len(starts) == 1 else data[start:following].rstrip()
            yield base + start, text.decode("utf-8", "replace").rstrip("\r")
        begin = stop + 1


def _break_between(data: bytes, begin: int, end: int) -> set[int]:
    """Return the offsets of records without a prefix, and of the exceptions that end tracebacks.

    Text directly after a prefix belongs to the prefix's record.
    """
    own = {match.end() for match in _PREFIX_AND_SPACE.finditer(data, begin, end)}
    found = {match.start() for match in _STARTS.finditer(data, begin, end)}
    for match in _TRACEBACK.finditer(data, begin, end):
        raised = read_exception(data, match.start())
        if raised is not None and raised.position < end:
            found.add(raised.position)
    return {position for position in found if position not in own}
