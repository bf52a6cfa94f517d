"""Turns logs that exist, or a saved page that holds both, into the run records of two arms."""

import hashlib
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from configs.comparison import load_tolerances
from configs.schema import Frozen
from tasks.diff.comparison import diff
from tasks.record import with_cause
from tasks.records import ComparisonRecord, RunReading, RunRecord
from tasks.scrape import LogFormatError, copy_log, scrape
from tasks.store import Store, safe_name

# the keys that say which implementation trains: of course they differ between Linen and NNX
IMPLEMENTATION_KEYS = frozenset({"pure_nnx", "enable_nnx", "pure_nnx_decoder"})


class LogPair(Frozen):
    """The two runs to compare, each with the file it was read from, and the case if the page names it."""

    files: tuple[Path, Path]
    readings: tuple[RunReading, RunReading]
    case: str | None


def read_pair(logs: Sequence[Path]) -> LogPair:
    """Two logs, baseline first, or one page with both. Raises LogFormatError with what to type instead."""
    if len(logs) == 1:
        reading = scrape(logs[0])
        if len(reading.runs) != 2:
            raise LogFormatError(
                f"{logs[0]}: holds {len(reading.runs)} run{'s' if len(reading.runs) != 1 else ''}, a comparison needs "
                f"two: give a second log (maxview ingest {logs[0]} OTHER), or a saved MaxView page with both"
            )
        case = (reading.page or {}).get("case")
        return _pair((logs[0], logs[0]), reading.runs, case)
    if len(logs) != 2:
        raise LogFormatError(f"expected one page or two logs, got {len(logs)} files")
    readings = []
    for path in logs:
        runs = scrape(path).runs
        if len(runs) != 1:
            raise LogFormatError(f"{path}: holds {len(runs)} runs; give a file with one run on each side")
        readings.append(runs[0])
    return _pair((logs[0], logs[1]), readings, None)


def _pair(files: tuple[Path, Path], readings: Sequence[RunReading], case: str | None) -> LogPair:
    names = distinct_names([reading.name for reading in readings], files)
    left, right = (reading.model_copy(update={"name": name}) for reading, name in zip(readings, names, strict=True))
    return LogPair(files=files, readings=(left, right), case=case)


def distinct_names(names: Sequence[str], logs: Sequence[Path]) -> list[str]:
    """The arms' names; where both logs have the same, their files' or folders' names tell them apart."""
    for candidates in (list(names), [path.stem for path in logs], [path.absolute().parent.name for path in logs]):
        if candidates[0] != candidates[1]:
            return candidates
    return ["baseline", "candidate"]


def archive(pair: LogPair, store: Store) -> list[RunRecord]:
    """Copy each log into a run folder of the store and write its record there: the archive outlives the log."""
    records = []
    for path, reading in zip(pair.files, pair.readings, strict=True):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:10]
        directory = store.run(safe_name(f"{reading.name}-{digest}-{reading.span[0]}")).create()
        if not directory.log.exists():
            partial = directory.log.with_suffix(".partial")
            if reading.coverage.unwrapped:
                copy_log(path, partial)  # lines and offsets of the reading are those of the text inside
            else:
                shutil.copyfile(path, partial)
            partial.replace(directory.log)
        record = RunRecord(
            plan=None,
            arm=reading.name,
            label=f"{reading.name} · {reading.commit}" if reading.commit else reading.name,
            commit=reading.commit,
            log=str(directory.log),
            reading=with_cause(reading, directory.log) if reading.coverage.complete else reading,
        )
        directory.write_record(record)
        records.append(record)
    return records


def compare_pair(records: Sequence[RunRecord], *, case: str, aa: bool) -> ComparisonRecord:
    """The comparison of two ingested runs with the default tolerances."""
    record = diff(
        records[:1],
        records[1:],
        comparison="ingest",
        case=case,
        target="as logged",
        question=f"Do {records[0].label} and {records[1].label} differ?",
        tolerances=load_tolerances("default"),
        declared=IMPLEMENTATION_KEYS,
        aa=aa,
    )
    return record.model_copy(update={"next_command": suggest_next(record)})


def suggest_next(record: ComparisonRecord) -> str:
    """The command that is most useful after this verdict: logs cannot be run again, but they can be read closely."""
    dead = [arm for arm in (record.candidate, record.baseline) if arm.cause_of_death is not None]
    shown = (dead or [record.candidate])[0]
    return shlex.join(["maxview", "scrape", shown.logs[0]])
