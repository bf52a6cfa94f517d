"""Accumulates the measurements on two versions: files beside their page → the measurements by which it is judged.

A page belongs to two versions, a case and a target. Each measurement of a kind is kept; the most precise one counts, so
that a weaker one never replaces a stronger one. An arm is one of the two compared versions.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from math import inf, log1p

from configs.frozen import Frozen
from tasks.diff.examine.examination import Subject
from tasks.diff.judge.loop_rows import describe_loops
from tasks.diff.judge.program_time_rows import describe_turns, show_ratio
from tasks.records.compared_case import ComparisonRecord
from tasks.records.data import DataComparison
from tasks.records.function import FunctionComparison
from tasks.records.host_times import HostTimes
from tasks.records.loop_times import LoopTimes
from tasks.records.measurement import NOTHING, EarlierVerdict, EvidenceLine, MeasuredKind, Measurement, Measurements
from tasks.records.program_times import ProgramTimes
from tasks.records.run import RunRecord
from tasks.records.text import counted
from tasks.store.directories import ComparisonDirectory
from tasks.store.documents import model_from_json
from tasks.store.json_records import model_to_json
from tasks.store.store import Store

NAMES: dict[MeasuredKind, str] = {
    "function": "both steps in float64",
    "time": "step times of the programs in turns",
    "loop": "step times of the loops in turns",
    "host": "host loops without their program",
    "data": "batches of the recorded steps",
}
ONE_PROGRAM = "both arms have one program"
ANSWERS = ("not evaluated", "same", "another")  # the last one of several measurements counts


type Result = FunctionComparison | ProgramTimes | LoopTimes | HostTimes | DataComparison


class Kept(Frozen):
    """The measurements of a page, in the order in which they were made."""

    measurements: tuple[Measurement, ...] = ()

    def best(self, kind: MeasuredKind) -> Measurement | None:
        """Return the measurement of a kind that counts; None without one."""
        return max((one for one in self.measurements if one.kind == kind), key=rank, default=None)

    @property
    def function(self) -> FunctionComparison | None:
        """Both steps in float64."""
        found = self.best("function")
        return found.function if found is not None else None

    @property
    def turns(self) -> ProgramTimes | None:
        """Step times of both programs in turns, with a sentence on a measurement that contradicts them."""
        found = self.best("time")
        if found is None or found.time is None or found.time.wall is None:
            return found.time if found is not None else None
        wall = found.time.wall
        for one in self.measurements:
            other = one.time.wall if one.time is not None else None
            if other is not None and (other.low > wall.high or other.high < wall.low):
                assert one.time is not None
                told = f"another measurement gave {show_ratio(other)}: {describe_turns(one.time)}"
                return found.time.replace(contradicted=told)
        return found.time

    @property
    def loops(self) -> LoopTimes | None:
        """Both loops in turns."""
        found = self.best("loop")
        return found.loop if found is not None else None

    @property
    def host(self) -> HostTimes | None:
        """Both host loops without their program."""
        found = self.best("host")
        return found.host if found is not None else None

    @property
    def data(self) -> DataComparison | None:
        """The batches of both recorded steps."""
        found = self.best("data")
        return found.data if found is not None else None

    @property
    def counting(self) -> Measurements:
        """The measurement of each kind that counts."""
        return Measurements(function=self.function, turns=self.turns, loops=self.loops, host=self.host, data=self.data)

    @property
    def asked(self) -> tuple[str, ...]:
        """The questions of `--only` that have an answer."""
        return tuple(kind for kind in ("function", "time") if self.best(kind) is not None)


def rank(measurement: Measurement) -> tuple[bool, int, bool, float, str]:
    """Return a key that is larger for a more precise measurement of a kind; for equally precise ones, a later one."""
    width, answer, is_whole = 0.0, 0, True
    times = measurement.time or measurement.loop
    if times is not None and times.wall is not None:
        width = _log(times.wall.high) - _log(times.wall.low)
    if measurement.host is not None and measurement.host.wall is not None:
        width = measurement.host.wall.high - measurement.host.wall.low
    if measurement.function is not None:
        answer = ANSWERS.index(measurement.function.answer)
        is_whole = not measurement.function.is_until_decided
    if measurement.data is not None:
        answer = (measurement.data.are_equal is not None) + 2 * (measurement.data.kind == "other")
    return not measurement.problem, answer, is_whole, -width, measurement.made


def _log(ratio: float) -> float:
    return log1p(ratio) if ratio > -1 else -inf


def keep(directory: ComparisonDirectory, **found: Result | None) -> None:
    """Write measurements beside the page, by the field of `Measurement`; None: not measured."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    for kind, result in found.items():
        if result is not None:
            _write(directory, Measurement.model_validate({"kind": kind, "made": made, kind: result}))


def keep_one_program(directory: ComparisonDirectory, asked: Iterable[MeasuredKind]) -> None:
    """Write that both arms have one program, which answers these questions."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    for kind in asked:
        _write(directory, Measurement(kind=kind, made=made))


def _write(directory: ComparisonDirectory, measurement: Measurement) -> None:
    """Write a measurement, unless it was read from there again."""
    if measurement.time is not None and measurement.time.contradicted:  # depends on the others
        measurement = measurement.replace(time=measurement.time.replace(contradicted=""))
    # other words for the same measured distances are no new measurement
    reworded = measurement.function is not None and not measurement.problem
    content = measurement.model_dump_json(exclude={"made": True, "function": {"sentence"} if reworded else set()})
    name = f"{measurement.kind}-{hashlib.sha256(content.encode()).hexdigest()[:10]}.json"
    if not (directory.evidence / name).exists():
        directory.write_evidence(name, model_to_json(measurement))


def read_kept(directory: ComparisonDirectory) -> Kept:
    """Return the measurements beside a page. Raises StoreError if a file is damaged."""
    found = directory.read_evidence(model_from_json(Measurement))
    return Kept(measurements=tuple(sorted(found, key=lambda one: one.made)))


def keep_turns(kept: Kept, limit_s: float) -> ProgramTimes | None:
    """Return the step times of programs that took turns before for at least `limit_s` seconds; None without any."""
    found = kept.turns
    return found if found is not None and not found.problem and found.limit_s >= limit_s else None


def keep_loops(kept: Kept, limit_s: float) -> LoopTimes | None:
    """Return the step times of loops that took turns before for at least `limit_s` seconds; None without any."""
    found = kept.loops
    return found if found is not None and not found.problem and found.limit_s >= limit_s else None


def gather_evidence(subject: Subject, store: Store, found: Measurements = NOTHING) -> Measurements:
    """Return the measurements that count of all on these versions; the found ones are kept for later."""
    directory = store.comparison(subject.comparison, subject.case, subject.id)
    keep(directory, function=found.function, time=found.turns, loop=found.loops, host=found.host, data=found.data)
    return read_kept(directory).counting


def read_earlier_runs(directory: ComparisonDirectory, store: Store, known: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the finished runs of a page that are not among the known ones, in the order in which they ran."""
    before = directory.read_comparison()
    if before is None or not before.trained or before.programs is not None:
        return []
    names = {run.reading.name for run in known}
    pairs = [
        (number, log)
        for arm in (before.baseline, before.candidate)
        for number, (name, log) in enumerate(zip(arm.runs, arm.logs, strict=True))
        if name not in names
    ]
    read = (store.run_of_log(log).read_record() for _, log in sorted(pairs, key=lambda pair: pair[0]))
    return [run for run in read if run is not None and run.plan is not None and not run.plan.blessed]


def add_evidence(record: ComparisonRecord, directory: ComparisonDirectory) -> ComparisonRecord:
    """Return the record with the list of its evidence, and with what its page told before."""
    before = directory.read_comparison()
    earlier: tuple[EarlierVerdict, ...] = ()
    if before is not None:
        told = EarlierVerdict(
            made=before.created,
            word=" ".join([before.verdict, *([" and ".join(before.asked)] if before.asked else [])]),
            headline=before.headline,
        )
        is_new = (before.verdict, before.headline) != (record.verdict, record.headline)
        earlier = (*before.earlier, told) if is_new else before.earlier
    return record.replace(evidence=tuple(list_evidence(read_kept(directory), record)), earlier=earlier)


def list_evidence(kept: Kept, record: ComparisonRecord) -> Iterator[EvidenceLine]:
    """Yield all evidence of a page, the oldest measurement first; its runs last."""
    for one in kept.measurements:
        yield EvidenceLine(made=one.made, what=NAMES[one.kind], result=describe(one), counts=one == kept.best(one.kind))
    if record.trained:
        runs = len(record.candidate.runs)
        yield EvidenceLine(
            made=record.candidate.started or "", what="runs", result=f"{counted(runs, 'run')} of each", counts=True
        )


def describe(measurement: Measurement) -> str:
    """Return the result of a measurement in words."""
    if measurement.problem:
        return measurement.problem
    if measurement.time is not None and measurement.time.wall is not None:
        return f"{show_ratio(measurement.time.wall)}; {describe_turns(measurement.time)}"
    if measurement.loop is not None and measurement.loop.wall is not None:
        return f"{show_ratio(measurement.loop.wall)}; {describe_loops(measurement.loop)}"
    if measurement.function is not None:
        return measurement.function.sentence
    if measurement.data is not None:
        words = {"equal": "equal", "reordered": "the same rows in another order", "other": "other data"}
        return f"{words[measurement.data.kind]} in {counted(measurement.data.steps, 'step')}"
    if measurement.host is not None:
        return f"{measurement.host.pairs} processes of each"
    return ONE_PROGRAM
