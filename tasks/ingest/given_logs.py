"""Reads given logs, or a saved MaxView page with two logs, as the runs of two arms (the compared versions).

Rejects logs that cannot be compared.
"""

import glob
import hashlib
import itertools
import os.path
import re
import tempfile
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from configs.frozen import Frozen
from tasks.ingest.log_sources import SCHEME, expand_place, list_logs, local_copies
from tasks.ingest.trackers.find_tracked import describe, find_tracked, is_tracker, split_place
from tasks.metrics.merged_steps import have_equal_times
from tasks.records.log_reading import LogReading, RunReading
from tasks.scrape.dialects.json_lines import DIALECT
from tasks.scrape.read_log import digest_text, scrape
from tasks.scrape.window import LogFormatError
from tasks.store.names import safe_name

SIDES = ("baseline", "candidate")
HOW = "maxview ingest --baseline LOG… --candidate LOG…"  # command for several logs of each side
JSON_LINES = DIALECT.name
WILD = re.compile(r"[*?\[]")  # a character that makes an argument a pattern
# end of the XPK pod name of process 0: slice 0, worker 0, and five letters or digits
FIRST_POD = re.compile(r"-0-0-[a-z0-9]{5}(?:/|$)")
_NUMBER_AT_END = re.compile(r"[\W_]*(?:(?<![a-z])(?:r|run|rep|repeat|log))?[\W_]*\d*\Z", re.IGNORECASE)


class LoggedRun(Frozen):
    """One run from a given file."""

    file: Path
    digest: str  # first 10 hexadecimal digits of the file's SHA-256
    reading: RunReading
    pod: str | None = None  # the run's name if the file contains several runs (pods, …) and is no page; else None
    case: str | None = None  # the case (model and settings) that a page names; None without a page


class LoggedArms(Frozen):
    """The runs of two arms. An arm's runs are in order of their start if all its logs show the start."""

    names: tuple[str, str]
    baseline: tuple[LoggedRun, ...]
    candidate: tuple[LoggedRun, ...]
    notes: tuple[str, ...] = ()  # what was read of trackers, a sentence for each argument

    @property
    def case(self) -> str | None:
        """The case, if a page names it."""
        return next((run.case for run in (*self.baseline, *self.candidate) if run.case), None)


def assign_sides(
    logs: Sequence[str], baseline: Sequence[str], candidate: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the arguments of the baseline and those of the candidate; a single argument, a page, is on both sides.

    Raises LogFormatError with the command to type.
    """
    if logs and (baseline or candidate):
        raise LogFormatError(f"{logs[0]}: name the side of every log: {HOW}")
    if len(logs) == 1:
        return logs, logs
    if len(logs) == 2:
        return logs[:1], logs[1:]
    if logs or not (baseline or candidate):
        raise LogFormatError(f"expected one page or two logs, got {len(logs)} files; several runs of each: {HOW}")
    for side, given in zip(SIDES, (baseline, candidate), strict=True):
        if not given:
            raise LogFormatError(f"there is no log of the {side}: {HOW}")
    return baseline, candidate


@contextmanager
def open_arms(sides: tuple[Sequence[str], Sequence[str]], *, aa: bool = False) -> Iterator[LoggedArms]:
    """Yield the runs of both sides. sides: files, folders, patterns and gs:// addresses of each side.

    aa: the sides may have logs of the same run. Local copies of gs:// logs are removed after the block. Raises
    LogFormatError.
    """
    with tempfile.TemporaryDirectory(prefix="maxview-") as folder, ExitStack() as stack:
        copies, notes = Path(folder), list[str]()
        found = [[item for word in words for item in _list_logs(word, copies, notes)] for words in sides]
        places = list(dict.fromkeys(place for side in found for place, _ in side))
        here = dict(zip(places, stack.enter_context(local_copies(places)), strict=True))
        arms = read_arms(*([(here[place], named) for place, named in side] for side in found))
        if not aa:
            check_apart(arms)
        yield arms.replace(notes=tuple(dict.fromkeys(notes)))


def read_pair(logs: Sequence[Path]) -> LoggedArms:
    """Read two logs, baseline first, or one page with both logs. Raises LogFormatError with the command to type."""
    left, right = assign_sides([str(log) for log in logs], (), ())
    arms = read_arms([(Path(log), True) for log in left], [(Path(log), True) for log in right])
    if len(logs) == 1:
        check_apart(arms)
    return arms


def read_arms(baseline: Sequence[tuple[Path, bool]], candidate: Sequence[tuple[Path, bool]]) -> LoggedArms:
    """Read the runs of each side from pairs (path, whether the user named this file).

    Files that the user did not name are skipped if they are not logs. Raises LogFormatError.
    """
    shared = dict(baseline).keys() & dict(candidate).keys()
    sides = [_read_side(files, number, shared) for number, files in enumerate((baseline, candidate))]
    for side in sides:
        _check_alike(side)
    names = name_arms(sides)
    left, right = (_name_runs(_sort_by_start(side), name) for side, name in zip(sides, names, strict=True))
    return LoggedArms(names=names, baseline=tuple(left), candidate=tuple(right))


def _list_logs(word: str, copies: Path, notes: list[str]) -> list[tuple[str, bool]]:
    """Return `_find_files`, or the copies of a tracker's runs, if the argument denotes such runs and no log.

    copies: the folder for these copies; a sentence about them is added to `notes`. Raises LogFormatError.
    """
    is_log = word.startswith(SCHEME) or (_holds_log(word) if os.path.isdir(word) else not is_tracker(word))
    if is_log and split_place(word)[1] is None:
        return _find_files(word)
    runs = find_tracked(word)
    if not runs:
        return _find_files(word)
    notes.append(f"{word}: {describe(runs)}")
    paths = [copies / f"{len(notes)}-{number}" / f"{safe_name(run.name)}.jsonl" for number, run in enumerate(runs, 1)]
    for run, path in zip(runs, paths, strict=True):
        run.write(path)
    return [(str(path), True) for path in paths]


def _holds_log(folder: str) -> bool:
    """Whether a file in a folder is a trainer's log; W&B keeps copies of the output in folders of its own."""
    for place in expand_place(folder):
        with suppress(LogFormatError):
            if "wandb" not in Path(place).parts and _scrape_once(Path(place)).format != JSON_LINES:
                return True
    return False


def _find_files(word: str) -> list[tuple[str, bool]]:
    """Return (path or address, whether it equals `word`) of each file that the argument `word` denotes."""
    wild = WILD.search(word)
    if word.startswith(SCHEME):
        found = list_logs(word[: word.rindex("/", 0, wild.start()) + 1] if wild else word)
        found = [place for place in found if not wild or fnmatchcase(place, word)]
    elif wild and not os.path.exists(word):
        found = [name for name in sorted(glob.glob(word, recursive=True)) if Path(name).is_file()]
    else:
        found = expand_place(word)
    if not found:
        raise LogFormatError(f"{word}: contains no file; check the path")
    return [(place, found == [word]) for place in found]


def _read_side(files: Sequence[tuple[Path, bool]], side: int, shared: Set[Path]) -> list[LoggedRun]:
    runs, refused = [], None
    for path, named in dict(files).items():
        try:
            runs.append(_run_of(_scrape_once(path), path, side, holds_both=path in shared))
        except LogFormatError as error:
            if named:
                raise
            refused = error  # a folder may also contain checkpoints, records, configs
    if any(run.reading.format != JSON_LINES for run in runs):  # in a run's folder, they are the same run's metrics
        runs = [run for run in runs if run.reading.format != JSON_LINES or dict(files)[run.file]]
    if not runs:
        folder = os.path.commonpath([path.parent for path, _ in files])
        raise LogFormatError(
            f"{folder}: none of {len(files)} files is a training log of the {SIDES[side]}, and none is of TensorBoard, "
            f"W&B, MLflow, Trackio, or a table with a column step; {refused}"
        )
    return runs


def _scrape_once(path: Path) -> LogReading:
    """Return `scrape(path)`. A process reads a file once: a page for both sides, a log for its check and the flow."""
    try:
        found = path.stat()
    except OSError:
        return scrape(path)  # raises LogFormatError
    return _scrape_version(path.absolute(), (found.st_ino, found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=32)
def _scrape_version(path: Path, _: tuple[int, int, int]) -> LogReading:
    return scrape(path)


def _run_of(reading: LogReading, path: Path, side: int, *, holds_both: bool) -> LoggedRun:
    if len(reading.runs) == 1:
        run = reading.runs[0]
    elif len(reading.runs) == 2 and (holds_both or reading.page is not None):
        run = reading.runs[side]
    else:
        run = choose_process(reading, path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:10]
    pod = run.name if len(reading.runs) > 1 and reading.page is None else None
    return LoggedRun(file=path, digest=digest, reading=run, pod=pod, case=(reading.page or {}).get("case"))


def choose_process(reading: LogReading, path: Path) -> RunReading:
    """Return the run of process 0 from a file with the logs of a job's pods.

    Only process 0 prints the commits of saves. Raises LogFormatError unless exactly one run is of process 0.
    """
    runs = reading.runs
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


def check_apart(arms: LoggedArms) -> None:
    """Raise LogFormatError if a run is on both sides: the same file, or a compressed, cut or edited copy."""
    for other, run in itertools.product(arms.baseline, arms.candidate):
        if not _is_same_run(other, run):
            continue
        same = "holds 1 run" if run.file == other.file else f"is of the same run as {other.file}, by its step times"
        if run.file != other.file and _has_same_text(other, run):
            same = f"is the same log as {other.file}"
        raise LogFormatError(
            f"{run.file}: {same}, a comparison needs two: give a second log (maxview ingest {run.file} OTHER), or a "
            "saved MaxView page with both; --aa compares one commit with itself, best in two runs"
        )


def _is_same_run(one: LoggedRun, other: LoggedRun) -> bool:
    """Whether two logs are of the same run: copies, or logs with equal step times."""
    return _has_same_text(one, other) or have_equal_times(one.reading.steps, other.reading.steps)


def _has_same_text(one: LoggedRun, other: LoggedRun) -> bool:
    """Whether two runs have the same unwrapped text. Texts are read again only if all steps are equal."""
    if one.digest == other.digest:
        return (one.reading.span, one.pod) == (other.reading.span, other.pod)
    mine, others = one.reading.steps, other.reading.steps
    columns, other_columns = (set(table.columns) - {"line", "offset"} for table in (mine, others))
    if columns != other_columns or not all(mine[name].equals(others[name]) for name in columns):
        return False
    texts = [digest_text(run.file, run.reading, source=run.pod) for run in (one, other)]
    return texts[0] == texts[1]


def _check_alike(side: Sequence[LoggedRun]) -> None:
    """Raise LogFormatError if two logs of an arm are of one run, or differ in trainer, case, model size or work."""
    for one, run in itertools.combinations(side, 2):
        if _is_same_run(one, run):
            raise LogFormatError(f"{one.file} and {run.file}: are the same log, and count as one run; give one")
    for what, read in (
        ("trainers", lambda run: run.reading.format),
        ("cases", lambda run: run.case),
        ("numbers of parameters", lambda run: run.reading.parameters.printed),
        ("work per step (TFLOPs)", lambda run: run.reading.flops.total_tflops),
        ("tokens per step", lambda run: _first_tokens(run.reading)),
    ):
        known = [(run.file, value) for run in side if (value := read(run)) is not None]
        other = next((pair for pair in known if pair[1] != known[0][1]), None)
        if other is not None:
            raise LogFormatError(
                f"{known[0][0]} and {other[0]}: cannot be runs of one arm, they have different {what} ({known[0][1]} "
                f"and {other[1]}); give the logs of one case on each side"
            )


def _first_tokens(reading: RunReading) -> int | None:
    return None if reading.steps.is_empty() else reading.steps["total_weights"][0]


def _sort_by_start(side: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Return the runs in order of their start if every log shows its start, else unchanged.

    The n-th runs of both arms are a pair.
    """
    starts = [run.reading.started for run in side]
    return list(side) if None in starts else sorted(side, key=lambda run: str(run.reading.started))


def name_arms(sides: Sequence[Sequence[LoggedRun]]) -> tuple[str, str]:
    """Return distinct names for the arms: the prefix that an arm's runs, files or folders share, or SIDES."""
    for names in (
        [[run.reading.name for run in side] for side in sides],
        [[run.file.stem for run in side] for side in sides],
        [[run.file.absolute().parent.name for run in side] for side in sides],
    ):
        left, right = (_common(side) for side in names)
        if left and right and left != right:
            return left, right
    return SIDES


def _common(names: Sequence[str]) -> str:
    return names[0] if len(set(names)) == 1 else _NUMBER_AT_END.sub("", os.path.commonprefix(names))  # noqa: RUF071 - compares letters, not path components


def _name_runs(side: Sequence[LoggedRun], arm: str) -> list[LoggedRun]:
    """Return the runs with names: a single run gets its arm's name; if two names are equal, all runs are numbered."""
    names = [run.reading.name for run in side]
    if len(side) == 1 or len(set(names)) < len(side):
        names = [arm] if len(side) == 1 else [f"{arm}-{number + 1}" for number in range(len(side))]
    return [run.replace(reading=run.reading.replace(name=name)) for run, name in zip(side, names, strict=True)]
