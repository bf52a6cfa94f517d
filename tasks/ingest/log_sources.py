"""Reads logs from files, folders, gs:// addresses or a stream into one `LogReading`; lists and copies gs:// logs."""

import os.path
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tasks.records.log_reading import LogReading
from tasks.scrape.read_log import scrape, scrape_chunks
from tasks.scrape.window import LogFormatError, read_file
from tasks.scrape.wrappings.unpack import GZIP, ZSTD
from tasks.store.atomic import StoreError

if TYPE_CHECKING:
    from tasks.store.gcs import GcsFiles

STREAM = "-"
PIECE = 1 << 20  # limit of bytes per read of a stream
REPORT_EVERY_S = 1.0  # least seconds between two reports of progress
TAIL = 64 << 10  # bytes at the end of a stream that are searched for the last complete line
SCHEME = "gs://"
HEAD = 4096  # number of first bytes of an object, which show whether it can be a log
AT_ONCE = 10  # number of objects whose first bytes are read at the same time

type Progress = Callable[[int, bytes], None]  # arguments: number of bytes so far, last complete line


def read_sources(
    names: Sequence[str], *, stream: BinaryIO | None = None, on_progress: Progress | None = None
) -> LogReading:
    """Read files, folders, gs:// addresses and `-` (the stream) into one reading with all their runs.

    Skips files in folders that are not logs. Raises LogFormatError with the problems of all sources.
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
    named = [run if taken.count(run.name) == 1 else run.replace(name=f"{run.name} ({source})") for source, run in runs]
    formats = dict.fromkeys(reading.format for _, reading in readings)
    return LogReading(format=", ".join(formats), runs=tuple(named))


def _read_source(name: str, stream: BinaryIO | None, on_progress: Progress | None) -> list[tuple[str, LogReading]]:
    if name == STREAM:
        if stream is None:
            raise LogFormatError("-: there is no standard input here; name a file")
        return [("standard input", scrape_stream(stream, on_progress=on_progress))]
    places = expand_place(name)
    if places == [name]:
        return [(name, _read_place(name))]
    readings = []
    for place in places:
        with suppress(LogFormatError):  # not a log
            readings.append((place, _read_place(place)))
    if not readings:
        raise LogFormatError(f"{name}: none of its {len(places)} files is a training log; name the log itself")
    return readings


def scrape_stream(stream: BinaryIO, *, on_progress: Progress | None = None) -> LogReading:
    """Read a stream until it ends or the user interrupts; the text before an interruption is read like a whole stream.

    Raises KeyboardInterrupt if there is no text before it. A temporary file stores the text, because a stream cannot be
    read twice. `on_progress` is called at most once a second.
    """
    read = getattr(stream, "read1", stream.read)  # returns available bytes without waiting for more
    tail, reported = b"", -REPORT_EVERY_S
    with tempfile.NamedTemporaryFile() as file:
        try:
            while piece := read(PIECE):
                file.write(piece)
                tail = (tail + piece)[-TAIL:]
                now = time.monotonic()
                if on_progress is not None and now - reported >= REPORT_EVERY_S:
                    on_progress(file.tell(), tail.rpartition(b"\n")[0].rpartition(b"\n")[2])
                    reported = now
        except KeyboardInterrupt:
            if not file.tell():
                raise
        file.flush()
        return scrape_chunks(partial(read_file, Path(file.name)), name="standard input")


def _read_place(place: str) -> LogReading:
    if not place.startswith(SCHEME):
        return scrape(Path(place))
    with local_copies([place]) as (path,):
        return scrape_chunks(partial(read_file, path), name=place)


def expand_place(name: str) -> list[str]:
    """Return the files in a folder, or `list_logs` of a gs:// address; for any other name, the name itself."""
    if name.startswith(SCHEME):
        return list_logs(name)
    if os.path.isdir(name):  # also False for an invalid path
        return [str(file) for file in sorted(Path(name).rglob("*")) if file.is_file()]
    return [name]


def list_logs(address: str) -> list[str]:
    """Return the address itself if it is an object; else the addresses of the objects below it that may be logs.

    A log is compressed, or text; text has no NUL bytes. Reads only the first bytes of each object. Raises
    LogFormatError.
    """
    folder, name = _split_address(address)
    with _as_log_format_errors(address):
        if name and _open_bucket(folder).stat(name) is not None:
            return [address]
        below = _open_bucket(folder + (f"/{name}" if name else ""))
        names = [entry.name for entry in below.entries() if entry.size and not entry.name.endswith("/")]
        if not names:
            raise LogFormatError(f"{address}: there is no object of this name and none below it; check the address")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            heads = list(pool.map(lambda one: below.head(one, HEAD), names))
    return [
        below.url(one)
        for one, head in zip(names, heads, strict=True)
        if head.startswith((GZIP, ZSTD)) or b"\0" not in head
    ]


@contextmanager
def local_copies(logs: Sequence[str]) -> Iterator[list[Path]]:
    """Yield local paths of logs. Copies objects in buckets; deletes the copies afterwards. Raises LogFormatError."""
    with tempfile.TemporaryDirectory(prefix="maxview-") as folder:
        yield [
            _copy_object(log, Path(folder, str(number))) if log.startswith(SCHEME) else Path(log)
            for number, log in enumerate(logs)
        ]


def _copy_object(address: str, folder: Path) -> Path:
    """Copy one object into a local folder; returns its path, which ends with the last two parts of the address."""
    place, name = _split_address(address)
    target = folder.joinpath(
        *(part for part in address.removeprefix(SCHEME).split("/")[-2:] if part not in ("", ".", ".."))
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with _as_log_format_errors(address), _open_bucket(place).open(name) as stream, target.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return target


def _split_address(address: str) -> tuple[str, str]:
    """Split an address into folder (or bucket) and name; the name is "" for a bucket or a trailing slash."""
    bucket, _, path = address.removeprefix(SCHEME).partition("/")
    folder, _, name = path.rpartition("/")
    return f"{SCHEME}{bucket}" + (f"/{folder}" if folder else ""), name


def _open_bucket(place: str) -> "GcsFiles":
    from tasks.store.gcs import GcsFiles  # takes a second to import; few readings need it

    return GcsFiles(place)


@contextmanager
def _as_log_format_errors(address: str) -> Iterator[None]:
    """Turn the bucket's errors in the block into LogFormatError."""
    try:
        yield
    except StoreError as error:
        raise LogFormatError(str(error)) from error
    except FileNotFoundError as error:
        raise LogFormatError(f"{address}: there is no such object; check the address") from error
