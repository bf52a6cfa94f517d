"""Reads a log file, a saved MaxView page or a Markdown guide into a `LogReading`; also copies and digests logs.

A `LogReading` contains a `RunReading`, the parsed data, of each run. A saved page contains the logs of two runs; an
export may contain several sources (pods), each with the logs of one or more runs.
"""

import hashlib
import re
import shlex
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tasks.records.log_reading import Coverage, LogReading, RunReading
from tasks.records.run_end import LogError
from tasks.scrape.dialects import DIALECTS, recognise
from tasks.scrape.dialects.dialect import LogDialect, Match
from tasks.scrape.table.step_table import StepTable, gaps_between
from tasks.scrape.window import Chunks, LogFormatError, Window, find_all, read_file, slices, text_of, windows
from tasks.scrape.wrappings import Unwrapped, unwrap
from tasks.scrape.wrappings.documents import find_document, is_guide, is_page, read_page, split_excerpts
from tasks.scrape.wrappings.exports import count_steps
from tasks.scrape.wrappings.unpack import GZIP, UTF16, ZSTD, head_of, unpack_archive

# Control characters or UTF-16: a file with these and zero bytes is binary. Zero bytes alone are holes, left by a crash
# or by truncating a log while it was written.
_BINARY = re.compile(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]|(?:[ -~]\0){8}")
# a zstd file without a checksum is refused if at least this share and this number of its step lines are damaged
RUINED, RUINED_FROM = 0.25, 8
UNREAD_SHOWN = 20  # limit of unread lines in a reading


def scrape(path: Path) -> LogReading:
    """Read a log (in constant memory), a saved MaxView page with logs, or a Markdown guide with excerpts of logs.

    Raises LogFormatError if the file cannot be read, is empty or binary, contains no training log, or is too
    damaged.
    """
    name = str(path)
    try:
        if path.is_dir():
            raise LogFormatError(f"{name}: is a folder; name the log file in it")
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe may block, reading a device may never end
            raise LogFormatError(
                f"{name}: is a pipe or a device, not a file; to read what comes through it, give - and redirect it: "
                f"maxview scrape - < {shlex.quote(name)}"
            )
        return scrape_chunks(partial(read_file, path), name=name)
    except OSError as error:
        reason = error.strerror or str(error)
        raise LogFormatError(f"{name}: cannot be read: {reason}; check the path and its permissions") from error


def scrape_run(path: Path) -> RunReading:
    """Read a file with the log of exactly one run. Raises LogFormatError for other files."""
    runs = scrape(path).runs
    if len(runs) != 1:
        raise LogFormatError(f"{path}: holds {len(runs)} runs; give a file with the log of one")
    return runs[0]


def scrape_text(data: bytes, *, name: str) -> LogReading:
    """Read the bytes of a log, page or guide. name: for messages and for the runs' names. Raises LogFormatError."""
    return scrape_chunks(partial(slices, data, 0, len(data)), name=name)


def scrape_chunks(raw: Chunks, *, name: str) -> LogReading:
    """Read a log of any size; each call of `raw` yields the log's chunks from the start. Raises LogFormatError."""
    _check_text(head_of(raw), name)
    labels, text = unpack_archive(raw, name)
    _check_text(head_of(text), name)
    document, page = find_document(text), None
    if document is not None and is_page(document):
        logs, case = read_page(document, name)
        page = {"case": case}
        runs = [
            _read_part(document, log.span, log.name, name).replace(branch=log.branch, commit=log.commit) for log in logs
        ]
    elif document is not None and is_guide(document):
        runs = [
            _read_part(text, (0, len(text)), Path(name).stem + (f" (excerpt {n})" if n > 1 else ""), name).replace(
                span=span
            )
            for n, (text, span) in enumerate(split_excerpts(document), 1)
        ]
    else:
        runs = _read_wrapped(raw, name)
        labels = ()
    if labels:
        runs = [_covered(run, unwrapped=labels) for run in runs]
    return LogReading(format=runs[0].format, runs=tuple(runs), page=page)


def copy_log(path: Path, target: Path, *, source: str | None = None) -> None:
    """Write a log without its wrappings; the line numbers and offsets of its reading refer to this text.

    `source`: the name of a pod; required if an export contains several. Raises LogFormatError for a
    missing or unknown name, and for a damaged file.
    """
    with unwrap(partial(read_file, path), str(path)) as unwrapped:
        if source is None and len(unwrapped.logs) == 1:
            source = next(iter(unwrapped.logs))
        if source not in unwrapped.logs:
            raise LogFormatError(f"{path}: holds the logs of {', '.join(unwrapped.logs)}; name one of them")
        with target.open("wb") as file:
            file.writelines(unwrapped.logs[source]())


def digest_text(path: Path, run: RunReading, *, source: str | None = None) -> str:
    """Return the SHA-256 of a run's text without wrappings, trailing blanks and empty lines: equal for copies of a log.

    `source`: the name of a pod; another name means the first one. Raises LogFormatError if the file is
    damaged.
    """
    raw = partial(read_file, path)
    digest, (begin, end) = hashlib.sha256(), run.span
    with ExitStack() as stack:
        _, text = unpack_archive(raw, str(path))
        if (document := find_document(text)) is None or not is_page(document):
            logs = stack.enter_context(unwrap(raw, str(path))).logs
            text = logs[source] if source in logs else next(iter(logs.values()))
        place, held = 0, b""
        for chunk in text():
            held += chunk[max(0, begin - place) : max(0, end - place)]
            place += len(chunk)
            *lines, held = held.split(b"\n")
            digest.update(b"".join(line.rstrip() + b"\n" for line in lines if line.strip()))
    digest.update(held.rstrip() + b"\n" if held.strip() else b"")
    return digest.hexdigest()


def _covered(run: RunReading, **update: object) -> RunReading:
    return run.replace(coverage=run.coverage.replace(**update))


def _read_wrapped(raw: Chunks, name: str) -> list[RunReading]:
    """Return the runs of a log with its wrappings removed; for an export, the runs of all sources that are logs."""
    runs: list[RunReading] = []
    refused: LogFormatError | None = None
    with unwrap(raw, name) as unwrapped:
        for source, text in unwrapped.logs.items():
            try:
                runs += _read_windows(windows(text()), _find_dialect(text(), name), source or Path(name).stem)
            except LogFormatError as error:  # e.g. the log of a sidecar container: skipped
                refused = refused or error
                if steps := sum(count_steps(text_of(chunk)) for chunk in text()):
                    unwrapped.lost.append(steps)
        runs = [_with_wrappings(run, unwrapped, name) for run in runs]
    if not runs:
        raise refused or LogFormatError(f"{name}: is an export without entries that hold text; export the logs again")
    return runs


def _with_wrappings(run: RunReading, unwrapped: Unwrapped, name: str) -> RunReading:
    """Return the run with the file's wrappings and damaged entries.

    Raises LogFormatError if a zstd file without a checksum has too much damage.
    """
    wrappings, seen = tuple(unwrapped.wrappings), run.coverage.step_lines_seen + sum(unwrapped.lost)
    update: dict[str, object] = {"unwrapped": wrappings}
    if count := len(unwrapped.lost):
        lost = f"{count} damaged {'entry' if count == 1 else 'entries'} left out"
        update = {"unwrapped": (*wrappings, lost), "step_lines_seen": seen, "complete": False}
    run = _covered(run, **update)
    missing = seen - run.coverage.step_lines_parsed
    if not unwrapped.checked and missing >= max(RUINED_FROM, RUINED * seen):
        raise LogFormatError(
            f"{name}: {missing} of its {seen} step lines are damaged, and the zstd file has no checksum, so other "
            "lines may be damaged too; copy it again, or if you trust it, unpack it (zstd -d) and give the text"
        )
    return run


class RunBuilder:
    """Builds the reading of one run from the windows of its log. live: `table.single` contains all rows of a window."""

    def __init__(self, dialect: LogDialect, *, live: bool = False) -> None:
        self.dialect, self.table, self.collector = dialect, StepTable(dialect, live=live), dialect.collector()

    def take(self, window: Window) -> Iterator[tuple[str, Match]]:
        """Read the next window; yields (name, match) of the dialect's patterns outside the rows (lines of steps)."""
        spans = self.table.add(window)
        if self.collector.death.ranks:  # an error with further rows after it did not end the run
            self.collector.death.forget(self.table.last_offset)
        for name, match in find_all(self.dialect.patterns, window, spans):
            self.collector.take(name, match, window, self.table)
            yield name, match
        self.collector.end_window(window, self.table)

    def cause(self, window: Window) -> LogError | None:
        """Return the cause of death that the log shows so far, or None. `window`: the last window taken."""
        self.collector.death.read_pending(window, last=True)
        return self.collector.cause(self.table, self.table.last_offset)

    def finish(self, name: str, span: tuple[int, int]) -> RunReading:
        """Return the reading of the run in the byte range `span` of its file."""
        table = self.table
        records = self.collector.reading_fields(table.frame(), table)
        ended, cut = records.pop("is_ended"), records.pop("is_cut")
        unread = sorted((*table.unread, *records.pop("unread")), key=lambda line: line.offset)
        glued: Any = table.glued if self.dialect.glued is None else {*table.glued, *records.pop("glued", ())}
        jumps = np.diff(records["steps"]["step"].to_numpy())
        gaps, interval = records.pop("gaps", None), records.pop("interval", None)
        if gaps is None:
            gaps = gaps_between(records["steps"]["step"].to_list(), interval) if (jumps != 1).any() else ()
        blocks = records.pop("blocks", 0)  # rows that the collector made of other lines
        # a log without a row shows nothing of the training, unless it shows why the run died before
        ended &= bool(records["steps"].height) or records["error"] is not None
        coverage = Coverage(
            step_lines_seen=table.seen + blocks, step_lines_parsed=table.parsed + blocks, gaps=gaps,
            rewinds=int(np.count_nonzero(jumps <= 0)), glued_lines=len(glued), truncated=cut,
            unknown_keys=table.forms.unknown, complete=ended and not unread and not cut,
            unread=tuple(unread[:UNREAD_SHOWN]),
        )  # fmt: skip
        return RunReading(name=name, format=self.dialect.name, span=span, coverage=coverage, **records)


def _read_part(data: bytes, span: tuple[int, int], run_name: str, name: str) -> RunReading:
    """Read one run from the byte range `span` of a document."""
    begin, end = span
    builder = RunBuilder(_find_dialect(slices(data, begin, end), name))
    for window in windows(slices(data, begin, end), base=begin, line=data.count(b"\n", 0, begin) + 1):
        deque(builder.take(window), maxlen=0)
    return builder.finish(run_name, span)


def _starts(window: Window, texts: tuple[bytes, ...]) -> list[int]:
    """Return the positions of `texts` in a window, ascending."""
    there = (text for text in texts if text in window.data)  # for speed: `in` is a hundred times faster than a pattern
    found = (match.start() for text in there for match in re.finditer(re.escape(text), window.data))
    return sorted(start for start in found if window.start <= start < window.limit)


def _read_windows(text: Iterator[Window], dialect: LogDialect, run_name: str) -> list[RunReading]:
    """Read the runs of a log: a line with one of `run_starts` begins a new run if the run before ended well."""
    builder, begin, end, runs = RunBuilder(dialect), 0, 0, list[RunReading]()
    for window in text:
        first, end = window.start, window.base + len(window.data)
        for start in _starts(window, dialect.run_starts):
            if (cut := window.data.rfind(b"\n", first, start) + 1) <= first:
                continue
            deque(builder.take(replace(window, start=first, limit=cut, data=window.data[:cut], last=False)), maxlen=0)
            first = cut
            if builder.collector.ended_well:
                runs.append(builder.finish(f"{run_name} (run {len(runs) + 1})", (begin, window.base + cut)))
                builder, begin = RunBuilder(dialect), window.base + cut
        deque(builder.take(replace(window, start=first) if first > window.start else window), maxlen=0)
    last = builder.finish(f"{run_name} (run {len(runs) + 1})" if runs else run_name, (begin, end))
    return [*runs, last]


def _find_dialect(chunks: Iterator[bytes], name: str) -> LogDialect:
    """Return the dialect of the first chunk with rows, else the first recognised one. Raises LogFormatError."""
    shown, lines = None, 1
    for chunk in chunks:
        dialect = recognise(chunk)
        if dialect is not None and dialect.row in chunk:
            return dialect
        shown, lines = shown or dialect, lines + chunk.count(b"\n")
    if shown is not None:
        return shown
    raise LogFormatError(
        f"{name}: contains no training log: none of its {lines} lines was printed by a known trainer "
        f"({'; '.join(f'{dialect.name}: {dialect.example}' for dialect in DIALECTS)}); give the file that holds the "
        "trainer's standard output and error"
    )


def _check_text(head: bytes, name: str) -> None:
    """Raise LogFormatError for a file that is empty, blank, HTML or binary, but not for archives or UTF-16.

    head: the first bytes of the file.
    """
    if not head.strip():
        what = "is empty" if not head else "holds nothing but white space"
        raise LogFormatError(f"{name}: {what}; check that the run started and that its output was saved")
    if head.startswith((GZIP, ZSTD, *UTF16)):
        return
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        raise LogFormatError(
            f"{name}: is HTML; open it in a browser, select all, and save the copied text, or give the logs themselves"
        )
    zero = head.find(b"\0")
    if zero >= 0 and _BINARY.search(head):
        line = head.count(b"\n", 0, zero) + 1
        raise LogFormatError(
            f"{name}:{line}: is not text (a zero byte at offset {zero}); give the trainer's output as a text file"
        )
