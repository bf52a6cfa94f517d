"""Joins the logs of the attempts of a resumed run into one log, from the run's first step to its end."""

from collections.abc import Iterator
from pathlib import Path

from tasks.launch.logs import list_earlier_logs, read_exit_code
from tasks.scrape import LogFormatError, scrape_run
from tasks.store.atomic import write_bytes_atomically

CHUNK = 1 << 20


def rejoin_attempts(log: Path) -> None:
    """Prepend to a successful run's log the logs of the attempts whose checkpoints it resumed from.

    The joined log may contain a step twice; the log's readers then use the last row. Omits attempts whose checkpoints
    were not used. Does nothing if the run died: the cause of death is read from its last log alone. Idempotent, so that
    it can be repeated after a killed flow.
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
        write_bytes_atomically(log, _read_all(parts))


def find_first_step(log: Path) -> int | None:
    """Return the number of the first training step in a log; None if the log has no steps or is no readable log."""
    try:
        steps = scrape_run(log).steps
    except LogFormatError:  # killed before it printed anything
        return None
    return None if steps.is_empty() else int(steps["step"][0])


def _read_all(parts: list[Path]) -> Iterator[bytes]:
    """Yield the bytes of all files. Adds a missing line break at the end of each file except the last."""
    for part in parts:
        end = b"\n"
        with part.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
                end = chunk[-1:]
        if part is not parts[-1] and end != b"\n":
            yield b"\n"
