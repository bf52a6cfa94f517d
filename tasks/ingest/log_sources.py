"""Reads logs from files, folders, gs:// addresses or a stream into one `LogReading`."""

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from tasks.ingest.buckets import SCHEME, list_logs, on_this_machine
from tasks.records import LogReading
from tasks.scrape import LogFormatError, scrape, scrape_chunks
from tasks.scrape.window import read_file

STREAM = "-"
PIECE = 1 << 20
REPORT_EVERY_S = 1.0
TAIL = 64 << 10  # last bytes of a stream that are searched for its last line

type Progress = Callable[[int, bytes], None]  # arguments: number of bytes so far, last complete line


def read_sources(
    names: Sequence[str], *, stream: BinaryIO | None = None, on_progress: Progress | None = None
) -> LogReading:
    """Read files, folders, gs:// addresses and `-` (the stream) into one reading with all their runs.

    Raises LogFormatError with the problems of all sources.
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
        logs = list_logs(name)
        return [(name, _read_object(name))] if logs == [name] else _read_all(name, logs, _read_object)
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return [(str(file), reading) for file, reading in _read_all(name, files, scrape)]
    return [(name, scrape(path))]


def scrape_stream(stream: BinaryIO, *, on_progress: Progress | None = None) -> LogReading:
    """Read a stream until it ends or the user interrupts; an interrupted stream is read as far as it came.

    A temporary file stores the text, because a stream cannot be read twice. `on_progress` is called every second.
    """
    with tempfile.NamedTemporaryFile() as file:
        try:
            _keep(stream, file, on_progress)
        except KeyboardInterrupt:
            if not file.tell():
                raise
        file.flush()
        return scrape_chunks(partial(read_file, Path(file.name)), name="standard input")


def _keep(stream: BinaryIO, file: Any, on_progress: Progress | None) -> None:
    read = getattr(stream, "read1", stream.read)  # returns available bytes without waiting for more
    tail, reported = b"", -REPORT_EVERY_S
    while piece := read(PIECE):
        file.write(piece)
        tail = (tail + piece)[-TAIL:]
        now = time.monotonic()
        if on_progress is not None and now - reported >= REPORT_EVERY_S:
            on_progress(file.tell(), tail.rpartition(b"\n")[0].rpartition(b"\n")[2])
            reported = now


def _read_all[Place](
    whole: str, places: Sequence[Place], read: Callable[[Place], LogReading]
) -> list[tuple[Place, LogReading]]:
    """Return (path or address, reading) of the files that are logs. Raises LogFormatError if none of `whole` is."""
    readings = []
    for place in places:
        try:
            readings.append((place, read(place)))
        except LogFormatError:
            continue
    if not readings:
        raise LogFormatError(f"{whole}: none of its {len(places)} files is a training log; name the log itself")
    return readings


def _read_object(address: str) -> LogReading:
    with on_this_machine([address]) as (path,):
        return scrape_chunks(partial(read_file, path), name=address)
