"""Starts programs that outlive this one, and finds them again by their names."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tasks.launch.processes import adopt, end_session, is_running
from tasks.records.plan import StartedProcess
from tasks.store.atomic import write_atomically


class Kept(StartedProcess):
    """A program whose identity is stored in a file, so that another command can find it."""

    name: str
    log: str


def start_kept(name: str, argv: Sequence[str], *, state: Path, folder: Path, environment: Mapping[str, str]) -> Kept:
    """Start a program in its own session. state: folder for NAME.log (its output) and NAME.json (its identity)."""
    log = state / f"{name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(argv), cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    kept = Kept(name=name, log=str(log), **dict(adopt(process)))
    write_atomically(state / f"{name}.json", kept.model_dump_json(indent=1) + "\n")
    return kept


def read_kept[K: Kept](name: str, state: Path, kind: type[K]) -> K | None:
    """Return the program whose identity is stored in NAME.json of the folder `state`.

    None if the program does not run, or if the file is missing or damaged.
    """
    try:
        kept = kind.model_validate_json((state / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None
    return kept if is_running(kept) else None


def end_kept(kept: Kept, *, state: Path, patience_s: float) -> bool:
    """End the program's session and delete its stored identity. Returns whether it ended without SIGKILL."""
    by_itself = end_session(kept, patience_s=patience_s)
    (state / f"{kept.name}.json").unlink(missing_ok=True)
    return by_itself
