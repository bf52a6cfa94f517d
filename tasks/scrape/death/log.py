"""Finds what ended a run: an exception, a signal, an eviction, or the line in which the program says why it stops.

A log may show many exceptions, and most of them ended nothing. What counts, in this order:

1. the program's own word that it stops (`Aborting training due to NaN loss.`, `Training stopped: …`), or the exception
   that it raises for the same reason;
2. tracebacks that ended their process, and fatal errors: not what the interpreter says it ignored, not what was logged
   and survived (a retry), not what another thread raised, not what came up at exit, nothing after which training went
   on, and nothing behind the trainer's word that it is done. Of a chain of exceptions of one writer the last is what
   the process ended with; where it names no class, the earlier ones of the chain do. Where several processes died, the
   first one that does not only report another's death, and a launcher's report only where no rank said anything;
3. signals and evictions: in the log's own words, or by an exit code of 128 and more;
4. an exception without its traceback, and, if the run failed, the last of what was left out under 2.

An exception that may follow of an eviction (a connection that broke, a time-out) has the class of the eviction.
"""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tasks.records import DeathKind, LogError, Source
from tasks.scrape.death.causes import EXPLAINING, classify, is_explained, is_follower
from tasks.scrape.death.exceptions import Raised, is_chained, is_followed, read_exception, read_headless, weakness
from tasks.scrape.death.signs import SIGNALS, event_name, signal_name
from tasks.scrape.window import OVERLAP, Window

MOST, FIRST = 4000, 2000  # how many are kept, and how many of them are the first
_REACHED = re.compile(r"Target loss .* is achieved|run out of training data")  # ends that were to be expected
_LAUNCHERS = ("ChildFailedError", "SignalException", "CalledProcessError", "ProcessExitedException")
_JOINTS = (b"During handling of the above exception", b"The above exception was the direct cause")


@dataclass(frozen=True)
class Found:
    """Something that may have ended the run."""

    form: str  # "traceback", "stop", "usage", "fatal", "signal", "event", "raised" or "exit"
    type: str
    message: str
    text: str
    source: Source
    detail: str = ""
    weak: str = ""
    chained: bool = False
    mark: bytes = b""  # what its writer's lines begin with

    @property
    def is_launchers(self) -> bool:
        """Whether a launcher only says that a child of it failed."""
        return self.type.rsplit(".", 1)[-1] in _LAUNCHERS


@dataclass
class DeathLog:
    """What a log gives as reasons to stop. `ranks`: it is of many ranks under one launcher."""

    ranks: bool = False
    found: list[Found] = field(default_factory=list)
    pending: deque[int] = field(default_factory=deque)  # offsets of tracebacks whose end was not there yet, ascending
    exit_code: int | None = None
    since: int = -1  # what stands before this offset ended nothing: steps came after it
    _exit: Source | None = None
    _header: int = -1  # where the last traceback begins
    _backend: str | None = None
    _processes: set[bytes] = field(default_factory=set)

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Note one sign; what ends no run is ignored."""
        if window.base + match.start() < self.since and name not in ("exit_code", "start"):
            return
        groups = [_text(text) for text in match.groups() if text]
        first, whole = groups[0] if groups else "", _text(match[0])
        match name:
            case "traceback":
                self._header = window.base + match.start()
                self.pending.append(self._header)
                self.settle(window)
            case "aborted":
                self._note("stop", "SystemExit", first, match.start(1), window)
            case "stopped" if not _REACHED.search(first):
                self._note("stop", "StopTraining", first, match.start(), window)
            case "usage":
                self._note("usage", "ArgumentError", first, match.start(), window)
            case "fatal" | "fatal_tsl" | "fatal_cpp":
                self._note("fatal", "Fatal", first, match.start(), window)
            case "fatal_python":
                self._note("fatal", "Fatal Python error", first, match.start(), window)
            case "watchdog":
                self._note("fatal", "NCCL", whole, match.start(), window)
            case "memory_fault":
                self._note("fatal", "GPU", first, match.start(), window)
            case "terminated":
                self._note("fatal", first, _text(match[2]), match.start(), window)
            case "slurm":
                self._note("fatal", "slurmstepd", first, match.start(1), window)
            case "slurm_exit":
                self._note("exit", "srun", f"srun: error: {first}", match.start(1) - len("error: "), window)
            case "child":
                said = signal_name(first)
                self._note("signal", said, f"a rank was ended by {said}: {whole}", match.start(), window)
            case "signal":
                self._note("signal", signal_name(first), whole, match.start(), window)
            case "exited" if int(first) > 128:
                self._note("signal", signal_name(str(int(first) - 128)), whole, match.start(), window)
            case "event":
                self._note("event", event_name(whole), whole, match.start(), window)
            case "raised":
                self._note("raised", first, _text(match[2]), match.start(1), window)
            case "start":
                self.exit_code, self._exit = None, None  # tried again: the end before was none
            case "exit_code":
                self.exit_code, self._exit = int(match[1]), window.source(match.start())
            case "backend":
                self._backend = self._backend or first
            case "process":
                self._processes.add(match[1])

    def begin(self, window: Window) -> None:
        """Read the traceback in whose frames the log begins."""
        raised = read_headless(window.data)
        if raised is not None:
            self._keep(_of(raised, window))

    def forget(self, offset: int) -> None:
        """Forget what stands before the row at an offset, behind which the lines of a traceback may go on."""
        self.since = offset - OVERLAP
        self.found = [one for one in self.found if one.source.offset > offset]

    def settle(self, window: Window, *, last: bool = False) -> None:
        """Read the tracebacks that were waiting for their end. `last`: nothing comes any more."""
        everything = window.last or last
        # they wait in their order: where one has to, all behind it have to
        while self.pending and (everything or len(window.data) - (self.pending[0] - window.base) >= OVERLAP):
            self._read(self.pending.popleft() - window.base, window)

    def _read(self, position: int, window: Window) -> None:
        raised = read_exception(window.data, position)
        if raised is None:
            return
        weak, before = weakness(raised), self._before(window.base + position, raised.mark)
        chained = is_chained(raised) or (before is not None and self._is_joined(raised, before, position, window))
        if chained and before is not None:
            weak = weak or before.weak
        if weak == "logged" and not self.ranks and not is_followed(window.data, raised, position):
            weak = ""  # it was the last that the program did
        self._keep(replace(_of(raised, window), weak=weak, chained=chained))

    def _is_joined(self, raised: Raised, before: Found, position: int, window: Window) -> bool:
        """Whether the words between two exceptions of a chain stand there; other ranks' lines may stand between."""
        begin = max(0, before.source.offset - window.base) if raised.mark else position
        return any(window.data.find(raised.mark + words, begin, position) >= 0 for words in _JOINTS)

    def _before(self, offset: int, mark: bytes) -> Found | None:
        return next((one for one in reversed(self.found)
                     if one.form == "traceback" and one.mark == mark and one.source.offset < offset), None)  # fmt: skip

    def _note(self, form: str, kind: str, message: str, position: int, window: Window) -> None:
        joint = ": " if form in ("stop", "usage", "fatal", "raised") and message else "\n"
        text = message if form == "exit" else f"{kind}{joint}{message}"
        self._keep(Found(form, kind, message, text, window.source(position)))

    def _keep(self, found: Found) -> None:
        self.found.append(found)
        if len(self.found) > MOST:  # something fails for ever, and the log with it: what began it and what is last
            del self.found[FIRST : len(self.found) - (MOST // 2 - FIRST // 2)]

    def cause(self, *, last_step: int, ordered: bool = True, finished: int | None = None) -> LogError | None:
        """What ended the run, if it did not end well.

        last_step: the offset of the last step line, -1 without one. ordered: whether step lines and errors come through
        one stream; otherwise an error may stand before steps that came earlier. finished: the offset of the trainer's
        word that it is done.
        """
        found = sorted(self.found, key=lambda one: one.source.offset)
        late = [one for one in found if one.source.offset > last_step]
        if self.exit_code is None and finished is not None:
            late = [one for one in late if one.source.offset < finished]
        early = last_step < 0
        if self.exit_code == 0:
            stops = [one for one in late if one.form == "stop" and one.type == "StopTraining"]
            return self._error(stops[0], early=early) if stops else None
        if self._header > last_step:  # what looks like an exception without its traceback is the last line of one
            late = [one for one in late if one.form != "raised"]
        if not late and not ordered and self.exit_code is not None and self.exit_code < 128:
            late = found
        chosen = self._choose([one for one in late if not one.weak and not one.is_launchers])
        if chosen is None:
            return self._without_exception(late, early=early)
        best, why, chain = chosen
        error = self._error(best, why, early=early)
        if error.kind == "other":
            for earlier in reversed(chain[:-1]):
                kind = self._kind(earlier, early=early)
                if kind != "other":
                    reason = f"its class is that of {earlier.type} in line {earlier.source.line}, which led to it"
                    error = error.model_copy(update={"kind": kind, "why": _join(error.why, reason)})
                    break
        return self._explain(error, best.text, late)

    def _choose(self, strong: list[Found]) -> tuple[Found, str, list[Found]] | None:
        """What ended the run, why this one, and the chain of exceptions that it is the last of."""
        stops = [one for one in strong if one.form == "stop"]
        if stops:
            kind = self._kind(stops[0], early=False)
            # the exception that the program then raises for the same reason says more, and what to do
            ends = [one for one in strong if one.form == "traceback" and one.source.offset > stops[0].source.offset]
            best = next((one for one in ends if self._kind(one, early=False) == kind != "other"), stops[0])
            return best, "", [best]
        chains = _chains_of(strong)
        if not chains:
            # programs around the trainer complain in the same words, and the trainer may start all the same
            refused = [one for one in strong if one.form == "usage"]
            return (refused[-1], "", refused[-1:]) if refused else None
        own = [chain for chain in chains if not all(is_follower(one.text) for one in chain)]
        others = len(chains) - len(own)
        why = (
            f"{others} more only report{'s' if others == 1 else ''} that something died elsewhere"
            if own and others
            else ""
        )
        chains = own or chains
        first = next((index for index, chain in enumerate(chains) if chain[0].form == "fatal"), len(chains))
        raised = chains[:first] or chains[:1]
        repeated = len({(chain[-1].type, chain[-1].message) for chain in raised}) < len(raised)
        several = self.ranks or len(self._processes) > 1 or repeated
        chain = (chains if self.ranks else raised)[0 if several else -1]
        if len(chains) > 1 and chain is raised[0]:
            why = _join(why, f"the first of {len(chains)}")
        if len(chain) > 1:
            why = _join(why, f"the last of a chain of {len(chain)}")
        return chain[-1], why, chain

    def _without_exception(self, late: list[Found], *, early: bool) -> LogError | None:
        of = {form: [one for one in late if one.form == form] for form in ("signal", "event", "raised", "exit")}
        code, signals = self.exit_code, of["signal"]
        if code is not None and code >= 128 and self._exit is not None:
            name = SIGNALS.get(code - 128, f"signal {code - 128}")
            hint = ": kill -9, or out of memory" if name == "SIGKILL" else ""
            message = f"ended by signal {code - 128} ({name}){hint}" if code - 128 in SIGNALS else f"ended by {name}"
            source = signals[0].source if signals else self._exit
            best = Found("signal", name, message, f"{name}: {message}", source)
            return self._explain(self._error(best, early=early), best.text, late)
        if signals:
            return self._explain(self._error(signals[0], early=early), signals[0].text, late)
        if of["event"]:
            return self._error(of["event"][0], early=early)
        launchers, weak = [one for one in late if one.is_launchers], [one for one in late if one.weak]
        if launchers:
            return self._error(launchers[0], early=early)
        if weak and (self.ranks or code not in (None, 0)):
            blame = "" if self.ranks else f"; nothing else explains exit code {code}"
            one = weak[0 if self.ranks else -1]
            return self._error(one, f"raised {one.weak}{blame}", early=early)
        if of["raised"]:
            one = of["raised"][0 if self.ranks else -1]
            return self._explain(self._error(one, "without its traceback", early=early), one.text, late)
        return self._error(of["exit"][0], early=early) if of["exit"] else None

    def _explain(self, error: LogError, text: str, late: Iterable[Found]) -> LogError:
        """With the class of an eviction that the log tells of, if the error, of this text, may have come of it."""
        if not is_explained(error.kind, text):
            return error
        for event in late:
            if event.form == "event" and (kind := self._kind(event, early=False)) in EXPLAINING:
                reason = f"line {event.source.line} says: {event.message}"
                return error.model_copy(update={"kind": kind, "why": _join(error.why, reason)})
        return error

    def _error(self, found: Found, why: str = "", *, early: bool) -> LogError:
        return LogError(
            type=found.type, message=found.message, line=found.source.line, offset=found.source.offset,
            kind=self._kind(found, early=early), why=why, detail=found.detail,
        )  # fmt: skip

    def _kind(self, found: Found, *, early: bool) -> DeathKind:
        return classify(found.text, backend=self._backend, before_steps=early and not self.ranks)


def _chains_of(strong: Iterable[Found]) -> list[list[Found]]:
    """Exceptions that came of one another, of each writer its own; and fatal errors."""
    chains: list[list[Found]] = []
    latest: dict[bytes, list[Found]] = {}  # of each writer
    for one in strong:
        if one.form not in ("traceback", "fatal"):
            continue
        before = latest.get(one.mark)
        if one.chained and before is not None:
            before.append(one)
            continue
        chains.append([one])
        latest[one.mark] = chains[-1] if one.form == "traceback" else []
        if one.form == "fatal":
            del latest[one.mark]
    return sorted(chains, key=lambda chain: chain[-1].source.offset)


def _of(raised: Raised, window: Window) -> Found:
    source = window.source(raised.position)
    return Found("traceback", raised.type, raised.message, raised.text, source, raised.detail, mark=raised.mark)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace").strip()


def _join(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)
