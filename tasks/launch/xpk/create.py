"""Runs `xpk workload create`, retries it after outages, and reports missing tools and credentials."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

from tasks.launch.errors import LaunchError
from tasks.launch.xpk import poll_job
from tasks.launch.xpk.check import missing_tools
from tasks.launch.xpk.workload import xpk_environment

TIMEOUT_S = 900.0  # long, because xpk may first install components in the cluster
TAIL_LINES = 12  # of xpk's output, in messages
# Messages of kubectl and xpk about an unavailable API server: starting, overloaded, or loading its roles.
_OUTAGE = re.compile(
    r"connection refused|connection to the server .{0,200} was refused|connection reset|no route to host|i/o timeout|"
    r"TLS handshake timeout|unexpected EOF|Unable to connect to the server|ServiceUnavailable|InternalError|"
    r"currently unable to handle the request|TooManyRequests|Too Many Requests|\(re\)initializing|etcdserver: |"
    r"Timeout: request did not complete",
    re.IGNORECASE,
)
_FORBIDDEN = re.compile(r"\(Forbidden\)|is forbidden: |system:anonymous")
# Parts of tools' messages about missing credentials.
_LOGIN = ("gcloud auth login", "active account", "credential", "Unauthorized", "Reauthentication", "must be logged in")


def create_workload(argv: Sequence[str], exists: Callable[[], bool]) -> None:
    """Run xpk until the workload exists; retry after an outage. Raises LaunchError with the end of xpk's output.

    exists: returns whether the workload exists. xpk's exit code is ignored: it may fail after creating the workload.
    """
    missing = list(missing_tools([word for word in argv if word]))
    if missing:
        raise LaunchError("; ".join(missing))
    deadline = time.monotonic() + poll_job.PATIENCE_S
    for attempt in count():
        code, said = run_xpk(argv)
        if poll_job.patiently(exists):
            return
        # A starting API server denies everything until it has loaded its roles, so a denial is retried once.
        again = _OUTAGE.search(said) or (attempt == 0 and _FORBIDDEN.search(said))
        if not again or time.monotonic() > deadline:
            break
        time.sleep(poll_job.LOOK_EVERY_S)
    tail = "\n".join(said.splitlines()[-TAIL_LINES:])
    remedy = "log in with `gcloud auth login`; " if any(word in said for word in _LOGIN) else ""
    raise LaunchError(f"xpk exited with code {code} without creating the workload; {remedy}its last lines:\n{tail}")


def run_xpk(argv: Sequence[str]) -> tuple[int, str]:
    """Run xpk and return its exit code and output. Kills xpk if interrupted. Raises LaunchError after TIMEOUT_S."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,  # xpk takes the end of its input for the answer no
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=xpk_environment(dict(os.environ)),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except BaseException as error:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise LaunchError(f"xpk has not created the workload within {TIMEOUT_S:g} s") from error
        raise
    return process.returncode, output.decode("utf-8", "replace")
