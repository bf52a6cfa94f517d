"""Joins the logs of an interrupted and resumed run into one log, from the run's first step to its end."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from tasks.launch.logs import list_earlier_logs, read_exit_code
from tasks.scrape import LogFormatError, scrape_run


def rejoin_attempts(log: Path) -> None:
    """Prepend to a successful run's log the logs of the attempts whose checkpoints it resumed from.

    Readers handle restarts: of a repeated step, the last row counts. Omits attempts whose checkpoints were not used.
    Does nothing if the run died: the cause of death is read from its last log alone. Idempotent, so that a killed flow
    can repeat it.
    """
    attempts = list_earlier_logs(log)
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
    """Return the number of the first step in a log, None if it has no steps."""
    try:
        steps = scrape_run(log).steps
    except LogFormatError:  # killed before it printed anything
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
        file.seek(-1, os.SEEK_END)  # the file contains a step, so it is not empty
        return file.read() == b"\n"
