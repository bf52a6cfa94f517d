"""Runs one command to its end whatever happens to the flow: `supervise.py SECONDS GRACE_SECONDS LOG_MB COMMAND…`.

Its standard output is the run's log, opened and locked by the launcher; its standard input is a pipe that brings one
byte when the launcher has noted where the run lives, and ends without one if the launcher died before. It frames the
log the way an XPK pod does (`XPK Start:`, `XPK End:`, `EXIT_CODE=`), limits its time and the size of its log, passes
SIGTERM on, and takes the command's whole process group with it when it ends. Standard library only, so that it starts
in milliseconds and can run with `python -I -S`.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

GUARD = b"maxview-guard"  # how `ps -e` calls the process that outlives a killed supervisor for a moment
GRACE_S = 30.0  # from SIGTERM to SIGKILL: enough for a small trainer to save a checkpoint
LEFTOVER_S = 2.0  # the same for what the command left running
POLL_S = 0.2
TIMED_OUT = 124  # as timeout(1) and xpk
LOG_FULL = 128 + signal.SIGXFSZ  # as the kernel ends a process whose file exceeds its limit
CANNOT_START = 127  # as a shell
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


def stamp() -> str:
    """The time as `date -u` prints it in an XPK pod, independent of the locale."""
    now = time.gmtime()
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[now.tm_wday]
    month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][now.tm_mon - 1]
    return f"{day} {month} {now.tm_mday:2d} {time.strftime('%H:%M:%S', now)} UTC {now.tm_year}"


def say(line: str) -> None:
    """Write a line of our own to the log, never in the middle of one of the command's."""
    size = os.fstat(1).st_size
    broken = size > 0 and os.pread(1, 1, size - 1) != b"\n"
    os.write(1, f"{chr(10) if broken else ''}{line}\n".encode())


def control(option: int, value: int | bytes) -> None:
    """prctl(2); other systems than Linux do without."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(argv: list[str]) -> int:
    """Run argv[3:] for at most argv[0] seconds, argv[1] more to stop by itself, or until its log has argv[2] MB.

    Returns its exit code.
    """
    limits, command = Limits(float(argv[0]), float(argv[1]), int(argv[2])), argv[3:]
    supervisor = os.getpid()
    ended = False
    process: subprocess.Popen[bytes] | None = None

    def forward(_signum: int, _frame: object) -> None:
        nonlocal ended
        ended = True
        if process is not None:
            process.terminate()

    def die_with_supervisor() -> None:
        control(PR_SET_PDEATHSIG, signal.SIGKILL)  # no run goes on unwatched
        if os.getppid() != supervisor:  # it was killed before the line above
            os.kill(os.getpid(), signal.SIGKILL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    control(PR_SET_CHILD_SUBREAPER, 1)  # to see the end of what the command leaves behind
    if not os.read(0, 1):
        return 0
    say(f"XPK Start: {stamp()}")
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=die_with_supervisor)
    except OSError as error:
        say(f"maxview: cannot start {command[0]}: {error.strerror}")
        code = CANNOT_START
    else:
        guard = Guard(process.pid)
        if ended:  # the signal came before there was a process to pass it on to
            process.terminate()
        code = wait(process, limits, lambda: ended)
        end_group(process.pid)  # its children may have outlived it and still write to the log
        guard.dismiss()
    say(f"XPK End: {stamp()}")
    say(f"EXIT_CODE={code}")
    return code


class Guard:
    """A second process that kills a group once this one is gone.

    The kernel ends the command with its supervisor, but not what the command has started: these would go on writing to
    the log and the checkpoints. The guard waits for the end of a pipe whose other end only the supervisor has.
    """

    def __init__(self, group: int) -> None:
        reading, self._writing = os.pipe()  # neither is passed on to commands
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._writing)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)  # they are the supervisor's to handle
            control(PR_SET_NAME, GUARD)
            try:
                if not os.read(reading, 1):
                    os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass  # nobody is left
            finally:
                os._exit(0)
        os.close(reading)

    def dismiss(self) -> None:
        """The group has ended by itself."""
        with suppress(BrokenPipeError):  # it was killed: it is needed no longer
            os.write(self._writing, b"\n")
        os.close(self._writing)
        os.waitpid(self._pid, 0)


class Limits(NamedTuple):
    """How long a command may run, how long it may take to stop after SIGTERM, and how large its log may become."""

    seconds: float
    grace_s: float
    log_mb: int


def wait(process: "subprocess.Popen[bytes]", limits: Limits, ended: Callable[[], bool]) -> int:
    """Wait for the end, a limit or a signal; returns a shell's exit code (128 + n for signal n)."""
    limit, grace_s = time.monotonic() + limits.seconds, limits.grace_s
    patience: float | None = None  # when a process that was asked to end is killed
    broken: int | None = None  # the exit code of a limit
    while True:
        try:
            code = process.wait(timeout=POLL_S)
            break
        except subprocess.TimeoutExpired:
            now = time.monotonic()
        if patience is None and ended():
            patience = now + grace_s
        elif patience is None and now > limit:
            broken, patience = TIMED_OUT, now + grace_s
            reached = f"time limit of {limits.seconds:g} s reached"
            say(f"maxview: {reached}, ending the run (time_limit_s of the target sets it)")
            process.terminate()
        elif patience is None and os.fstat(1).st_size > limits.log_mb * 1_000_000:
            grace_s = min(grace_s, LEFTOVER_S)  # it goes on writing meanwhile
            broken, patience = LOG_FULL, now + grace_s
            say(f"maxview: the log exceeds {limits.log_mb} MB, ending the run (log_limit_mb of the target sets it)")
            process.terminate()
        elif patience is not None and now > patience:
            say(f"maxview: still running {grace_s:g} s after SIGTERM, killing it")
            process.kill()
            patience = float("inf")
    if broken is not None:
        return broken
    return 128 - code if code < 0 else code


def end_group(group: int) -> None:
    """End every process of a group: SIGTERM, a moment, SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + LEFTOVER_S
        try:
            os.killpg(group, number)
            while time.monotonic() < deadline:
                reap(group)
                os.killpg(group, 0)
                time.sleep(0.01)
        except (ProcessLookupError, PermissionError):  # nobody is left; macOS says it of zombies the other way
            return


def reap(group: int) -> None:
    """Take note of the ends of a group's processes that became our children when their parents ended."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
