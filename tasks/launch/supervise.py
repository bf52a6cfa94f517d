"""Runs one command to its end whatever happens to the flow: `supervise.py LOG SECONDS COMMAND…`.

It frames the log the way an XPK pod does (`XPK Start:`, `XPK End:`, `EXIT_CODE=`), enforces the time limit on the
process, passes SIGTERM on, and takes the whole process group with it when it ends. Standard library only, so that it
starts in milliseconds and can run with `python -I -S`.
"""

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

GRACE_S = 30.0  # from SIGTERM to SIGKILL: enough for a small trainer to save a checkpoint
PR_SET_PDEATHSIG = 1
TIMED_OUT = 124  # as timeout(1) and xpk
LOCKED = 75  # EX_TEMPFAIL


def stamp() -> str:
    """The time as `date -u` prints it in an XPK pod, independent of the locale."""
    now = time.gmtime()
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[now.tm_wday]
    month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][now.tm_mon - 1]
    return f"{day} {month} {now.tm_mday:2d} {time.strftime('%H:%M:%S', now)} UTC {now.tm_year}"


def die_with_parent() -> None:
    """Linux: the command is killed if this supervisor is killed, so that no run goes on unwatched."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(argv: list[str]) -> int:
    """Run argv[2:] with its output appended to argv[0], for at most argv[1] seconds; return its exit code."""
    log = os.open(argv[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:  # held by the command too, which inherits the file: two runs can never write one log
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return LOCKED

    def say(line: str) -> None:
        os.write(log, f"{line}\n".encode())

    ended = False
    process: subprocess.Popen[bytes] | None = None

    def forward(_signum: int, _frame: object) -> None:
        nonlocal ended
        ended = True
        if process is not None:
            process.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)

    say(f"XPK Start: {stamp()}")
    try:
        process = subprocess.Popen(
            argv[2:], stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
        )
    except OSError as error:
        say(f"maxview: cannot start {argv[2]}: {error.strerror}")
        code = 127
    else:
        if ended:  # the signal came between installing the handler and starting the command
            process.terminate()
        code = wait(process, float(argv[1]), say, lambda: ended)
    # children of the command may have outlived it and still write to the log: end them before the frame closes
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    say(f"XPK End: {stamp()}")
    say(f"EXIT_CODE={code}")
    os.close(log)
    return code


def wait(
    process: "subprocess.Popen[bytes]", limit_s: float, say: Callable[[str], None], ended: Callable[[], bool]
) -> int:
    """Wait for the end, the limit or a signal; returns a shell's exit code (128 + n for signal n)."""
    deadline = time.monotonic() + limit_s
    timed_out = False
    while True:
        try:
            code = process.wait(timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        if not timed_out and not ended() and now > deadline:
            timed_out = True
            say(f"maxview: time limit of {limit_s:g} s reached, ending the run (time_limit_s of the target sets it)")
            process.terminate()
        if timed_out or ended():
            deadline = min(deadline, now)
            if now > deadline + GRACE_S:
                say(f"maxview: still running {GRACE_S:g} s after SIGTERM, killing it")
                process.kill()
                deadline = now
    if timed_out:
        return TIMED_OUT
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
