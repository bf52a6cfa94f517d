"""Builds a finished run's record from the files in its folder; finds causes of death other than logged exceptions.

Logs are mapped into memory: only the used parts are read, so that a log of any size fits.
"""

import errno
import json
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import dropwhile, islice, takewhile
from pathlib import Path

import polars as pl

from configs.backends import BACKENDS, settings_model
from configs.trainers import trainer_class
from tasks.launch.backend import CAUSE_LINE, CAUSE_PATTERN, LOST_PATTERN, PLACE_PATTERN
from tasks.launch.job import launcher_of
from tasks.launch.logs import list_earlier_logs, rename_earlier_log
from tasks.launch.supervise import CANNOT_START, TIMED_OUT
from tasks.metrics.compute_facts import with_facts
from tasks.observe.kept_program import keep_step_program, read_compiles
from tasks.observe.shared_start import read_start
from tasks.records import (
    CheckpointProof,
    DeathKind,
    LogError,
    RunPlan,
    RunReading,
    RunRecord,
    Source,
    metric_from_json,
    step_from_json,
)
from tasks.resolve.trainers.maxtext_metrics import (
    TENSORBOARD,
    has_maxtext_keys,
    read_maxtext_events,
    read_maxtext_metrics,
)
from tasks.scrape import LogFormatError, scrape_run
from tasks.scrape.death.causes import classify
from tasks.scrape.prefixes import ABSL
from tasks.scrape.window import text_of
from tasks.store import RunDirectory
from tasks.store.atomic import explain_full

REFUSED = 2  # exit code of programs that refuse their input
# exit code that maxview's supervisor wrote (None: it wrote none) → (type, class, message) of the cause of death
_EXITS: dict[int | None, tuple[str, DeathKind, str]] = {
    None: ("Killed", "killed", "the log ends without an exit code: the process and its supervisor were killed"),
    TIMED_OUT: ("TimeLimit", "timeout", "the time limit was reached"),
    CANNOT_START: ("CannotStart", "configuration", "the command could not be started"),
}
CHUNK = 4 << 20  # bytes in which line breaks are counted at a time
MAX_LINES = 20  # limit of lines in a refusal
# lines that are no part of a refusal: empty lines, lines of loggers, of maxview or around a run (`XPK Start: `), and
# source locations of C++ libraries
_OTHERS = re.compile(
    rb"\s*\Z|" + ABSL + rb"|XPK (?:Start|End): |[^\n]{0,40}\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d|maxview: |\S+\.cc:\d+\s*\Z"
)

type Text = mmap.mmap | bytes


def read_run_log(log: Path) -> RunReading:
    """Return the reading of a launched run's log.

    A log in no known format was removed or overwritten by the run itself. It is renamed, and a new log that states
    only this cause of death is written and read.
    """
    try:
        return scrape_run(log)
    except LogFormatError as error:
        rename_earlier_log(log)
        cause = CAUSE_LINE.format(type="UnreadableLog", message=f"the run itself removed or overwrote it: {error}")
        log.write_text(f"XPK Start: \n{cause}\n", encoding="utf-8")
        return scrape_run(log)


def build_record(
    plan: RunPlan, directory: RunDirectory, reading: RunReading, proofs: Sequence[CheckpointProof]
) -> RunRecord:
    """Return the record of a run. directory: the run's folder; reading: of its log; proofs: of its checkpoints."""
    keep_step_program(directory.path)
    program = directory.read_program() or {}
    # the commit that the trainer reported has priority over the planned one
    commit = program.get("trainer", {}).get("commit") or plan.commit or reading.commit
    lost = find_lost_lines(directory.log, reading.span)
    named = {"name": plan.run_name, "coverage": reading.coverage.model_copy(update={"lost": lost})}
    named["branch"] = plan.ref or reading.branch
    reading = with_place(reading.model_copy(update=named), directory.log)
    reading = with_cause(reading, directory.log, supervised=True)
    record = RunRecord(
        plan=plan,
        arm=plan.arm,
        label=trainer_class(plan.trainer).label_run(plan, commit),
        commit=commit,
        log=directory.log_address,
        reading=with_full_disk(reading, directory.path) if settings_model(plan.backend).shares_files else reading,
        proofs=tuple(sorted(proofs, key=lambda proof: (proof.step is None, proof.step))),
        metrics=read_run_metrics(plan, directory, reading),
        start=read_start(plan),
        crossing=directory.read_crossing(),
        program=program,
        # unknown for a run with several attempts, because their compiled programs are in one folder
        compiles=() if list_earlier_logs(directory.log) else read_compiles(directory.path),
    )
    return with_facts(record)


def adopt_run(record: RunRecord, plan: RunPlan) -> RunRecord:
    """Return the record of a finished run that a request reuses, with the names of this request.

    The run may have trained the same files under the name of another branch, or before they were committed.
    """
    before = record.plan
    if not plan.tree or before is None:
        return record
    names = ("ref", "version", "commit", "commits", "repository", "checkout", "argv", "start_folder")

    def rename(commit: str | None) -> str | None:
        return plan.commit if commit == before.commit else commit  # a run that reported another commit stays noticed

    trainer = record.program.get("trainer") or {}
    reported = {"trainer": trainer | {"commit": rename(trainer.get("commit"))}} if trainer else {}
    commit = rename(record.commit)
    changes = {
        "plan": before.model_copy(update={name: getattr(plan, name) for name in names}),
        "label": trainer_class(plan.trainer).label_run(plan, commit),
        "commit": commit,
        "reading": record.reading.model_copy(update={"branch": plan.ref, "commit": rename(record.reading.commit)}),
        "program": record.program | reported,
    }
    return record.model_copy(update=changes)


def find_lost_lines(log: Path, span: tuple[int, int]) -> tuple[str, ...]:
    """Return the launcher's notes about log lines that could not be read from the cluster: which period, and why."""
    with mapped(log, span) as (data, begin, end):
        found = LOST_PATTERN.finditer(data, begin, end)
        return tuple(text_of(match[0]).removeprefix("maxview: ") for match in found)


def with_place(reading: RunReading, log: Path) -> RunReading:
    """Return the reading with the cluster and nodes of its run, if the launcher noted them in the log.

    The places of a run that was restarted elsewhere are joined.
    """
    with mapped(log, reading.span) as (data, begin, end):
        places = dict.fromkeys(text_of(match[1]) for match in PLACE_PATTERN.finditer(data, begin, end))
    place = "; then ".join(places) or None
    return reading.model_copy(update={"environment": reading.environment.model_copy(update={"place": place})})


def with_cause(reading: RunReading, log: Path, *, supervised: bool) -> RunReading:
    """Return the reading of a failed run with a cause; other readings unchanged.

    The cause is the first of: the cluster's reason, the log's error, the program's refusal of its input, the exit code.

    supervised: maxview's supervisor ran the trainer and writes the exit code, so a missing exit code means that both
    were killed. In other logs a missing exit code means nothing, because most trainers print none.
    """
    if reading.exit_code == 0:
        return reading
    ended = find_platform_cause(log, reading.span)
    if ended is not None:  # the platform's reason outranks the trainer's error
        return reading.died_of(ended)
    if reading.error is not None:
        return reading
    code = reading.exit_code
    if code is None and not supervised:
        return reading
    # maxview's trainer and argparse exit with 2 if they refuse their input
    refused = code == REFUSED and reading.steps.is_empty()
    if refused and (refusal := find_refusal(log, reading.span)):
        return reading.died_of(refusal)
    kind, death, message = _EXITS.get(code) or (
        "ExitCode", "configuration" if refused else "other", f"ended with exit code {code} and no exception in its log"
    )  # fmt: skip
    place = find_end(log, reading.span)
    error = LogError(type=kind, message=message, line=place.line, offset=place.offset, kind=death)
    return reading.died_of(error)


@contextmanager
def mapped(log: Path, span: tuple[int, int]) -> Iterator[tuple[Text, int, int]]:
    """Yield (bytes, begin, end): the file mapped into memory, and the byte range of the run in the file."""
    with log.open("rb") as file, ExitStack() as stack:
        data: Text = b""
        with suppress(ValueError):  # an empty file cannot be mapped
            data = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        yield data, *(span if span[1] else (0, len(data)))


def source_at(data: Text, offset: int) -> Source:
    """Return the place of an offset in a log: the line number and the offset."""
    breaks = sum(data[begin : min(begin + CHUNK, offset)].count(b"\n") for begin in range(0, offset, CHUNK))
    return Source(line=breaks + 1, offset=offset)


def find_platform_cause(log: Path, span: tuple[int, int]) -> LogError | None:
    """Return the cluster's reason for ending a job, which the launcher writes at the log's end; or None."""
    with mapped(log, span) as (data, begin, end):
        found = [(one.start(), text_of(one[1]), text_of(one[2])) for one in CAUSE_PATTERN.finditer(data, begin, end)]
        if not found:
            return None
        offset, kind, message = found[-1]
        place = source_at(data, offset)
    known = (launcher_of(name).death_kinds.get(kind) for name in BACKENDS)
    death = next(filter(None, known), None) or classify(f"{kind}: {message}")
    return LogError(type=kind, message=message, line=place.line, offset=place.offset, kind=death)


def find_end(log: Path, span: tuple[int, int]) -> Source:
    """Return the place of a run's end in its log: the text `EXIT_CODE=`, else the last non-empty line."""
    with mapped(log, span) as (data, begin, end):
        offset = data.rfind(b"EXIT_CODE=", begin, end)
        if offset < 0:
            offset = next((start for start, line in lines_back(data, begin, end) if line.strip()), begin)
        return source_at(data, offset)


def find_refusal(log: Path, span: tuple[int, int]) -> LogError | None:
    """Return a program's refusal of its input: the last lines before `XPK End: `, at most MAX_LINES.

    The refusal begins after the last line that matches `_OTHERS`. None if there is no line after it.
    """
    with mapped(log, span) as (data, begin, end):
        end = max(data.rfind(b"XPK End: ", begin, end), begin) or end
        filled = dropwhile(lambda item: not item[1].strip(), lines_back(data, begin, end))
        last = list(islice(takewhile(lambda item: not _OTHERS.match(item[1]), filled), MAX_LINES))
        if not last:
            return None
        place = source_at(data, last[-1][0])
    message = "; ".join(text_of(line).strip() for _, line in reversed(last))
    return LogError(type="ConfigError", message=message, line=place.line, offset=place.offset, kind="configuration")


def lines_back(data: Text, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) from the last line to the first."""
    while end > begin:
        last = end - 1 if data[end - 1 : end] == b"\n" else end
        start = max(data.rfind(b"\n", begin, last) + 1, begin)
        yield start, data[start:last]
        end = start


def with_full_disk(reading: RunReading, folder: Path) -> RunReading:
    """Return the reading; if the run died of a full disk and its error has no path, the error names `folder`'s disk."""
    error = reading.error
    if error is None or error.kind != "disk_full" or "/" in error.message:
        return reading
    message = explain_full(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) or error.message
    why = f"line {error.line} says: {error.message}"
    return reading.died_of(error.model_copy(update={"message": message, "why": why}))


def read_run_metrics(plan: RunPlan, directory: RunDirectory, reading: RunReading) -> pl.DataFrame | None:
    """Return the metrics that the trainer wrote in full precision, as JSON lines or TensorBoard files; or None.

    TensorBoard files count only if they contain every step of the log: a killed trainer may not have flushed the last
    steps.
    """
    metrics = read_metrics(directory.path / plan.files.metrics)
    if metrics is not None:
        return metrics
    events = read_maxtext_events(directory.path / TENSORBOARD)
    if events is None or not set(reading.steps["step"]) <= set(events["step"]):
        return None
    return events


def read_metrics(path: Path) -> pl.DataFrame | None:
    """Return the trainer's JSON lines as a frame; None without a file or rows. A last line that a crash cut is dropped.

    Lines without a step are left out; values that are no numbers become null. MaxText's JSON lines are recognised by
    their content. Raises ValueError naming a line that is not a JSON object, or whose step is no whole number.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    if has_maxtext_keys(text):
        return read_maxtext_metrics(path)
    *lines, _torn = text.split("\n")  # text after the last line break is incomplete
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = {key: metric_from_json(value) for key, value in json.loads(line).items()}
            if "step" in row:
                rows.append(row | {"step": step_from_json(row["step"])})
        except (ValueError, RecursionError, AttributeError) as error:
            raise ValueError(f"{path}:{number}: not a JSON object with the number of a step: {line[:40]!r}") from error
    return pl.DataFrame(rows, infer_schema_length=None) if rows else None
