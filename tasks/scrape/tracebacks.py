"""Finds what ended a run of many ranks: the first failure after its last step, whichever rank it is from.

The others only follow: collectives time out, and the launcher reports which child failed. What the launcher says is the
cause only where no rank said anything: a rank that was killed has no last words.
"""

import re
import signal
from contextlib import suppress
from dataclasses import dataclass, field

from tasks.records import LogError
from tasks.scrape.causes import classify
from tasks.scrape.ranks import rank_mark
from tasks.scrape.window import OVERLAP, Window

_HEADER = re.compile(rb"Traceback \(most recent call last\):")
_RAISED = re.compile(rb"([A-Za-z_][\w.]*)(?:: (.*))?")
_CHAINED = re.compile(rb"During handling of the above exception|The above exception was the direct cause")
_IGNORED = re.compile(rb"Exception ignored in[^\n]*\s*\Z")
_SLURM = re.compile(rb"slurmstepd: error: ([^\n]{0,300}(?:oom|OOM|Out Of Memory|CANCELLED|TIME LIMIT)[^\n]{0,300})")
# torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
_WATCHDOG = re.compile(rb"Watchdog caught collective operation timeout: [^\n]{1,400}")
_TERMINATED = re.compile(
    rb"terminate called after throwing an instance of '([^'\n]{1,100})'\s{1,9}what\(\): +([^\n]{0,400})"
)
# torch/distributed/elastic/multiprocessing: `exitcode  : -9 (pid: 14750)` in a table of its own, and the agent's line
_CHILD = re.compile(rb"exitcode {0,4}: (-\d{1,3})(?:\) local_rank: \d{1,9})?(?: \(pid: \d{1,12}\))?")
_LAUNCHER = ("ChildFailedError", "SignalException", "CalledProcessError", "ProcessExitedException")


@dataclass
class RankTracebacks:
    """The failures of a log, by the prefix of the rank that wrote them, in the order of their appearance."""

    found: list[tuple[bytes, LogError]] = field(default_factory=list)
    killed: list[LogError] = field(default_factory=list)  # as the launcher tells it

    def take(self, window: Window) -> None:
        """Read the failures that start in a window."""
        for match in _own(_HEADER, window):
            before = window.data[max(0, match.start() - 400) : match.start()]
            if not _IGNORED.search(before):
                self._read(window, match.start())
        for match in _own(_SLURM, window):
            self._note(b"slurm", "slurmstepd", _text(match[1]), match.start(1), window)
        for match in _own(_WATCHDOG, window):
            self._note(b"nccl", "NCCL", _text(match[0]), match.start(), window)
        for match in _own(_TERMINATED, window):
            self._note(b"c++", _text(match[1]), _text(match[2]).strip(), match.start(), window)
        for match in _own(_CHILD, window):
            number = -int(match[1])
            name = f"signal {number}"
            with suppress(ValueError):  # a number that is no signal here
                name = signal.Signals(number).name
            source = window.source(match.start())
            message = f"a rank was ended by {name}: {_text(match[0])}"
            kind = classify(f"{name}: {message}")
            self.killed.append(LogError(type=name, message=message, line=source.line, offset=source.offset, kind=kind))

    def cause(self, *, last_step: int, exit_code: int | None, finished: int | None = None) -> LogError | None:
        """What ended the run; nothing that a step was printed after did, nor what came after its end at `finished`."""
        if exit_code == 0:
            return None
        late = [error for _, error in sorted(self.found, key=lambda hit: hit[1].offset) if error.offset > last_step]
        killed = [error for error in self.killed if error.offset > last_step]
        if finished is not None and exit_code is None:
            late, killed = ([error for error in errors if error.offset < finished] for errors in (late, killed))
        said = [error for error in late if error.type.rsplit(".", 1)[-1] not in _LAUNCHER]
        return next(iter((*said, *killed, *late)), None)

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
                message = _text(raised[2] or b"").strip()
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


def _own(pattern: re.Pattern[bytes], window: Window) -> list[re.Match[bytes]]:
    found = pattern.finditer(window.data, window.start)
    return [match for match in found if match.start() < window.limit]


def _text(found: bytes) -> str:
    return found.decode("utf-8", "replace")
