"""Finds the stored log that a run replays, and reads its span, exit code and checkpoints."""

import hashlib
import json
import sys
from functools import lru_cache
from glob import glob
from pathlib import Path

from configs.backends import LogSettings
from configs.errors import ConfigError
from configs.schema import Frozen
from tasks.records import CheckpointCommitted, CheckpointStarted, Invocation, RunFiles
from tasks.resolve import play_log
from tasks.scrape import LogFollower, LogFormatError, scrape

CHUNK = 1 << 22


class StoredLog(Frozen):
    """A log to be replayed: the bytes [begin, end) of a file."""

    path: str
    begin: int
    end: int
    exit_code: int  # printed in the log; if none is, 1 if the log shows a cause of death, else 0
    checkpoints: tuple[tuple[int, int | None, int | None], ...]  # step, file offsets of the save's start and its commit
    source: str | None  # the stored run's folder; None if it has no folder `checkpoints`
    home: str | None  # the stored run's folder as printed in the log; None if the log prints no checkpoint path
    digest: str  # hash of the bytes

    def play(self, directory: Path, *, speed: float) -> Invocation:
        """Return the command that replays the log in `directory`, with its checkpoints if `source` is not None."""
        job = self.model_dump(include={"begin", "end", "exit_code", "checkpoints", "source", "home"})
        job |= {"log": self.path, "speed": speed, "directory": str(directory)}
        argv = (sys.executable, "-I", "-S", play_log.__file__, json.dumps(job))
        return Invocation(argv=argv, files=RunFiles() if self.source else RunFiles(checkpoints=None))


def find_log(settings: LogSettings, *, case: str, arm: str, repeat: int, where: str) -> StoredLog:
    """Return the log of the first pattern that matches a file.

    where: the target's file, for messages. Raises ConfigError if no pattern matches, if the first pattern that matches
    matches several files, or for a file that `read_log` rejects.
    """
    tried = []
    for pattern in settings.logs:
        filled = pattern.format_map({"case": case, "arm": arm, "repeat": repeat})
        found = sorted(glob(str(Path(filled).expanduser().absolute())))
        if len(found) > 1:
            raise ConfigError([f"{where}: {filled} matches {len(found)} files ({found[0]}, {found[1]}, …): keep one"])
        if found:
            return read_log(found[0], arm, Path(found[0]).stat().st_mtime_ns)
        tried.append(filled)
    raise ConfigError([f"{where}: there is no log to play for {case} {arm}: none of {', '.join(tried)} is a file"])


@lru_cache(maxsize=64)
def read_log(path: str, arm: str, _changed: int) -> StoredLog:
    """Return an arm's run in a log file: the file's only run, else the run with the arm's name.

    _changed: the file's modification time, part of the cache's key. Raises ConfigError if there is no such run or
    several, for a file that `scrape` rejects, and for a wrapped log, e.g. a compressed one.
    """
    try:
        runs = scrape(Path(path)).runs
    except LogFormatError as error:
        raise ConfigError([str(error)]) from error
    named = runs if len(runs) == 1 else [run for run in runs if run.name == arm]
    if len(named) != 1:
        names = ", ".join(run.name for run in runs)
        raise ConfigError([f"{path}: holds {len(runs)} runs ({names}), none of them alone called {arm}: keep one"])
    (run,) = named
    if run.coverage.unwrapped:
        raise ConfigError(
            [f"{path}: is wrapped ({', '.join(run.coverage.unwrapped)}): store the log as it was written"]
        )
    size = Path(path).stat().st_size
    begin, end = run.span if run.span[1] else (0, size)
    folder = Path(path).parent
    saves, home, digest = find_saves(Path(path), begin, end)
    return StoredLog(
        path=path,
        begin=begin,
        end=end,
        exit_code=run.exit_code if run.exit_code is not None else int(run.error is not None),
        checkpoints=saves,
        source=str(folder) if (folder / "checkpoints").is_dir() else None,
        home=home,
        digest=digest,
    )


type Saves = tuple[tuple[int, int | None, int | None], ...]


def find_saves(path: Path, begin: int, end: int) -> tuple[Saves, str | None, str]:
    """Return the checkpoints, home and digest of a StoredLog, from the bytes [begin, end) of a log."""
    home = None
    follower, digest = LogFollower(), hashlib.sha256()
    saves: dict[int, list[int | None]] = {}
    with path.open("rb") as file:
        file.seek(begin)
        left = end - begin
        while left > 0 and (chunk := file.read(min(CHUNK, left))):
            left -= len(chunk)
            digest.update(chunk)
            for event in follower.feed(chunk):
                if isinstance(event, CheckpointStarted | CheckpointCommitted):
                    places = saves.setdefault(event.step, [None, None])
                    places[isinstance(event, CheckpointCommitted)] = begin + event.offset
                    home = home or (str(Path(event.path).parent.parent) if event.path else None)
    found = tuple((step, places[0], places[1]) for step, places in sorted(saves.items()))
    return found, home, digest.hexdigest()[:16]
