"""Runs one command to its end, independently of the flow: `supervise.py SECONDS GRACE_SECONDS LOG_MB COMMAND…`.

The supervisor's standard output is the run's log, opened and locked by the launcher. Its standard input is a pipe: one
byte means that the launcher has stored the run's handle, end of file that the launcher died before. The supervisor
writes the log's first and last lines like an XPK pod (`XPK Start:`, `XPK End:`, `EXIT_CODE=`), limits the time and the
log's size, forwards SIGTERM and SIGINT to the command as SIGTERM, and at the end ends the rest of the command's process
group. Uses the standard library only: it starts in milliseconds and can run with `python -I -S`.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

GUARD = b"maxview-guard"  # name in `ps -e` of the process that briefly outlives a killed supervisor
GRACE_S = 30.0  # from SIGTERM to SIGKILL: enough for a small trainer to save a checkpoint
# from SIGTERM to SIGKILL for processes that the command left running, and for a command whose log is too large
LEFTOVER_S = 2.0
POLL_S = 0.2  # between checks of the limits
KILLED = float("inf")  # value of the SIGKILL deadline once SIGKILL was sent
TIMED_OUT = 124  # exit code after the time limit, as of timeout(1)
LOG_FULL = 128 + signal.SIGXFSZ  # exit code after the log's limit, as of a process that exceeds the file size limit
CANNOT_START = 127  # exit code if the command cannot be started, as of a shell
PEAK = "maxview: largest resident memory of a process: "  # before the number of MiB, at the end of a log
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


def stamp() -> str:
    """Return the current time in the format of `date -u` in an XPK pod, whatever the locale."""
    now = time.gmtime()
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[now.tm_wday]
    month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][now.tm_mon - 1]
    return f"{day} {month} {now.tm_mday:2d} {time.strftime('%H:%M:%S', now)} UTC {now.tm_year}"


def say(line: str) -> None:
    """Write a line of the supervisor to the log, after a line break if the command's last line has none."""
    size = os.fstat(1).st_size
    broken = size > 0 and read_byte(size - 1) != b"\n"
    os.write(1, f"{chr(10) if broken else ''}{line}\n".encode())


def read_byte(offset: int) -> bytes:
    """Return one byte of the log, also if standard output is open only for writing, as in a batch job."""
    try:
        return os.pread(1, 1, offset)
    except OSError:
        with open("/proc/self/fd/1", "rb") as log:
            log.seek(offset)
            return log.read(1)


def control(option: int, value: int | bytes) -> None:
    """Call prctl(2); does nothing on systems other than Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def peak_bytes() -> int:
    """Return the largest resident memory of any process that has ended below this one."""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(argv: list[str]) -> int:
    """Run argv[3:] and return its exit code (see `wait`), or CANNOT_START. Return 0 at once if the launcher has died.

    Limits: argv[0] seconds, argv[1] seconds from SIGTERM to SIGKILL, argv[2] MB of log.
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
        control(PR_SET_PDEATHSIG, signal.SIGKILL)  # the kernel kills the command if the supervisor dies
        if os.getppid() != supervisor:  # the supervisor was killed before the line above
            os.kill(os.getpid(), signal.SIGKILL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    control(PR_SET_CHILD_SUBREAPER, 1)  # makes orphans of the command our children, so that they can be reaped
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
        if ended:  # SIGTERM arrived before the process existed
            process.terminate()
        code = wait(process, limits, lambda: ended)
        end_group(process.pid)  # the command's children may still run and write to the log
        guard.dismiss()
        say(f"{PEAK}{peak_bytes() / 2**20:.0f} MiB")
    say(f"XPK End: {stamp()}")
    say(f"EXIT_CODE={code}")
    return code


class Guard:
    """A second process that kills a process group once the supervisor is gone.

    If the supervisor dies, the kernel kills the command, but not the command's children, which would keep writing to
    the log and the checkpoints. The guard waits for end of file on a pipe that only the supervisor has open.
    """

    def __init__(self, group: int) -> None:
        reading, self._writing = os.pipe()  # commands inherit neither end
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._writing)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)  # only the supervisor handles these signals
            control(PR_SET_NAME, GUARD)
            try:
                if not os.read(reading, 1):
                    os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass  # the group is empty
            finally:
                os._exit(0)
        os.close(reading)

    def dismiss(self) -> None:
        """End the guard without killing the group. Called after the group has ended."""
        with suppress(BrokenPipeError):  # the guard was killed
            os.write(self._writing, b"\n")
        os.close(self._writing)
        os.waitpid(self._pid, 0)


class Limits(NamedTuple):
    """A command's limits: seconds to run, seconds from SIGTERM to SIGKILL, MB of log."""

    seconds: float
    grace_s: float
    log_mb: int


def wait(process: "subprocess.Popen[bytes]", limits: Limits, ended: Callable[[], bool]) -> int:
    """Wait for the process to end. At a limit, send SIGTERM and, after the grace period, SIGKILL.

    ended: returns whether the caller has sent SIGTERM; SIGKILL then also follows after the grace period.
    Returns the exit code like a shell: 128 + n after signal n. After a limit, returns TIMED_OUT or LOG_FULL.
    """
    limit, grace_s = time.monotonic() + limits.seconds, limits.grace_s
    patience: float | None = None  # monotonic time of SIGKILL; None: no SIGTERM was sent
    broken: int | None = None  # exit code of the limit that was exceeded
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
            grace_s = min(grace_s, LEFTOVER_S)  # short, because the command keeps writing meanwhile
            broken, patience = LOG_FULL, now + grace_s
            say(f"maxview: the log exceeds {limits.log_mb} MB, ending the run")
            process.terminate()
        elif broken == LOG_FULL and patience != KILLED and os.fstat(1).st_size > 2_000_000 * limits.log_mb:
            say(f"maxview: the log exceeds {2 * limits.log_mb} MB after SIGTERM, killing the run")
            process.kill()
            patience = KILLED
        elif patience is not None and now > patience:
            say(f"maxview: still running {grace_s:g} s after SIGTERM, killing it")
            process.kill()
            patience = KILLED
    if broken is not None:
        return broken
    return 128 - code if code < 0 else code


def end_group(group: int) -> None:
    """End every process of a group: SIGTERM, then SIGKILL after LEFTOVER_S."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + LEFTOVER_S
        try:
            os.killpg(group, number)
            while time.monotonic() < deadline:
                reap_zombies(group)
                os.killpg(group, 0)
                time.sleep(0.01)
        except (ProcessLookupError, PermissionError):  # the group is empty; macOS raises PermissionError for zombies
            return


def reap_zombies(group: int) -> None:
    """Reap a group's zombies, which became children of this process when their parents ended."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
