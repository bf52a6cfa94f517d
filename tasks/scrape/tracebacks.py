"""Finds what ended a run of many ranks: the first failure after its last step, whichever rank it is from.

The others only follow: collectives time out, and the launcher reports which child failed. What the launcher says is the
cause only where no rank said anything: a rank that was killed has no last words. Where the log tells of an eviction, a
failure that may have come of it has the class of the eviction.
"""

import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count

from tasks.records import LogError
from tasks.scrape.anchors import ANCHORS, find_named
from tasks.scrape.causes import classify, is_follower
from tasks.scrape.choose_death import Found, error_of, explain, join
from tasks.scrape.exceptions import Raised, is_chained, read_exception, read_headless, weakness
from tasks.scrape.signals import event_name, signal_name
from tasks.scrape.window import OVERLAP, Window

_HEADER = ANCHORS["traceback"]
# SLURM: `slurmstepd: error: …`, `[2026-04-20T03:25:23.011] error: *** STEP … CANCELLED …`, `srun: error: n1: task 0: …`
_ERROR = re.compile(rb"error: ([^\n]{1,600})")
_SLURM = re.compile(rb"[^\n]{0,300}(?:oom|OOM|Out Of Memory|CANCELLED|TIME LIMIT)[^\n]{0,300}")
_CANCELLED = re.compile(rb"\*\*\* [^\n]{0,300}CANCELLED[^\n]{0,300}")
_EXITED = re.compile(rb"[^\s:]{1,200}: tasks? [\d,\- ]{1,200}: Exited with exit code \d{1,3}")
# torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
_WATCHDOG = re.compile(rb"Watchdog caught collective operation timeout: [^\n]{1,400}")
_TERMINATED = re.compile(
    rb"terminate called after throwing an instance of '([^'\n]{1,100})'\s{1,9}what\(\): +([^\n]{0,400})"
)
# torch/distributed/elastic/multiprocessing: `exitcode  : -9 (pid: 14750)` in a table of its own, and the agent's line;
# deepspeed/launcher/launch.py: `exits with return code = -9`
_CHILD = re.compile(
    rb"exit(?:code {0,4}: |s with return code = )(-\d{1,3})(?!\d)(?:\) local_rank: \d{1,9})?(?: \(pid: \d{1,12}\))?"
)
_JOINTS = (b"During handling of the above exception", b"The above exception was the direct cause")
_LAUNCHER = ("ChildFailedError", "SignalException", "CalledProcessError", "ProcessExitedException")
_ALONE = ("usage", "fatal_python", "signal", "event")  # what is looked for behind the last row only
_HELD = 8  # windows
MOST = 10_000  # failures of a kind that are kept: more than ranks that fail


@dataclass
class RankTracebacks:
    """The failures of a log that no row follows, in the order of their appearance. Of too many, the first are kept."""

    found: dict[int, Found] = field(default_factory=dict)  # by their number
    refused: list[Found] = field(default_factory=list)  # arguments
    killed: list[Found] = field(default_factory=list)  # as the launcher tells it
    events: list[Found] = field(default_factory=list)  # evictions
    exited: list[Found] = field(default_factory=list)  # tasks of which SLURM knows no more than that
    weak: list[Found] = field(default_factory=list)  # what need not have ended a process
    _latest: dict[bytes, int] = field(default_factory=dict)  # the number of the last one of a rank's prefix
    _numbers: Iterator[int] = field(default_factory=count)
    # windows that are searched if no row follows soon, and where in them their rows end
    _unsearched: list[tuple[Window, int]] = field(default_factory=list)

    def take(self, window: Window, behind: int = 0) -> None:
        """Read the failures that start in a window. behind: where in it its last row stands, or ends."""
        if behind > window.start:  # a row came after all that the windows before hold
            self._unsearched.clear()
            self._forget(window.base + behind)
        if window.base + window.start == 0 and (raised := read_headless(window.data)) is not None:
            self._latest[b""] = self._note("traceback", raised.type, raised.message, raised.position, window)
        # a row of one rank may stand between the lines of another's traceback
        begin = max(window.start, behind - OVERLAP)
        for match in _own(_HEADER, window, begin):
            if len(self.found) < MOST:
                self._read(window, match.start())
        for match in _own(_ERROR, window, begin):
            self._note_slurm(match, window)
        for match in _own(_WATCHDOG, window, begin):
            self._note("fatal", "NCCL", _text(match[0]), match.start(), window)
        for match in _own(_TERMINATED, window, begin):
            self._note("fatal", _text(match[1]), _text(match[2]).strip(), match.start(), window)
        for match in _own(_CHILD, window, begin):
            number = -int(match[1])
            name = f"signal {number}"
            with suppress(ValueError):  # a number that is no signal here
                name = signal.Signals(number).name
            said = f"a rank was ended by {name}: {_text(match[0])}"
            _keep(self.killed, _found("signal", name, said, match.start(), window))
        self._unsearched.append((window, max(behind, window.start)))
        if len(self._unsearched) > _HELD:
            self._find_alone()

    def _forget(self, offset: int) -> None:
        """Forget what stands before the row at an offset: it ended nothing."""
        self.found = {number: one for number, one in self.found.items() if one.source.offset > offset}
        self._latest = {mark: number for mark, number in self._latest.items() if number in self.found}
        for kept in (self.refused, self.killed, self.events, self.exited, self.weak):
            kept[:] = [one for one in kept if one.source.offset > offset]

    def _find_alone(self) -> None:
        for window, begin in self._unsearched:
            for name, match in find_named(_ALONE, window, begin):
                self._note_alone(name, match, window)
        self._unsearched.clear()

    def cause(self, *, last_step: int, exit_code: int | None, finished: int | None = None) -> LogError | None:
        """What ended the run; nothing that a step was printed after did, nor what came after its end at `finished`."""
        if exit_code == 0:
            return None
        self._find_alone()
        until = finished if exit_code is None else None

        def late(kept: Iterable[Found]) -> list[Found]:
            ordered = sorted(kept, key=lambda one: one.source.offset)
            return [
                one for one in ordered if last_step < one.source.offset and (until is None or one.source.offset < until)
            ]

        found, events = late(self.found.values()), late(self.events)
        said = [one for one in found if one.type.rsplit(".", 1)[-1] not in _LAUNCHER]
        own = [one for one in said if not is_follower(f"{one.type}: {one.message}\n{one.detail}")]
        others = len(said) - len(own)
        why = ""
        if own and own[0] is not said[0]:
            why = f"{others} more only report{'s' if others == 1 else ''} that something died elsewhere"
        best = next(
            chain(own, said, late(self.refused), late(self.killed), events, found, late(self.weak), late(self.exited)),
            None,
        )
        if best is None:
            return None
        error = error_of(best, classify(best.text), join(best.weak and f"raised {best.weak}", why))
        return explain(error, f"{error.type}: {error.message}", ((event, classify(event.text)) for event in events))

    def _read(self, window: Window, position: int) -> None:
        raised = read_exception(window.data, position)
        if raised is None:
            return
        source = window.source(raised.position)
        weak = weakness(raised)
        one = Found("traceback", raised.type, raised.message, raised.text, source, raised.detail, weak)
        if weak:
            _keep(self.weak, one)
            return
        # of a chain of exceptions of one rank the last is the one that ended it
        latest = self._latest.get(raised.mark, -1)
        if latest in self.found and self._is_chained(window, position, raised, self.found[latest]):
            self.found[latest] = one
            return
        self._latest[raised.mark] = self._add(one)

    def _is_chained(self, window: Window, position: int, raised: Raised, latest: Found) -> bool:
        if is_chained(raised):
            return True
        # the lines of other ranks may stand between
        begin = max(0, latest.source.offset - window.base) if raised.mark else position
        return any(window.data.find(raised.mark + words, begin, position) >= 0 for words in _JOINTS)

    def _note(self, form: str, kind: str, message: str, position: int, window: Window) -> int:
        return self._add(_found(form, kind, message, position, window))

    def _add(self, one: Found) -> int:
        number = next(self._numbers)
        if len(self.found) < MOST:
            self.found[number] = one
        return number

    def _note_slurm(self, match: re.Match[bytes], window: Window) -> None:
        before = window.data[max(0, match.start() - 12) : match.start()]
        said = _SLURM if before.endswith(b"slurmstepd: ") else _CANCELLED if before.endswith(b"] ") else None
        if said is not None and (found := said.match(match[1])):
            self._note("event", "slurmstepd", _text(found[0]), match.start(1), window)
        elif before.endswith(b"srun: ") and (found := _EXITED.match(match[1])):
            _keep(self.exited, _found("event", "srun", f"srun: error: {_text(found[0])}", match.start(), window))

    def _note_alone(self, name: str, match: re.Match[bytes], window: Window) -> None:
        text = _text(match[0]).strip()
        match name:
            case "usage":
                refused = _text(match[1] or match[2])
                _keep(self.refused, _found("usage", "ArgumentError", refused, match.start(), window))
            case "fatal_python":
                self._note("fatal", "Fatal Python error", _text(match[1]).strip(), match.start(), window)
            case "signal":
                said = signal_name(next(_text(each) for each in match.groups() if each))
                _keep(self.killed, _found("signal", said, text, match.start(), window, text=f"{said}\n{text}"))
            case "event":
                _keep(self.events, _found("event", event_name(text), text, match.start(), window, text=text))


def _found(form: str, kind: str, message: str, position: int, window: Window, *, text: str = "") -> Found:
    text = text or (f"{kind}: {message}" if message else kind)
    return Found(form, kind, message, text, window.source(position))


def _keep(kept: list[Found], one: Found) -> None:
    if len(kept) < MOST:
        kept.append(one)


def _own(pattern: re.Pattern[bytes], window: Window, begin: int) -> Iterator[re.Match[bytes]]:
    for match in pattern.finditer(window.data, begin):
        if match.start() >= window.limit:
            return
        yield match


def _text(found: bytes) -> str:
    return found.decode("utf-8", "replace")
