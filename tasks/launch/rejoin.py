"""Turns the logs of a run that was interrupted and resumed into one log, from the run's first step to its end."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from tasks.launch.logs import logs_aside, read_exit_code
from tasks.scrape import LogFormatError, scrape_run


def rejoin_attempts(log: Path) -> None:
    """Put in front of the log of a run that ended well what the attempts printed from whose checkpoints it went on.

    Readers of a log know restarts: of a step that was done again the last one counts. Attempts that nothing was taken
    from stay aside, and so does everything of a run that died, whose log is searched for the cause. Done twice it
    changes nothing, so a flow may be killed anywhere.
    """
    attempts = logs_aside(log)
    if not attempts or read_exit_code(log) != 0:
        return
    parts, begin = [log], find_first_step(log)
    for attempt in reversed(attempts):
        first = find_first_step(attempt)
        if first is not None and (begin is None or first < begin):
            parts.insert(0, attempt)
            begin = first
    if len(parts) > 1:
        _join(parts, log)


def find_first_step(log: Path) -> int | None:
    """The number of the first step that a log shows, None if it shows none."""
    try:
        steps = scrape_run(log).steps
    except LogFormatError:  # it was killed before it said anything
        return None
    return None if steps.is_empty() else int(steps["step"][0])


def _join(parts: list[Path], log: Path) -> None:
    descriptor, joined = tempfile.mkstemp(dir=log.parent, prefix=f".{log.name}.", suffix=".tmp")
    try:
        with open(descriptor, "wb") as whole:
            os.fchmod(whole.fileno(), log.stat().st_mode & 0o777)
            for part in parts:
                with part.open("rb") as text:
                    shutil.copyfileobj(text, whole)
                if part is not log and not _ends_a_line(part):
                    whole.write(b"\n")
            whole.flush()
            os.fsync(whole.fileno())
        os.replace(joined, log)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(joined)
        raise


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)  # it shows a step: it is not empty
        return file.read() == b"\n"
