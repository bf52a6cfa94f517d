"""Finds what ended a run of many ranks: the first exception after its last step, whichever rank it is from.

The others only follow: collectives time out, and the launcher reports which child failed.
"""

import re
from dataclasses import dataclass, field

from tasks.records import LogError
from tasks.scrape.causes import classify
from tasks.scrape.ranks import rank_mark
from tasks.scrape.window import OVERLAP, Window

_HEADER = re.compile(rb"Traceback \(most recent call last\):")
_RAISED = re.compile(rb"([A-Za-z_][\w.]*)(?:: (.*))?")
_CHAINED = re.compile(rb"During handling of the above exception|The above exception was the direct cause")
_KILLED = re.compile(rb"(?m)^(?:\S+: )?(?:error: .*?)?(?:slurmstepd: error: )(.*(?:oom|CANCELLED|TIME LIMIT)[^\n]*)")
_IGNORED = re.compile(rb"Exception ignored in[^\n]*\s*\Z")


@dataclass
class RankTracebacks:
    """The exceptions of a log, by the prefix of the rank that wrote them, in the order of their appearance."""

    found: list[tuple[bytes, LogError]] = field(default_factory=list)

    def take(self, window: Window) -> None:
        """Read the tracebacks that start in a window."""
        for match in _HEADER.finditer(window.data, window.start):
            if match.start() >= window.limit:
                break
            before = window.data[max(0, match.start() - OVERLAP) : match.start()]
            if _IGNORED.search(before[-400:]):
                continue
            self._read(window, match.start())
        for match in _KILLED.finditer(window.data, window.start):
            if match.start() < window.limit:
                self._note(b"slurm", "slurmstepd", match[1].decode("utf-8", "replace"), match.start(1), window)

    def cause(self, *, last_step: int, exit_code: int | None) -> LogError | None:
        """The exception that ended the run; one after which a step was printed ended nothing."""
        late = [error for _, error in sorted(self.found, key=lambda hit: hit[1].offset) if error.offset > last_step]
        return None if exit_code == 0 or not late else late[0]

    def _read(self, window: Window, position: int) -> None:
        data = window.data
        begin = data.rfind(b"\n", 0, position) + 1
        mark, _ = rank_mark(data[begin:position])
        end, stop = data.find(b"\n", position), min(len(data), position + OVERLAP)
        while 0 <= end < stop:
            begin = end + 1
            end = data.find(b"\n", begin, stop)
            line = data[begin : end if end >= 0 else stop].rstrip()
            prefix, text = rank_mark(line)
            # between the lines of one rank stand those of others
            if prefix != mark or not text or text[:1].isspace():
                continue
            raised = _RAISED.fullmatch(text)
            if raised:
                message = (raised[2] or b"").decode("utf-8", "replace").strip()
                self._note(mark, raised[1].decode(), message, begin + len(prefix), window)
            return

    def _note(self, mark: bytes, kind: str, message: str, position: int, window: Window) -> None:
        source = window.source(position)
        error = LogError(
            type=kind,
            message=message,
            line=source.line,
            offset=source.offset,
            kind=classify(f"{kind}: {message}" if message else kind),
        )
        # of a chain of exceptions of one rank the last is the one that ended it
        for index, (other, earlier) in enumerate(self.found):
            start = earlier.offset - window.base
            if other == mark and start >= 0 and _CHAINED.search(window.data, start, position):
                self.found[index] = (mark, error)
                return
        self.found.append((mark, error))
