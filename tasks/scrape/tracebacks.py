"""Finds what ended a run of many ranks: the first failure after its last step, whichever rank it is from.

The others only follow: collectives time out, and the launcher reports which child failed. What the launcher says is the
cause only where no rank said anything: a rank that was killed has no last words. Where the log tells of an eviction, a
failure that may have come of it has the class of the eviction.
"""

import re
import signal
from contextlib import suppress
from dataclasses import dataclass, field

from tasks.records import LogError
from tasks.scrape.anchors import ANCHORS, find_named
from tasks.scrape.causes import EXPLAINING, classify, is_explained, is_follower
from tasks.scrape.choose_death import join
from tasks.scrape.exceptions import is_chained, is_ignored, read_exception, read_headless, weakness
from tasks.scrape.signals import event_name, signal_name
from tasks.scrape.window import Window

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


@dataclass
class RankTracebacks:
    """The failures of a log, by the prefix of the rank that wrote them, in the order of their appearance."""

    found: list[tuple[bytes, LogError]] = field(default_factory=list)
    refused: list[LogError] = field(default_factory=list)  # arguments
    killed: list[LogError] = field(default_factory=list)  # as the launcher tells it
    events: list[LogError] = field(default_factory=list)  # evictions
    exited: list[LogError] = field(default_factory=list)  # tasks of which SLURM knows no more than that
    weak: list[LogError] = field(default_factory=list)  # what need not have ended a process
    # windows that are searched if no row follows soon, and where in them their rows end
    _unsearched: list[tuple[Window, int]] = field(default_factory=list)

    def take(self, window: Window, behind: int = 0) -> None:
        """Read the failures that start in a window. behind: where in it its last row stands, or ends."""
        if window.base + window.start == 0 and (raised := read_headless(window.data)) is not None:
            self._note(b"", raised.type, raised.message, raised.position, window)
        for match in _own(_HEADER, window):
            if not is_ignored(window.data, match.start()):
                self._read(window, match.start())
        for match in _own(_ERROR, window):
            self._note_slurm(match, window)
        for match in _own(_WATCHDOG, window):
            self._note(b"nccl", "NCCL", _text(match[0]), match.start(), window)
        for match in _own(_TERMINATED, window):
            self._note(b"c++", _text(match[1]), _text(match[2]).strip(), match.start(), window)
        for match in _own(_CHILD, window):
            number = -int(match[1])
            name = f"signal {number}"
            with suppress(ValueError):  # a number that is no signal here
                name = signal.Signals(number).name
            self.killed.append(_error(name, f"a rank was ended by {name}: {_text(match[0])}", match.start(), window))
        if behind > window.start:  # a row came after all that the windows before hold
            self._unsearched.clear()
        self._unsearched.append((window, max(behind, window.start)))
        if len(self._unsearched) > _HELD:
            self._find_alone()

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
        until = finished if finished is not None and exit_code is None else None

        def late(errors: list[LogError]) -> list[LogError]:
            ordered = sorted(errors, key=lambda error: error.offset)
            return [error for error in ordered if last_step < error.offset and (until is None or error.offset < until)]

        found, events = late([error for _, error in self.found]), late(self.events)
        said = [error for error in found if error.type.rsplit(".", 1)[-1] not in _LAUNCHER]
        own = [error for error in said if not is_follower(f"{error.type}: {error.message}\n{error.detail}")]
        if own and own[0] is not said[0]:
            others = len(said) - len(own)
            why = f"{others} more only report{'s' if others == 1 else ''} that something died elsewhere"
            own[0] = own[0].model_copy(update={"why": join(own[0].why, why)})
        error = next(
            iter(
                (
                    *own,
                    *said,
                    *late(self.refused),
                    *late(self.killed),
                    *events,
                    *found,
                    *late(self.weak),
                    *late(self.exited),
                )
            ),
            None,
        )
        if error is None or not is_explained(error.kind, f"{error.type}: {error.message}"):
            return error
        for event in events:
            if event.kind in EXPLAINING:
                why = join(error.why, f"line {event.line} says: {event.message}")
                return error.model_copy(update={"kind": event.kind, "why": why})
        return error

    def _read(self, window: Window, position: int) -> None:
        raised = read_exception(window.data, position)
        if raised is None:
            return
        error = _error(raised.type, raised.message, raised.position, window, text=raised.text)
        error = error.model_copy(update={"detail": raised.detail})
        weak = weakness(window.data, position)
        if weak:
            self.weak.append(error.model_copy(update={"why": f"raised {weak}"}))
            return
        # of a chain of exceptions of one rank the last is the one that ended it
        if self._is_chained(window, position, raised.mark):
            before = [index for index, (mark, _) in enumerate(self.found) if mark == raised.mark]
            if before:
                self.found[before[-1]] = (raised.mark, error)
                return
        self.found.append((raised.mark, error))

    def _is_chained(self, window: Window, position: int, mark: bytes) -> bool:
        if is_chained(window.data, position):
            return True
        # the lines of other ranks may stand between
        earlier = [error.offset for other, error in self.found if other == mark]
        begin = max(0, earlier[-1] - window.base) if mark and earlier else position
        return any(window.data.find(mark + words, begin, position) >= 0 for words in _JOINTS)

    def _note(self, mark: bytes, kind: str, message: str, position: int, window: Window) -> None:
        self.found.append((mark, _error(kind, message, position, window)))

    def _note_slurm(self, match: re.Match[bytes], window: Window) -> None:
        before = window.data[max(0, match.start() - 12) : match.start()]
        said = _SLURM if before.endswith(b"slurmstepd: ") else _CANCELLED if before.endswith(b"] ") else None
        if said is not None and (found := said.match(match[1])):
            self._note(b"slurm", "slurmstepd", _text(found[0]), match.start(1), window)
        elif before.endswith(b"srun: ") and (found := _EXITED.match(match[1])):
            self.exited.append(_error("srun", f"srun: error: {_text(found[0])}", match.start(), window))

    def _note_alone(self, name: str, match: re.Match[bytes], window: Window) -> None:
        text = _text(match[0]).strip()
        match name:
            case "usage":
                self.refused.append(_error("ArgumentError", _text(match[1] or match[2]), match.start(), window))
            case "fatal_python":
                self._note(b"python", "Fatal Python error", _text(match[1]).strip(), match.start(), window)
            case "signal":
                said = signal_name(next(_text(each) for each in match.groups() if each))
                self.killed.append(_error(said, text, match.start(), window, text=f"{said}\n{text}"))
            case "event":
                self.events.append(_error(event_name(text), text, match.start(), window, text=text))


def _error(kind: str, message: str, position: int, window: Window, *, text: str = "") -> LogError:
    source = window.source(position)
    text = text or (f"{kind}: {message}" if message else kind)
    return LogError(type=kind, message=message, line=source.line, offset=source.offset, kind=classify(text))


def _own(pattern: re.Pattern[bytes], window: Window) -> list[re.Match[bytes]]:
    found = pattern.finditer(window.data, window.start)
    return [match for match in found if match.start() < window.limit]


def _text(found: bytes) -> str:
    return found.decode("utf-8", "replace")
