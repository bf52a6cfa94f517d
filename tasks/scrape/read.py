"""Turns a file, or the bytes of one, into a LogReading."""

import re
import shlex
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from tasks.records import LogReading, RunReading
from tasks.scrape.builder import RunBuilder
from tasks.scrape.dialects import DIALECTS, recognise
from tasks.scrape.dialects.dialect import Dialect
from tasks.scrape.errors import LogFormatError
from tasks.scrape.window import FileText, Window, slices, windows
from tasks.scrape.wrappings import Chunks, unpack, unwrap
from tasks.scrape.wrappings.clean import CleanText
from tasks.scrape.wrappings.entries import count_steps
from tasks.scrape.wrappings.guide import is_guide, split_excerpts
from tasks.scrape.wrappings.page import is_page, read_page
from tasks.scrape.wrappings.recode import UTF16
from tasks.scrape.wrappings.unpack import GZIP, ZSTD

HEAD = 1 << 20  # bytes in which a log must show what it is
# what no text holds, or two bytes for each letter: beside these, zero bytes are those of a binary file; alone they
# fill what a crash, or a log that was cut under its writer, left empty
_BINARY = re.compile(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]|(?:[ -~]\0){8}")
# of the step lines, and so many: where damage is in the archive, one byte of it is in every line that was like another
RUINED, RUINED_FROM = 0.25, 8
WHOLE_UP_TO = 64 << 20  # documents around logs are read whole; nobody saves a page larger than this


def scrape(path: Path) -> LogReading:
    """Read a log, a saved MaxView page with its logs, or a guide with excerpts, in constant memory for logs.

    Raises LogFormatError if the file cannot be read, is empty or binary, or holds no training log.
    """
    name = str(path)
    try:
        if path.is_dir():
            raise LogFormatError(f"{name}: is a folder; name the log file in it")
        if not stat.S_ISREG(path.stat().st_mode):  # opening one waits for a writer, reading one may never end
            raise LogFormatError(
                f"{name}: is a pipe or a device, not a file; to read what comes through it, give - and redirect it: "
                f"maxview scrape - < {shlex.quote(name)}"
            )
        with path.open("rb") as file:
            head = file.read(HEAD)
            _check_text(head, name)
            if path.stat().st_size <= WHOLE_UP_TO and _is_document(head):
                return scrape_text(head + file.read(), name=name)
            if document := _archived_document(FileText(path), head, name):
                return document
        runs = _read_wrapped(FileText(path), path.stem, name)
    except OSError as error:
        reason = error.strerror or str(error)
        raise LogFormatError(f"{name}: cannot be read: {reason}; check the path and its permissions") from error
    return LogReading(format=runs[0].format, runs=runs)


def scrape_run(path: Path) -> RunReading:
    """Read a file that holds the log of one run. Raises LogFormatError as `scrape` does."""
    runs = scrape(path).runs
    if len(runs) != 1:
        raise LogFormatError(f"{path}: holds {len(runs)} runs; give a file with the log of one")
    return runs[0]


def scrape_text(data: bytes, *, name: str) -> LogReading:
    """Read the bytes of a log, page or guide; `name` is how messages call it. Raises LogFormatError."""
    _check_text(data[:HEAD], name)
    if document := _archived_document(partial(slices, data, 0, len(data)), data[:HEAD], name):
        return document
    if is_page(data):
        page = read_page(data, name)
        runs = tuple(
            _read_span(data, log.span, log.name, name).model_copy(update={"branch": log.branch, "commit": log.commit})
            for log in page.logs
        )
        return LogReading(format=runs[0].format, runs=runs, page=page.facts)
    stem = Path(name).stem
    if is_guide(data):
        excerpts = split_excerpts(data)
        runs = tuple(
            _read_span(text, (0, len(text)), stem if not n else f"{stem} (excerpt {n + 1})", name).model_copy(
                update={"span": span}
            )
            for n, (text, span) in enumerate(excerpts)
        )
    else:
        runs = _read_wrapped(partial(slices, data, 0, len(data)), stem, name)
    return LogReading(format=runs[0].format, runs=runs)


def scrape_chunks(raw: Chunks, *, name: str) -> LogReading:
    """Read a log of any size that `raw` gives from its start as often as called. Raises LogFormatError."""
    runs = _read_wrapped(raw, Path(name).stem, name)
    return LogReading(format=runs[0].format, runs=runs)


def _archived_document(raw: Chunks, head: bytes, name: str) -> LogReading | None:
    """The reading of a page or guide inside an archive; None for anything else. Offsets are those inside."""
    labels, chunks = unpack(raw, head, name)
    if not labels:
        return None
    data = b""
    for chunk in chunks():
        data += chunk
        if len(data) >= HEAD and (len(data) > WHOLE_UP_TO or not _is_document(data[:HEAD])):
            return None
    if not is_page(data) and not is_guide(data):
        return None
    reading = scrape_text(data, name=name)
    runs = [run.model_copy(update={"coverage": run.coverage.model_copy(update={"unwrapped": labels})})
            for run in reading.runs]  # fmt: skip
    return reading.model_copy(update={"runs": tuple(runs)})


def _read_wrapped(raw: Chunks, stem: str, name: str) -> tuple[RunReading, ...]:
    """The runs of a log and of whatever is around it: one, or one per source where an export names several."""
    runs: list[RunReading] = []
    refused: LogFormatError | None = None
    with unwrap(raw, name) as found:
        for source, text in found.logs.items():
            try:
                runs += _read_chunks(text, source or stem, name, is_export=len(found.logs) > 1)
            except LogFormatError as error:  # a container beside the trainer's
                refused = refused or error
                if steps := sum(count_steps(chunk.decode("utf-8", "replace")) for chunk in text()):
                    found.lost.append(steps)
        for index, run in enumerate(runs):
            coverage = run.coverage.model_copy(update={"unwrapped": tuple(found.wrappings)})
            if found.lost:  # which run they are of, nobody knows
                count = len(found.lost)
                lost = f"{count} damaged {'entry' if count == 1 else 'entries'} left out"
                seen = coverage.step_lines_seen + sum(found.lost)
                told = {"unwrapped": (*coverage.unwrapped, lost), "step_lines_seen": seen, "complete": False}
                coverage = coverage.model_copy(update=told)
            runs[index] = run.model_copy(update={"coverage": coverage})
            missing = coverage.step_lines_seen - coverage.step_lines_parsed
            if not found.checked and missing >= max(RUINED_FROM, RUINED * coverage.step_lines_seen):
                raise LogFormatError(
                    f"{name}: {missing} of its {coverage.step_lines_seen} step lines are damaged, and zstd was not "
                    "told to add a checksum, without which nobody knows whether the others are; copy it again, or "
                    "unpack it (zstd -d) and give the text, if you trust it"
                )
    if not runs:
        raise refused or LogFormatError(f"{name}: is an export without entries that hold text; export the logs again")
    return tuple(runs)


def _read_chunks(text: CleanText, run_name: str, name: str, *, is_export: bool) -> list[RunReading]:
    if not is_export:  # in which damage may have put anything, but no binary file
        _check_text(next(text.text(), b"")[:HEAD], name)
    return _read_windows(text.windows(), _find_dialect(text(), name), run_name)


def _read_span(data: bytes, span: tuple[int, int], run_name: str, name: str) -> RunReading:
    begin, end = span
    builder = RunBuilder(_find_dialect(slices(data, begin, end), name))
    for window in windows(slices(data, begin, end), base=begin, line=data.count(b"\n", 0, begin) + 1):
        deque(builder.take(window), maxlen=0)
    return builder.finish(run_name, span)


def _starts(window: Window, marks: tuple[bytes, ...]) -> list[int]:
    """Where one of these texts stands in a window, ascending."""
    found = []
    for mark in marks:
        position = window.start - 1
        while (position := window.data.find(mark, position + 1, window.limit)) >= 0:
            found.append(position)
    return sorted(found)


def _read_windows(text: Iterator[Window], dialect: Dialect, run_name: str) -> list[RunReading]:
    """The runs of a log: a new one begins where its trainer starts again after the one before ended well."""
    builder, begin, end, runs = RunBuilder(dialect), 0, 0, list[RunReading]()
    for window in text:
        first, end = window.start, window.base + len(window.data)
        for start in _starts(window, dialect.afresh):
            if (cut := window.data.rfind(b"\n", first, start) + 1) <= first:
                continue
            deque(builder.take(replace(window, start=first, limit=cut, data=window.data[:cut], last=False)), maxlen=0)
            first = cut
            if builder.told.ended_well:
                runs.append(builder.finish(f"{run_name} (run {len(runs) + 1})", (begin, window.base + cut)))
                builder, begin = RunBuilder(dialect), window.base + cut
        deque(builder.take(replace(window, start=first)), maxlen=0)
    last = builder.finish(f"{run_name} (run {len(runs) + 1})" if runs else run_name, (begin, end))
    return [*runs, last]


def _find_dialect(chunks: Iterator[bytes], name: str) -> Dialect:
    """The dialect of a log, from the first chunk that shows one."""
    first, lines = next(chunks, b""), 0
    dialect = recognise(first[:HEAD])
    if dialect is not None and dialect.row in first[:HEAD]:
        return dialect
    for chunk in chain([first + next(chunks, b"")], chunks):
        head = chunk[:HEAD]
        dialect = recognise(head)
        if dialect is None or dialect.row not in head:  # what stands before the rows may be another's
            dialect = recognise(chunk)
        if dialect is not None:
            return dialect
        lines += chunk.count(b"\n")
    raise LogFormatError(
        f"{name}: there is no training log in it: none of its {lines + 1} lines is one that a known trainer prints "
        f"({'; '.join(f'{dialect.name}: {dialect.example}' for dialect in DIALECTS)}); give the file that holds the "
        "trainer's standard output and error"
    )


def _is_document(head: bytes) -> bool:
    return is_page(head) or b"```" in head or b"~~~" in head


def _check_text(head: bytes, name: str) -> None:
    """Raise LogFormatError for what is no text at all."""
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
