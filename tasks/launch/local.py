"""Runs a plan on this machine as a supervised process group that outlives the flow and can be attached to again."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path

import psutil

from configs.environment import pass_on
from configs.installed import COMMIT_VARIABLE
from configs.read import CONFIG_ROOT
from tasks.launch import confine, supervise
from tasks.launch.errors import LaunchError
from tasks.launch.same_process import is_same, start_of
from tasks.records import LocalHandle, RunPlan
from tasks.store.seals import state_folder

KILL_S = 5.0  # how long a killed process may take to be gone
POLL_S = 0.02
DEVICES = (
    "/dev/nvidia[0-9]*",
    "/dev/accel*",
    "/dev/vfio/[0-9]*",
    "/dev/kfd",
    "/dev/dxg",
    "/dev/neuron*",
    "/dev/hl[0-9]*",
)


def build_environment(plan: RunPlan, caller: Mapping[str, str]) -> dict[str, str]:
    """The environment of the trainer: what the plan lets through of the caller's, and what it sets."""
    own = {"PYTHONUNBUFFERED": "1"}
    if plan.checkout is not None:
        own["PYTHONDONTWRITEBYTECODE"] = "1"  # beside the sources, it would be run by the next one
    if commit := plan.commit or caller.get(COMMIT_VARIABLE):
        own[COMMIT_VARIABLE] = commit  # a checkout has no git to ask, and neither has an image
    return pass_on(caller, plan.passed_on) | own | plan.environment


def launch(
    plan: RunPlan,
    log: Path,
    *,
    extra_argv: tuple[str, ...] = (),
    keep: Callable[[LocalHandle], object] = lambda _: None,
    grace_s: float = supervise.GRACE_S,
    writable: Sequence[Path] = (),
) -> LocalHandle:
    """Start the plan's command in a process group of its own, its output going to `log` as it comes.

    `keep` is called with the handle before the command starts: a run that nobody could find again never begins.
    writable: folders that the command may write to, besides those of every run.
    Raises LaunchError if another run holds the log or no process can be started.
    """
    limits = (str(plan.time_limit_s), str(grace_s), str(plan.log_limit_mb))
    argv = [sys.executable, "-I", "-S", supervise.__file__, *limits]
    environment = build_environment(plan, os.environ)
    if not has_devices() or environment.get("JAX_PLATFORMS") == "cpu":
        argv += [sys.executable, "-I", "-S", confine.__file__, *writable_folders(plan, environment)]
        argv += [*(f"+{folder}" for folder in writable), "--"]
    descriptor = open_locked(log)
    try:
        process = subprocess.Popen(
            [*argv, *plan.argv, *extra_argv],
            cwd=_start_folder(plan),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    except OSError as error:
        raise LaunchError(f"{plan.run_name}: no process can be started: {error.strerror}") from error
    finally:
        os.close(descriptor)  # the supervisor and the command have their own: the lock is theirs now
    _children[process.pid] = process
    assert process.stdin is not None  # asked for above
    try:
        with process.stdin as go:
            boot, created = start_of(process.pid)
            handle = LocalHandle(
                backend="replay" if plan.backend == "replay" else "local",
                job_name=plan.run_name,
                pid=process.pid,
                created=created,
                boot=boot,
                host=socket.gethostname(),
                log=str(log),
            )
            keep(handle)
            go.write(b"\n")
    except BaseException as error:  # the pipe has ended without a byte, and the supervisor ends with it
        process.wait()
        if isinstance(error, BrokenPipeError):
            raise LaunchError(f"{plan.run_name}: its supervisor ended at once; {log} may say why") from error
        raise
    return handle


def has_devices() -> bool:
    """Whether this machine has an accelerator: drivers ask for rights that a namespace may take away."""
    return any(glob(pattern) for pattern in DEVICES)


def writable_folders(plan: RunPlan, environment: Mapping[str, str]) -> list[str]:
    """The folders that the trainer may write to, in the words of `confine.py`: caches, temporary files, the folder it
    starts in if that is no checkout, and its own; other runs, checkouts and seals are closed wherever they lie."""
    home = Path(environment.get("HOME") or "/nonexistent")
    named = (environment.get("JAX_COMPILATION_CACHE_DIR"), environment.get("TMPDIR"), plan.start_folder)
    caches = (home / ".cache", home / "jax_cache", *(folder for folder in named if folder))
    checkouts = Path(plan.checkout).parent if plan.checkout else None
    closed = (Path(plan.directory).parent.parent, state_folder(), checkouts)
    return [
        *(f"+{folder}" for folder in ("/tmp", "/var/tmp", *caches)),
        *(f"-{folder}" for folder in closed if folder),
        f"+{plan.directory}",
    ]


def open_locked(log: Path) -> int:
    """A descriptor that appends to the log and holds its lock, which passes on to every process that inherits it."""
    try:
        descriptor = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise LaunchError(f"{log}: cannot be written: {error.strerror}; choose another --out") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise LaunchError(f"{log}: cannot be locked: {error.strerror}; choose a local disk as --out") from error
        raise LaunchError(
            f"{log}: another process is still writing it (`fuser {log}` shows which): "
            "wait for it, end it, or choose another --out"
        ) from error
    return descriptor


def _start_folder(plan: RunPlan) -> str | Path:
    """Where the command starts; `python -m` looks for packages there first, so ours must not lie in others' way."""
    ours = plan.trainer == "maxview" or plan.backend == "replay"
    return plan.checkout or plan.start_folder or (CONFIG_ROOT.parent if ours else plan.directory)


# Children of this process must be reaped or they stay as zombies; a handle from an earlier process has none here.
_children: dict[int, "subprocess.Popen[bytes]"] = {}


def is_alive(handle: LocalHandle) -> bool:
    """Whether the run's supervisor still runs here. A reused pid does not count: its start time differs."""
    if not is_here(handle):
        return False
    try:
        runs = _is_it(handle) and psutil.Process(handle.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        runs = False
    child = _children.get(handle.pid)
    if child is not None and child.poll() is not None:  # asked last: what ended during the look is reaped too
        _children.pop(handle.pid, None)
        return False
    return runs


def is_here(handle: LocalHandle) -> bool:
    """Whether the run is, or was, on this machine."""
    return handle.host in ("", socket.gethostname())


def _is_it(handle: LocalHandle) -> bool:
    return is_same(handle.pid, handle.boot, handle.created)


def stop(handle: LocalHandle, *, grace_s: float = supervise.GRACE_S + 5.0) -> None:
    """End the run and every process of it: SIGTERM to the supervisor, which ends the others and closes the log;
    SIGKILL to whatever is left after `grace_s` seconds. Does nothing if all have ended."""
    if is_alive(handle):
        with suppress(ProcessLookupError):
            os.kill(handle.pid, signal.SIGTERM)
        _wait_until(lambda: not is_alive(handle), grace_s)
    for pid in members(handle):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait_until(lambda: not is_alive(handle) and not any(members(handle)), KILL_S)


def members(handle: LocalHandle) -> Iterator[int]:
    """The live processes of the run: those of the session that its supervisor leads, or led until it was killed.

    While a session has members its number is given to no other process; and if the number has been given to one, that
    process started at another time.
    """
    if not is_here(handle):
        return
    try:
        if not _is_it(handle):
            return
    except psutil.NoSuchProcess:
        pass  # the leader is gone, which says nothing of the others
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(pid) == handle.pid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                yield pid


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_S)
