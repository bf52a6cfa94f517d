"""Identifies processes that outlive this one despite reused pids, and ends them with their sessions."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from tasks.records.plan import StartedProcess

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TOLERANCE_S = 2.0  # a process with the same pid is the same process if the start times differ by less
KILL_S = 5.0  # longest wait after SIGKILL
POLL_S = 0.02  # between checks whether processes have ended
# pid → child of this process. They must be reaped, or they stay zombies.
_children: dict[int, "subprocess.Popen[bytes]"] = {}


def adopt(process: "subprocess.Popen[bytes]") -> StartedProcess:
    """Return the identity of a child of this process, and let `is_running` reap it from now on."""
    _children[process.pid] = process
    boot, created = start_of(process.pid)
    return StartedProcess(pid=process.pid, created=created, boot=boot)


def start_of(pid: int) -> tuple[str, float]:
    """Return a process's start: boot id and seconds since the boot; on systems other than Linux, "" and the epoch time.

    On Linux a process's epoch time would change whenever the clock is set. Raises psutil.NoSuchProcess.
    """
    started = psutil.Process(pid).create_time()
    if sys.platform != "linux":
        return "", started
    return BOOT_ID.read_text().strip(), started - psutil.boot_time()


def is_same(process: StartedProcess) -> bool:
    """Return whether the live process with this pid is still the started process. Raises psutil.NoSuchProcess."""
    boot, started = start_of(process.pid)
    return boot == process.boot and abs(started - process.created) < TOLERANCE_S


def is_running(process: StartedProcess) -> bool:
    """Return whether the process runs on this machine; a zombie does not. Reaps an ended child that `adopt` got."""
    try:
        runs = is_same(process) and psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        runs = False
    child = _children.get(process.pid)
    if child is not None and child.poll() is not None:  # polled last, to reap a child that ends during this call
        _children.pop(process.pid, None)
        return False
    return runs


def members(process: StartedProcess) -> Iterator[int]:
    """Yield the pids of the live processes in the session that `process` leads. The leader itself may have ended.

    The kernel does not reuse the pid while the session has members. If the pid was reused, nothing is yielded.
    """
    with suppress(psutil.NoSuchProcess):  # the leader has ended; other members may live
        if not is_same(process):
            return
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(pid) == process.pid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                yield pid


def end_session(process: StartedProcess, *, patience_s: float) -> bool:
    """End a process and its session: SIGTERM to the process, then SIGKILL to the rest.

    Sends SIGKILL once the process has ended, at the latest after `patience_s` seconds. Returns whether the
    process ended without SIGKILL. Does nothing if all have ended.
    """
    by_itself = True
    if is_running(process):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        by_itself = _wait_until(lambda: not is_running(process), patience_s)
    for pid in members(process):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait_until(lambda: not is_running(process) and not any(members(process)), KILL_S)
    return by_itself


def wait_for_end(process: StartedProcess) -> None:
    """Wait for the process to end, even if it is no child of this one. Polling would disturb timings."""
    with suppress(psutil.NoSuchProcess):
        waited = psutil.Process(process.pid)
        if is_running(process):  # else the pid may belong to another process now
            waited.wait()


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
