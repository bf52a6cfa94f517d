"""Reads logs from where they come: a stream, a folder; and copies the text that a reading's offsets refer to."""

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tasks.records import LogReading
from tasks.scrape.errors import LogFormatError
from tasks.scrape.read import WHOLE_UP_TO, file_chunks, scrape, scrape_chunks, scrape_text
from tasks.scrape.unwrap import unwrap


def scrape_stream(stream: BinaryIO, *, name: str = "standard input") -> LogReading:
    """Read what a stream holds until it ends. A stream cannot be read twice, so a temporary file keeps it."""
    with tempfile.NamedTemporaryFile() as file:
        shutil.copyfileobj(stream, file)
        file.flush()
        if file.tell() <= WHOLE_UP_TO:
            file.seek(0)
            return scrape_text(file.read(), name=name)
        return scrape_chunks(partial(file_chunks, Path(file.name)), name=name)


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


def copy_log(path: Path, target: Path, *, source: str | None = None) -> None:
    """Write the text of a log without its wrappings, to which the lines and offsets of its reading refer.

    `source`: the name of the run, where an export holds several. Raises LogFormatError if it must be named.
    """
    with unwrap(partial(file_chunks, path), str(path)) as found:
        if source is None and len(found.logs) == 1:
            source = next(iter(found.logs))
        if source not in found.logs:
            raise LogFormatError(f"{path}: holds the logs of {', '.join(found.logs)}; name one of them")
        with target.open("wb") as file:
            file.writelines(found.logs[source]())
