"""Finds the cause of a run's death: an exception, a signal, an eviction, or a message that the program stops.

A log may contain many exceptions that did not end the run. Lines before the last step line are ignored, except if no
later line shows a death, the log may be out of order, and the exit code is 1 to 127. If the log has no exit code, lines
after the trainer's final message are ignored. With exit code 0, only `Training stopped: …` is a cause. Otherwise the
cause is the first item of this list that the log contains:

1. a message that the program stops (`Aborting training due to NaN loss.`, `Training stopped: …`), or the exception that
   the program then raises for the same reason;
2. an exception with its traceback, or a fatal error. Weak exceptions, which may not have ended their process, are
   excluded: the program logged them, or they were raised in another thread, at exit or in a task that was never
   awaited. The cause is the last exception of a chain; if its class is `other`, an earlier exception of the chain
   decides the class. If several processes write the log, or if an exception occurs again, the first chain counts;
   else the last chain before the first fatal error counts, or this error if it is first. A chain that only reports the
   death of another process counts only without other chains;
3. a usage error; a signal, printed or implied by an exit code of at least 128; an event such as an eviction;
4. a launcher's report that its child failed;
5. a weak exception, if several ranks write the log or the exit code shows a failure; an exception without a traceback;
   a report of `srun` that a task exited.

An error that an eviction may have caused (a broken connection, a time-out) gets the class of the eviction, except in
item 4, weak exceptions and reports of `srun`.
"""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tasks.records.run_end import DeathKind, LogError
from tasks.records.shared_fields import Source
from tasks.scrape.death.causes import EXPLAINING, NOTED, classify, is_explained, is_follower, signal_name
from tasks.scrape.death.tracebacks import is_chained, read_exception, weakness
from tasks.scrape.prefixes import PREFIX
from tasks.scrape.window import OVERLAP, Window, text_of

# limit of findings in memory; beyond it, the findings between the first FIRST and the newest 1,000 are dropped
MAX_FINDINGS, FIRST = 4000, 2000
# reasons after `Training stopped: ` that are no death
_REACHED = re.compile(r"Target loss .* is achieved|run out of training data")
_LAUNCHERS = ("ChildFailedError", "SignalException", "CalledProcessError", "ProcessExitedException")
# ends the name of an event: `SLICE_FAILURE_CHIP_DRIVER_ERROR in session e6; …`
_NAME_ENDS = re.compile(r"[:;(*]| in session")
_JOINT = rb"(?:During handling of the above exception|The above exception was the direct cause)"


@dataclass(frozen=True)
class DeathSign:
    """A line or traceback that may show why the run ended."""

    form: str  # "traceback", "stop", "usage", "fatal", "signal", "event", "raised" or "exit"
    type: str  # name of the exception's class, of the signal or event, or the type in `NOTED`
    message: str
    text: str  # the argument for `classify`
    source: Source
    detail: str = ""  # further lines of the message
    weak: str = ""  # the reason why the exception may not have ended its process; "" if there is no reason
    chained: bool = False  # the exception followed from the one before, or is in an ExceptionGroup
    mark: bytes = b""  # pattern of the prefix of a traceback's lines: see `tracebacks`
    logged: bool = False  # a logger printed it, perhaps from another thread

    @property
    def is_launcher_report(self) -> bool:
        """Whether a launcher reports that its child failed."""
        return self.type.rsplit(".", 1)[-1] in _LAUNCHERS


@dataclass
class DeathLog:
    """Collects possible causes of death from a log."""

    ranks: bool = False  # several ranks under one launcher write the log
    findings: list[DeathSign] = field(default_factory=list)
    pending: deque[int] = field(default_factory=deque)  # offsets of tracebacks that were not read yet, ascending
    exit_code: int | None = None  # printed by a wrapper script around the run; None if not (yet) printed
    begun: int = -1  # offset at which the last attempt of the job begins
    since: int = -1  # matches before this offset are ignored, because further steps follow
    _exit: Source | None = None  # place of the exit code
    _early: bool = False  # the log has no step line (always False if several ranks write it)
    _header: int = -1  # offset at which the last traceback begins
    _backend: str | None = None  # of JAX, e.g. "cpu"
    _processes: set[bytes] = field(default_factory=set)  # process numbers in the log

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Collect a match of the pattern `name`, if the pattern matters for deaths."""
        if window.base + match.start() < self.since and name not in ("exit_code", "start"):
            return
        groups = [text_of(text).strip() for text in match.groups() if text]
        first, whole = groups[0] if groups else "", text_of(match[0]).strip()
        if name in NOTED and not (name == "stopped" and _REACHED.search(first)):
            form, kind = NOTED[name]
            message = f"srun: {first}" if name == "slurm_exit" else first if match.re.groups else whole
            self._note(form, kind, message, match.start(name.startswith("slurm")), window)
        match name:
            case "traceback":
                self._header = window.base + match.start()
                self.pending.append(self._header)
                self.read_pending(window)
            case "terminated":
                self._note("fatal", first, text_of(match[2]).strip(), match.start(), window)
            case "child":
                by = signal_name(first)
                self._note("signal", by, f"a rank was ended by {by}: {whole}", match.start(), window)
            case "signal":
                self._note("signal", signal_name(first), whole, match.start(), window)
            case "exited" if int(first) > 128:
                self._note("signal", signal_name(str(int(first) - 128)), whole, match.start(), window)
            case "event":
                self._note("event", _NAME_ENDS.split(whole, maxsplit=1)[0].strip(), whole, match.start(), window)
            case "raised":
                self._note("raised", first, text_of(match[2]).strip(), match.start(1), window)
            case "start":
                self.exit_code, self._exit = None, None  # the job was retried
                self.begun = window.base + match.start()
            case "exit_code":
                self.exit_code, self._exit = int(match[1]), window.source(match.start())
            case "backend":
                self._backend = self._backend or first
            case "process":
                self._processes.add(match[1])

    def forget(self, offset: int) -> None:
        """Drop the findings before the row at `offset`: the run continued after them."""
        self.since = offset - OVERLAP
        self.findings = [one for one in self.findings if one.source.offset > offset]

    def read_pending(self, window: Window, *, last: bool = False) -> None:
        """Read the pending tracebacks whose text is complete in the window; `last`: read all of them."""
        everything = window.last or last
        # a traceback is complete if OVERLAP bytes follow its header; tracebacks are read in order
        while self.pending and (everything or len(window.data) - (self.pending[0] - window.base) >= OVERLAP):
            self._read(self.pending.popleft() - window.base, window)

    def _read(self, position: int, window: Window) -> None:
        raised = read_exception(window.data, position)
        if raised is None:
            return
        weak, chained, header = weakness(raised), is_chained(raised), window.base + position
        same = (one for one in reversed(self.findings) if one.form == "traceback" and one.mark == raised.mark)
        before = next((one for one in same if one.source.offset < header), None)  # the same rank's exception before
        if before is not None and raised.mark and not chained:  # other ranks' lines may be between
            begin = max(0, before.source.offset - window.base)
            chained = re.compile(raised.mark + _JOINT).search(window.data, begin, position) is not None
        if chained and before is not None:
            weak = weak or before.weak
        logged = weak == "logged"
        if logged and not self.ranks and not PREFIX.search(window.data, raised.end, position + OVERLAP):
            weak = ""  # no record follows the logged exception, which thus probably ended the process
        source = window.source(raised.position)
        self._keep(DeathSign("traceback", raised.type, raised.message, raised.text, source, raised.detail, weak,
                             chained, raised.mark, logged))  # fmt: skip

    def _note(self, form: str, kind: str, message: str, position: int, window: Window) -> None:
        joint = ": " if form in ("stop", "usage", "fatal", "raised") and message else "\n"
        text = message if form == "exit" else f"{kind}{joint}{message}"
        self._keep(DeathSign(form, kind, message, text, window.source(position)))

    def _keep(self, finding: DeathSign) -> None:
        self.findings.append(finding)
        if len(self.findings) > MAX_FINDINGS:  # bounds memory
            del self.findings[FIRST : len(self.findings) - (MAX_FINDINGS // 2 - FIRST // 2)]

    def survived(self, *, last_step: int) -> LogError | None:
        """Return the exception or fatal error that ended a process after the last step although the exit code is 0.

        Returns None without such an error. For `python train.py | tee log`, a shell reports the exit code of `tee`.
        last_step: offset of the last step line, -1 without one.
        """
        after = max(last_step, self.begun)
        late = [one for one in self.findings if self.exit_code == 0 and one.source.offset > after]
        chain, why = self._raised([one for one in late if not one.weak and not one.is_launcher_report])
        return self._error(chain[-1], why) if chain else None

    def cause(self, *, last_step: int, ordered: bool = True, finished: int | None = None) -> LogError | None:
        """Return the cause of death; None if the run ended well or the log shows no cause.

        last_step: offset of the last step line, -1 without one. ordered: step lines and errors are in order of time in
        the log; if not, the log may print an error before steps that preceded it. finished: offset of the trainer's
        final message, or None.
        """
        self._early = last_step < 0 and not self.ranks
        findings = sorted(self.findings, key=lambda one: one.source.offset)
        late = [one for one in findings if one.source.offset > last_step]
        if self.exit_code is None and finished is not None:
            late = [one for one in late if one.source.offset < finished]
        if self.exit_code == 0:
            late = [one for one in late if one.source.offset > self.begun]  # excludes the attempt before a retry
            stops = [one for one in late if one.form == "stop" and one.type == "StopTraining"]
            return self._error(stops[0]) if stops else None
        if self._header > last_step:  # an exception without a traceback may be the last line of an unfinished traceback
            late = [one for one in late if one.form != "raised"]
        if not late and not ordered and self.exit_code is not None and self.exit_code < 128:
            late = findings
        strong = [one for one in late if not one.weak and not one.is_launcher_report]
        chain, why = self._stopped(strong) or self._raised(strong)
        if not chain:
            # ranked below other errors: wrapper scripts print usage errors too, and the trainer may still start
            chain = [one for one in strong if one.form == "usage"][-1:]
        if not chain:
            return self._without_exception(late)
        error = self._error(chain[-1], why)
        first = next((one for one in reversed(chain[:-1]) if self._kind(one) != "other"), None)
        if error.kind == "other" and first is not None:
            reason = f"its class is that of {first.type} in line {first.source.line}, which led to it"
            error = error.replace(kind=self._kind(first), why=_join(error.why, reason))
        return self._explain(error, chain[-1].text, late)

    def _stopped(self, strong: list[DeathSign]) -> tuple[list[DeathSign], str] | None:
        """Return the first message that the program stops, as a chain with the reason ""; None without such a message.

        If an exception of the same class (except `other`) follows that no logger printed, it is returned instead.
        """
        stop = next((one for one in strong if one.form == "stop"), None)
        if stop is None:
            return None
        after = (one for one in strong if one.form == "traceback" and one.source.offset > stop.source.offset)
        alike = (one for one in after if not one.logged and self._kind(one) == self._kind(stop) != "other")
        return [next(alike, stop)], ""

    def _raised(self, strong: list[DeathSign]) -> tuple[list[DeathSign], str]:
        """Return the chain of exceptions or the fatal error that ended the run, and why it was chosen.

        Returns ([], "") if the log shows none.
        """
        chains = _chains_of(strong)
        own = [chain for chain in chains if not all(is_follower(one.text) for one in chain)]
        others = len(chains) - len(own)
        reports = f"{others} more only report{'s' if others == 1 else ''} that something died elsewhere"
        chains = own or chains
        if not chains:
            return [], ""
        first = next((index for index, chain in enumerate(chains) if chain[0].form == "fatal"), len(chains))
        raised = chains[:first] or chains[:1]
        repeated = len({(chain[-1].type, chain[-1].message) for chain in raised}) < len(raised)
        several = self.ranks or len(self._processes) > 1 or repeated
        chain = (chains if self.ranks else raised)[0 if several else -1]
        return chain, _join(
            reports if own and others else "",
            f"the first of {len(chains)}" if len(chains) > 1 and chain is raised[0] else "",
            f"the last of a chain of {len(chain)}" if len(chain) > 1 else "",
        )

    def _without_exception(self, late: list[DeathSign]) -> LogError | None:
        """Return the cause by the items 3 (except usage errors) to 5, for a run that no exception ended."""
        of = {form: [one for one in late if one.form == form] for form in ("signal", "event", "raised", "exit")}
        code, signals = self.exit_code, of["signal"]
        if code is not None and code >= 128 and self._exit is not None:
            name = signal_name(str(code - 128))
            hint = ": kill -9, or out of memory" if name == "SIGKILL" else ""
            message = f"ended by signal {code - 128} ({name}){hint}"
            place = signals[0].source if signals else self._exit
            signals = [DeathSign("signal", name, message, f"{name}: {message}", place)]
        if signals:
            return self._explain(self._error(signals[0]), signals[0].text, late)
        if of["event"]:
            return self._error(of["event"][0])
        launchers, weak = [one for one in late if one.is_launcher_report], [one for one in late if one.weak]
        if launchers:
            return self._error(launchers[0])
        which = 0 if self.ranks else -1
        if weak and (self.ranks or code not in (None, 0)):
            blame = "" if self.ranks else f"; nothing else explains exit code {code}"
            return self._error(weak[which], f"raised {weak[which].weak}{blame}")
        if raised := of["raised"]:
            return self._explain(self._error(raised[which], "without its traceback"), raised[which].text, late)
        return self._error(of["exit"][0]) if of["exit"] else None

    def _explain(self, error: LogError, text: str, late: Iterable[DeathSign]) -> LogError:
        """Return the error; if an eviction in the log may have caused it, with the eviction's class."""
        events = (one for one in late if one.form == "event" and self._kind(one) in EXPLAINING)
        event = next(events, None) if is_explained(error.kind, text) else None
        if event is None:
            return error
        why = _join(error.why, f"line {event.source.line} says: {event.message}")
        return error.replace(kind=self._kind(event), why=why)

    def _error(self, finding: DeathSign, why: str = "") -> LogError:
        return LogError(
            type=finding.type, message=finding.message, line=finding.source.line, offset=finding.source.offset,
            kind=self._kind(finding), why=why, detail=finding.detail,
        )  # fmt: skip

    def _kind(self, finding: DeathSign) -> DeathKind:
        return classify(finding.text, backend=self._backend, before_steps=self._early)


def _chains_of(strong: Iterable[DeathSign]) -> list[list[DeathSign]]:
    """Return the chains of exceptions, and each fatal error as a chain of its own, in the order of the log."""
    chains: list[list[DeathSign]] = []
    latest: dict[bytes, list[DeathSign] | None] = {}  # mark of a rank → the rank's open chain; a fatal error closes it
    for one in strong:
        if one.form not in ("traceback", "fatal"):
            continue
        before = latest.get(one.mark)
        if one.chained and before is not None:
            before.append(one)
            continue
        chains.append([one])
        latest[one.mark] = chains[-1] if one.form == "traceback" else None
    return sorted(chains, key=lambda chain: chain[-1].source.offset)


def _join(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)
