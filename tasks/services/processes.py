"""Starts programs that outlive their starter, records them in files, finds them again, and ends them by their pid."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from configs.schema import Frozen
from tasks.launch.same_process import is_same, start_of
from tasks.store import write_atomically

POLL_S = 0.05


class Kept(Frozen):
    """A started program, with its pid and start time, which tell it from a later process with the same pid."""

    name: str
    pid: int
    created: float  # seconds since `boot`
    boot: str = ""  # the machine's boot id
    log: str


def start_kept(name: str, argv: Sequence[str], *, state: Path, folder: Path, environment: Mapping[str, str]) -> Kept:
    """Start a program in its own session, with its output in `<state>/<name>.log`."""
    log = state / f"{name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(argv), cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    boot, created = start_of(process.pid)
    kept = Kept(name=name, pid=process.pid, created=created, boot=boot, log=str(log))
    write_atomically(state / f"{name}.json", kept.model_dump_json(indent=1) + "\n")
    return kept


def read_kept(name: str, state: Path) -> Kept | None:
    """Return the program that `start_kept` started under this name, or None if it does not run."""
    try:
        kept = Kept.model_validate(json.loads((state / f"{name}.json").read_text()))
    except (FileNotFoundError, ValueError):
        return None
    return kept if is_running(kept) else None


def is_running(kept: Kept) -> bool:
    """Return whether the program runs; a zombie does not."""
    try:
        same = is_same(kept.pid, kept.boot, kept.created)
        return same and psutil.Process(kept.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_end(kept: Kept) -> None:
    """Wait for the program's end, also of another process's child; does not poll, which would disturb timings."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(kept.pid)
        if is_running(kept):  # else its pid may belong to another process
            process.wait()


def end_kept(kept: Kept, *, state: Path, patience_s: float) -> bool:
    """End the program: SIGTERM, then SIGKILL to its session after `patience_s`. Returns whether SIGTERM sufficed."""
    by_itself = True
    members = session_of(kept)
    if is_running(kept):
        with suppress(ProcessLookupError):
            os.kill(kept.pid, signal.SIGTERM)
        by_itself = _wait(kept, patience_s)
    for process in members:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _wait(kept, patience_s)
    (state / f"{kept.name}.json").unlink(missing_ok=True)
    return by_itself


def session_of(kept: Kept) -> list[psutil.Process]:
    """Return the live processes of the program's session; psutil keeps their start times, so reused pids are safe."""
    if not is_running(kept):
        return []
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(pid) == kept.pid:
                found.append(psutil.Process(pid))
    return found


def _wait(kept: Kept, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_running(kept):
        if time.monotonic() > deadline:
            return False
        with suppress(ChildProcessError):  # another command's child cannot be reaped here
            os.waitpid(kept.pid, os.WNOHANG)
        time.sleep(POLL_S)
    return True
