"""Turns logs that exist, or a saved page that holds both, into the run records of two arms."""

import hashlib
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from configs.comparison import list_names, load_target, load_tolerances
from configs.schema import Frozen
from tasks.diff.case import CaseRuns
from tasks.diff.comparison import diff
from tasks.diff.noise import LEAST_PAIRS, NoisePrior
from tasks.diff.settings import IMPLEMENTATION_KEYS
from tasks.diff.time_rows import Circumstances
from tasks.record import with_cause
from tasks.records import ComparisonRecord, LogReading, RunReading, RunRecord
from tasks.scrape import LogFormatError, copy_log, scrape
from tasks.store import Store, check_name, safe_name

INGEST = "ingest"  # what every comparison of two logs is called
UNTITLED = "logs"  # the case of logs that do not tell it
UNNAMED = "as logged"  # the target of logs of which nobody has said where they ran: a space is in no name
# XPK's pods: workload, slice-job, slice, worker, and five letters
FIRST_POD = re.compile(r"-0-0-[a-z0-9]{5}(?:/|$)")


class LogPair(Frozen):
    """The two runs to compare, each with the file it was read from, and the case if the page names it."""

    files: tuple[Path, Path]
    readings: tuple[RunReading, RunReading]
    case: str | None
    pods: tuple[str | None, str | None] = (None, None)  # whose log in the file it is, where that holds several


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
    readings, pods = [], []
    for path in logs:
        reading = scrape(path)
        run = reading.runs[0] if len(reading.runs) == 1 else choose_process(reading, path)
        pods.append(run.name if len(reading.runs) > 1 else None)
        readings.append(run)
    return _pair((logs[0], logs[1]), readings, None, (pods[0], pods[1]))


def choose_process(reading: LogReading, path: Path) -> RunReading:
    """Of the pods of one job, whose logs one file holds, the one that is process 0: it alone tells of commits.

    Raises LogFormatError if the runs are others, or if it is not clear which that is.
    """
    runs = reading.runs
    if reading.page is not None:
        raise LogFormatError(
            f"{path}: is a page with {len(runs)} runs; give it alone, or a file with one run on each side"
        )
    first = [run for run in runs if run.environment.process_index == 0] or [
        run for run in runs if FIRST_POD.search(run.name)
    ]
    if len(first) != 1:
        names = ", ".join(run.name for run in runs)
        raise LogFormatError(
            f"{path}: holds {len(runs)} runs ({names}), and {'more than one' if first else 'none'} of them is process "
            "0 of its job; give a file with the log of one (kubectl logs POD > run.log, or an export filtered by "
            "resource.labels.pod_name)"
        )
    return first[0]


def _pair(
    files: tuple[Path, Path],
    readings: Sequence[RunReading],
    case: str | None,
    pods: tuple[str | None, str | None] = (None, None),
) -> LogPair:
    names = distinct_names([reading.name for reading in readings], files)
    left, right = (reading.model_copy(update={"name": name}) for reading, name in zip(readings, names, strict=True))
    return LogPair(files=files, readings=(left, right), case=case, pods=pods)


def distinct_names(names: Sequence[str], logs: Sequence[Path]) -> list[str]:
    """The arms' names; where both logs have the same, their files' or folders' names tell them apart."""
    for candidates in (list(names), [path.stem for path in logs], [path.absolute().parent.name for path in logs]):
        if candidates[0] != candidates[1]:
            return candidates
    return ["baseline", "candidate"]


def archive(pair: LogPair, store: Store) -> list[RunRecord]:
    """Copy each log into a run folder of the store and write its record there: the archive outlives the log."""
    records = []
    for path, reading, pod in zip(pair.files, pair.readings, pair.pods, strict=True):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:10]
        directory = store.run(safe_name(f"{reading.name}-{digest}-{reading.span[0]}")).create()
        if not directory.log.exists():
            partial = directory.log.with_suffix(".partial")
            if reading.coverage.unwrapped:
                copy_log(path, partial, source=pod)  # lines and offsets of the reading are those of the text inside
            else:
                shutil.copyfile(path, partial)
            partial.replace(directory.log)
        record = RunRecord(
            plan=None,
            arm=reading.name,
            label=f"{reading.name} · {reading.commit}" if reading.commit else reading.name,
            commit=reading.commit,
            log=directory.log_address,
            reading=with_cause(reading, directory.log) if reading.coverage.complete else reading,
        )
        directory.write_record(record)
        records.append(record)
    return records


def case_runs(records: Sequence[RunRecord], *, case: str, target: str | None) -> CaseRuns:
    """The two runs as those of a case, for what the history of the target knows of them."""
    return CaseRuns(comparison=INGEST, case=case, target=target or UNNAMED, runs=tuple(records))


def check_target(target: str | None) -> None:
    """Raises ValueError for what is no plain name; where logs come from needs no file in configs/targets."""
    if target is not None:
        check_name(target, "target")


def compare_pair(
    records: Sequence[RunRecord],
    *,
    case: str,
    aa: bool,
    target: str | None = None,
    priors: Mapping[str, NoisePrior] | None = None,
) -> ComparisonRecord:
    """The comparison of two ingested runs with the default tolerances.

    `target`: where they ran; `priors`: what equal runs there differ by, as `tasks/history/prior.py` reads it.
    """
    record = diff(
        records[:1],
        records[1:],
        comparison=INGEST,
        case=case,
        target=target or UNNAMED,
        question=f"Do {records[0].label} and {records[1].label} differ?",
        tolerances=load_tolerances("default"),
        declared=IMPLEMENTATION_KEYS,
        aa=aa,
        given=circumstances_of(target, priors or {}),
    )
    return record.model_copy(update={"next_command": suggest_next(record)})


def circumstances_of(target: str | None, priors: Mapping[str, NoisePrior]) -> Circumstances:
    """What the noise of two logs is judged with, and what to type for more of it: the runs cannot be made again."""
    known = load_target(target) if target in list_names("targets") else None
    if target is None:
        remedy = "name where they ran: what equal runs there differ by comes from the history of it (--target NAME)"
    elif not priors:
        remedy = (
            f"let the history of {target} know equal runs: maxview ingest LOG LOG --aa --target {target} with pairs of "
            f"logs of one commit, {LEAST_PAIRS} pairs or more"
        )
    else:
        remedy = "compare logs of further runs"
    return Circumstances(
        priors=priors,
        chips=known.devices if known is not None and known.backend == "xpk" else None,
        price=known.dollars_per_chip_hour if known is not None else None,
        remedy=remedy,
    )


def ingest_words(case: str, target: str, *logs: str) -> list[str]:
    """The words that compare two logs of a case from a place."""
    place = [] if target == UNNAMED else ["--target", target]
    return ["ingest", *(logs or ("LOG", "LOG")), *([] if case == UNTITLED else ["--case", case]), *place]


def suggest_next(record: ComparisonRecord) -> str:
    """The command that is most useful after this verdict: logs cannot be run again, but they can be read closely.

    Where nothing but the noise of an unnamed place is lacking: the same with its name.
    """
    blocked = any(finding.effect == "blocks" for finding in record.findings)
    asked = any(row.runs_wanted is not None for row in record.rows)
    if asked and not blocked and record.target == UNNAMED:
        return shlex.join(
            ["maxview", *ingest_words(record.case, "NAME", record.baseline.logs[0], record.candidate.logs[0])]
        )
    dead = [arm for arm in (record.candidate, record.baseline) if arm.cause_of_death is not None]
    shown = (dead or [record.candidate])[0]
    return shlex.join(["maxview", "scrape", shown.logs[0]])
