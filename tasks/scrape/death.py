"""Finds what ended a run: an exception, a signal, an eviction, or the line in which the program says why it stops.

A log may show many exceptions, and most of them ended nothing. What counts, in this order:

1. the program's own word that it stops (`Aborting training due to NaN loss.`, `Training stopped: …`);
2. tracebacks that ended their process, and fatal errors: not what the interpreter says it ignored, not what was logged
   and survived (a retry), not what another thread raised, not what came up at exit, and nothing after which training
   went on. Of a chain of exceptions the last is what the process ended with; where it names no class, the earlier ones
   of the chain do. Where several hosts died, the first one that does not only report another's death;
3. signals and evictions: in the log's own words, or by an exit code of 128 and more;
4. with an exit code that is not 0, and nothing else to explain it, the last of what was left out under 2.

An exception that may follow of an eviction (a connection that broke, a time-out) has the class of the eviction.
"""

import re
from collections import deque
from dataclasses import dataclass, field, replace

from tasks.records import DeathKind, LogError, Source
from tasks.scrape.causes import classify
from tasks.scrape.choose_death import Found, choose, error_of, explain, join
from tasks.scrape.exceptions import is_chained, is_followed, read_exception, read_headless, weakness
from tasks.scrape.signals import SIGNALS, event_name, signal_name
from tasks.scrape.window import OVERLAP, Window

MOST, FIRST = 2000, 200  # how many are kept, and how many of them are the first
_REACHED = re.compile(r"Target loss .* is achieved|run out of training data")  # ends that were to be expected


@dataclass
class DeathLog:
    """What a log gives as reasons to stop."""

    found: list[Found] = field(default_factory=list)
    pending: deque[int] = field(default_factory=deque)  # offsets of tracebacks whose end was not there yet, ascending
    exit_code: int | None = None
    _exit: Source | None = None
    _backend: str | None = None
    _processes: set[bytes] = field(default_factory=set)

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Note one anchor; those that end no run are ignored."""
        match name:
            case "traceback":
                self.pending.append(window.base + match.start())
                self.settle(window)
            case "aborted":
                self._note("stop", "SystemExit", _text(match[1]), match.start(1), window)
            case "stopped" if not _REACHED.search(_text(match[1])):
                self._note("stop", "StopTraining", _text(match[1]), match.start(), window)
            case "usage":
                self._note("usage", "ArgumentError", _text(match[1] or match[2]), match.start(), window)
            case "fatal" | "fatal_tsl":
                self._note("fatal", "Fatal", _text(match[1]), match.start(), window)
            case "fatal_cpp":
                self._note("fatal", "Fatal", _text(match[1]), match.start(), window)
            case "fatal_python":
                self._note("fatal", "Fatal Python error", _text(match[1]), match.start(), window)
            case "signal":
                said = _text(next(text for text in match.groups() if text))
                self._note("signal", signal_name(said), _text(match[0]), match.start(), window)
            case "event":
                self._note("event", event_name(_text(match[0])), _text(match[0]), match.start(), window)
            case "start":
                self.exit_code, self._exit = None, None  # tried again: the end before was none
            case "exit_code":
                self.exit_code, self._exit = int(match[1]), window.source(match.start())
            case "backend":
                self._backend = self._backend or _text(match[1])
            case "process":
                self._processes.add(match[1])

    def begin(self, window: Window) -> None:
        """Read the traceback in whose frames the log begins."""
        raised = read_headless(window.data)
        if raised is not None:
            found = Found("traceback", raised.type, raised.message, raised.text, window.source(raised.position))
            self._keep(replace(found, detail=raised.detail))

    def settle(self, window: Window, *, last: bool = False) -> None:
        """Read the tracebacks that were waiting for their end. `last`: nothing comes any more."""
        everything = window.last or last
        # they wait in their order: where one has to, all behind it have to
        while self.pending and (everything or len(window.data) - (self.pending[0] - window.base) >= OVERLAP):
            self._read(self.pending.popleft() - window.base, window)

    def _read(self, position: int, window: Window) -> None:
        data = window.data
        raised = read_exception(data, position)
        if raised is None:
            return
        weak, chained = weakness(raised), is_chained(raised)
        before = self._before(window.base + position)
        if chained and before is not None:
            weak = weak or before.weak
        if weak == "logged" and not is_followed(data, raised, position):
            weak = ""  # it was the last that the program did
        found = Found("traceback", raised.type, raised.message, raised.text, window.source(raised.position))
        self._keep(replace(found, detail=raised.detail, weak=weak, chained=chained))

    def _before(self, offset: int) -> Found | None:
        return next(
            (one for one in reversed(self.found) if one.form == "traceback" and one.source.offset < offset), None
        )

    def _note(self, form: str, kind: str, message: str, position: int, window: Window) -> None:
        message = message.strip()
        text = f"{kind}: {message}" if form in ("stop", "usage", "fatal") else f"{kind}\n{message}"
        self._keep(Found(form, kind, message, text, window.source(position)))

    def _keep(self, found: Found) -> None:
        self.found.append(found)
        if len(self.found) > MOST:  # something fails for ever, and the log with it: what began it and what is last
            del self.found[FIRST : len(self.found) - (MOST // 2 - FIRST)]

    def cause(self, *, last_step: int, ordered: bool = True) -> LogError | None:
        """What ended the run, if it did not end well.

        last_step: the offset of the last step line, -1 without one. ordered: whether step lines and errors come through
        one stream; otherwise an error may stand before steps that came earlier.
        """
        found = sorted(self.found, key=lambda one: one.source.offset)
        late = [one for one in found if one.source.offset > last_step]
        if self.exit_code == 0:
            stops = [one for one in late if one.form == "stop" and one.type == "StopTraining"]
            return self._error(stops[0], early=last_step < 0) if stops else None
        if not late and not ordered and self.exit_code is not None and self.exit_code < 128:
            late = found
        events = [one for one in late if one.form == "event"]
        chosen = choose([one for one in late if not one.weak], several=len(self._processes) > 1)
        if chosen is None:
            return self._without_exception(late, events, early=last_step < 0)
        best, why, chain = chosen
        error = self._error(best, why, early=last_step < 0)
        if error.kind == "other":
            for earlier in reversed(chain[:-1]):
                kind = self._kind(earlier, early=last_step < 0)
                if kind != "other":
                    reason = f"its class is that of {earlier.type} in line {earlier.source.line}, which led to it"
                    error = error.model_copy(update={"kind": kind, "why": join(error.why, reason)})
                    break
        return self._explain(error, best, events)

    def _explain(self, error: LogError, best: Found, events: list[Found]) -> LogError:
        """With the class of an eviction that the log tells of, if the error may have come of it."""
        return explain(error, best.text, ((event, self._kind(event, early=False)) for event in events))

    def _without_exception(self, late: list[Found], events: list[Found], *, early: bool) -> LogError | None:
        signals = [one for one in late if one.form == "signal"]
        code = self.exit_code
        if code is not None and code >= 128 and self._exit is not None:
            name = SIGNALS.get(code - 128, f"signal {code - 128}")
            hint = ": kill -9, or out of memory" if name == "SIGKILL" else ""
            message = f"ended by signal {code - 128} ({name}){hint}" if code - 128 in SIGNALS else f"ended by {name}"
            best = Found("signal", name, message, f"{name}: {message}", self._exit)
            if signals:
                best = replace(best, source=signals[0].source)
            return self._explain(self._error(best, early=early), best, events)
        if signals:
            return self._explain(self._error(signals[0], early=early), signals[0], events)
        if events:
            return self._error(events[0], early=early)
        weak = [one for one in late if one.weak]
        if weak and code not in (None, 0):
            return self._error(weak[-1], f"raised {weak[-1].weak}; nothing else explains exit code {code}", early=early)
        return None

    def _error(self, found: Found, why: str = "", *, early: bool) -> LogError:
        return error_of(found, self._kind(found, early=early), why)

    def _kind(self, found: Found, *, early: bool) -> DeathKind:
        return classify(found.text, backend=self._backend, before_steps=early)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace").strip()
