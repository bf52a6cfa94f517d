"""Runs a plan on this machine as a supervised process group that outlives its flow; a later flow can attach to it."""

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

from configs.backends.local import LocalHandle
from configs.environment import pass_on
from configs.installed import COMMIT_VARIABLE
from configs.read import CONFIG_ROOT
from tasks.launch import supervise
from tasks.launch.errors import LaunchError
from tasks.launch.local import confine
from tasks.launch.logs import open_locked
from tasks.launch.same_process import is_same, start_of
from tasks.records import RunPlan
from tasks.store.seals import state_folder

KILL_S = 5.0  # from SIGKILL to the process's end
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
    """Return the trainer's environment: the caller's variables that the plan passes on, and the plan's own."""
    own = {"PYTHONUNBUFFERED": "1"}
    if plan.checkout is not None:
        own["PYTHONDONTWRITEBYTECODE"] = "1"  # bytecode beside the sources would be run by the next process
    if commit := plan.commit or caller.get(COMMIT_VARIABLE):
        own[COMMIT_VARIABLE] = commit  # checkouts and images contain no .git
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
    """Start the plan's command in its own process group, with its output in `log`; return its handle.

    Calls `keep` with the handle before the command starts, so that every started run can be found again.
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
        os.close(descriptor)  # the supervisor and the command inherited it, with the lock
    _children[process.pid] = process
    assert process.stdin is not None  # a pipe, by its arguments
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
    except BaseException as error:  # the closed pipe ends the supervisor before the command starts
        process.wait()
        if isinstance(error, BrokenPipeError):
            raise LaunchError(f"{plan.run_name}: its supervisor ended at once; {log} may say why") from error
        raise
    return handle


def has_devices() -> bool:
    """Return whether this machine has an accelerator, whose driver may need rights that a namespace lacks."""
    return any(glob(pattern) for pattern in DEVICES)


def writable_folders(plan: RunPlan, environment: Mapping[str, str]) -> list[str]:
    """Return the arguments of `confine.py`.

    Writable: caches, temporary folders, the working folder unless it is a checkout, and the run's folder. Read-only:
    other runs, checkouts and seals.
    """
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


def _start_folder(plan: RunPlan) -> str | Path:
    """Return the working folder: `python -m` imports from it first, so it must not contain our packages for others."""
    ours = plan.trainer == "maxview" or plan.backend == "replay"
    return plan.checkout or plan.start_folder or (CONFIG_ROOT.parent if ours else plan.directory)


# Children of this process, which must be reaped or they stay zombies. Handles of earlier processes have no entry.
_children: dict[int, "subprocess.Popen[bytes]"] = {}


def is_alive(handle: LocalHandle) -> bool:
    """Return whether the run's supervisor still runs here. Tells a reused pid by its start time."""
    if not is_here(handle):
        return False
    try:
        runs = _is_it(handle) and psutil.Process(handle.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        runs = False
    child = _children.get(handle.pid)
    if child is not None and child.poll() is not None:  # polled last, to reap a child that ends during this call
        _children.pop(handle.pid, None)
        return False
    return runs


def is_here(handle: LocalHandle) -> bool:
    """Return whether the run was started on this machine."""
    return handle.host in ("", socket.gethostname())


def _is_it(handle: LocalHandle) -> bool:
    return is_same(handle.pid, handle.boot, handle.created)


def stop(handle: LocalHandle, *, grace_s: float = supervise.GRACE_S + 5.0) -> None:
    """End every process of the run; does nothing if all have ended.

    Sends SIGTERM to the supervisor, which ends the others and closes the log, and SIGKILL to all after `grace_s`.
    """
    if is_alive(handle):
        with suppress(ProcessLookupError):
            os.kill(handle.pid, signal.SIGTERM)
        _wait_until(lambda: not is_alive(handle), grace_s)
    for pid in members(handle):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait_until(lambda: not is_alive(handle) and not any(members(handle)), KILL_S)


def members(handle: LocalHandle) -> Iterator[int]:
    """Yield the pids of the run's live processes: the session that its supervisor leads, or led until it was killed.

    The kernel does not reuse a session's number while it has members; a process that got the number later has another
    start time.
    """
    if not is_here(handle):
        return
    try:
        if not _is_it(handle):
            return
    except psutil.NoSuchProcess:
        pass  # the leader has ended; other members may live
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(pid) == handle.pid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                yield pid


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_S)
