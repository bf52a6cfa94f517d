"""Starts a program that outlives its starter, remembers it in a file, finds it again, and ends it by its own id."""

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
    """A program that runs by itself: enough to know it again, even if its number has been given to another."""

    name: str
    pid: int
    created: float  # seconds since `boot`
    boot: str = ""  # the machine's boot
    log: str


def start_kept(name: str, argv: Sequence[str], *, state: Path, folder: Path, environment: Mapping[str, str]) -> Kept:
    """Start a program in a session of its own, its output going to `<state>/<name>.log`."""
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
    """The program that `start_kept` started under this name, if it still runs."""
    try:
        kept = Kept.model_validate(json.loads((state / f"{name}.json").read_text()))
    except (FileNotFoundError, ValueError):
        return None
    return kept if is_running(kept) else None


def is_running(kept: Kept) -> bool:
    """Whether it still runs; a zombie that waits for its parent does not."""
    try:
        same = is_same(kept.pid, kept.boot, kept.created)
        return same and psutil.Process(kept.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_end(kept: Kept) -> None:
    """Return when it runs no more. It need not have been started here; while a trainer is timed, nobody wakes up."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(kept.pid)
        if is_running(kept):  # else its number is another's by now
            process.wait()


def end_kept(kept: Kept, *, state: Path, patience_s: float) -> bool:
    """End it: SIGTERM, and SIGKILL for what is left of its session after `patience_s`; whether it went by itself."""
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
    """The live processes of the session that it leads; each is remembered with its start, so none is mistaken later."""
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
        with suppress(ChildProcessError):  # a command that was started by another one is not ours to collect
            os.waitpid(kept.pid, os.WNOHANG)
        time.sleep(POLL_S)
    return True
