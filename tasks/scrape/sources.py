"""Reads logs from wherever they are: files, folders, gs:// addresses, a stream that goes on; several as one reading."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tasks.records import LogReading
from tasks.scrape.buckets import SCHEME, list_logs, open_log
from tasks.scrape.errors import LogFormatError
from tasks.scrape.read import WHOLE_UP_TO, scrape, scrape_chunks, scrape_text
from tasks.scrape.window import FileText
from tasks.scrape.wrappings import unwrap

STREAM = "-"
PIECE = 1 << 20
TOLD_EVERY_S = 1.0
TAIL = 64 << 10  # bytes of a stream in which its last line is looked for

type Progress = Callable[[int, bytes], None]  # bytes so far, the last whole line


def read_sources(
    names: Sequence[str], *, stream: BinaryIO | None = None, on_progress: Progress | None = None
) -> LogReading:
    """Read files, folders, gs:// addresses and `-` (the stream) into one reading with all their runs.

    Raises LogFormatError that tells everything that is wrong with any of them.
    """
    readings: list[tuple[str, LogReading]] = []
    problems: list[str] = []
    for name in dict.fromkeys(names):
        try:
            readings += _read_source(name, stream, on_progress)
        except LogFormatError as error:
            problems.append(str(error))
    if problems:
        raise LogFormatError("\n".join(problems))
    if len(readings) == 1:
        return readings[0][1]
    runs = [(source, run) for source, reading in readings for run in reading.runs]
    taken = [run.name for _, run in runs]
    named = [
        run if taken.count(run.name) == 1 else run.model_copy(update={"name": f"{run.name} ({source})"})
        for source, run in runs
    ]
    formats = dict.fromkeys(reading.format for _, reading in readings)
    return LogReading(format=", ".join(formats), runs=tuple(named))


def _read_source(name: str, stream: BinaryIO | None, on_progress: Progress | None) -> list[tuple[str, LogReading]]:
    if name == STREAM:
        if stream is None:
            raise LogFormatError("-: there is no standard input here; name a file")
        return [("standard input", scrape_stream(stream, on_progress=on_progress))]
    if name.startswith(SCHEME):
        return _read_bucket(name)
    path = Path(name)
    if path.is_dir():
        return [(str(file), reading) for file, reading in scrape_folder(path).items()]
    return [(name, scrape(path))]


def scrape_stream(stream: BinaryIO, *, name: str = "standard input", on_progress: Progress | None = None) -> LogReading:
    """Read what a stream holds until it ends or the user interrupts: then what came so far is the log.

    A stream cannot be read twice, so a temporary file keeps it. `on_progress` is told every second what came.
    """
    with tempfile.NamedTemporaryFile() as file:
        try:
            _keep(stream, file, on_progress)
        except KeyboardInterrupt:
            if not file.tell():
                raise
        file.flush()
        if file.tell() <= WHOLE_UP_TO:
            file.seek(0)
            return scrape_text(file.read(), name=name)
        return scrape_chunks(FileText(Path(file.name)), name=name)


def _keep(stream: BinaryIO, file: Any, on_progress: Progress | None) -> None:
    read = getattr(stream, "read1", stream.read)  # what there is, instead of waiting for more
    tail, told = b"", time.monotonic()
    while piece := read(PIECE):
        file.write(piece)
        tail = (tail + piece)[-TAIL:]
        now = time.monotonic()
        if on_progress is not None and now - told >= TOLD_EVERY_S:
            on_progress(file.tell(), tail.rpartition(b"\n")[0].rpartition(b"\n")[2])
            told = now


def scrape_folder(folder: Path) -> dict[Path, LogReading]:
    """The reading of every log in a folder and those below it, by path; files that are no logs are passed over.

    Raises LogFormatError if there is no log among them.
    """
    if not folder.is_dir():
        raise LogFormatError(f"{folder}: is no folder; check the path")
    readings: dict[Path, LogReading] = {}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        try:
            readings[path] = scrape(path)
        except LogFormatError:  # checkpoints, records, configs
            continue
    if not readings:
        raise LogFormatError(f"{folder}: none of its {len(files)} files is a training log; name the log itself")
    return readings


def _read_bucket(address: str) -> list[tuple[str, LogReading]]:
    addresses = list_logs(address)
    if addresses == [address]:
        return [(address, _read_object(address))]
    readings: list[tuple[str, LogReading]] = []
    for one in addresses:
        try:
            readings.append((one, _read_object(one)))
        except LogFormatError:  # records, configs
            continue
    if not readings:
        raise LogFormatError(f"{address}: nothing below it is a training log; name the log itself")
    return readings


def _read_object(address: str) -> LogReading:
    with open_log(address) as stream:
        return scrape_stream(stream, name=address)


def copy_log(path: Path, target: Path, *, source: str | None = None) -> None:
    """Write the text of a log without its wrappings, to which the lines and offsets of its reading refer.

    `source`: the name of the run, where an export holds several. Raises LogFormatError if it must be named.
    """
    with unwrap(FileText(path), str(path)) as found:
        if source is None and len(found.logs) == 1:
            source = next(iter(found.logs))
        if source not in found.logs:
            raise LogFormatError(f"{path}: holds the logs of {', '.join(found.logs)}; name one of them")
        with target.open("wb") as file:
            file.writelines(found.logs[source]())
