"""Runs `xpk workload create`, and says what is missing where it cannot."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

from tasks.launch import poll_job
from tasks.launch.check import missing_tools
from tasks.launch.errors import LaunchError
from tasks.launch.workload import xpk_environment

TIMEOUT_S = 900.0  # it may install things in the cluster first
TAIL_LINES = 12
# what kubectl and xpk print when the API server is away: it is starting, overloaded, or loads its roles
_OUTAGE = re.compile(
    r"connection refused|connection to the server .{0,200} was refused|connection reset|no route to host|i/o timeout|"
    r"TLS handshake timeout|unexpected EOF|Unable to connect to the server|ServiceUnavailable|InternalError|"
    r"currently unable to handle the request|TooManyRequests|Too Many Requests|\(re\)initializing|etcdserver: |"
    r"Timeout: request did not complete",
    re.IGNORECASE,
)
_FORBIDDEN = re.compile(r"\(Forbidden\)|is forbidden: |system:anonymous")
# what tools print that have no credentials
_LOGIN = ("gcloud auth login", "active account", "credential", "Unauthorized", "Reauthentication", "must be logged in")


def create_workload(argv: Sequence[str], exists: Callable[[], bool]) -> None:
    """Run xpk until the workload exists, again after an outage. Raises LaunchError with the end of xpk's output.

    xpk goes on after it has created the workload, with links and dashboards: `exists` tells whether it has failed.
    """
    missing = list(missing_tools([word for word in argv if word]))
    if missing:
        raise LaunchError("; ".join(missing))
    deadline = time.monotonic() + poll_job.PATIENCE_S
    for attempt in count():
        code, said = run_xpk(argv)
        if poll_job.patiently(exists):
            return
        # a server denies everything while it loads its roles: one more attempt tells that from a missing right
        again = _OUTAGE.search(said) or (attempt == 0 and _FORBIDDEN.search(said))
        if not again or time.monotonic() > deadline:
            break
        time.sleep(poll_job.LOOK_EVERY_S)
    tail = "\n".join(said.splitlines()[-TAIL_LINES:])
    remedy = "log in with `gcloud auth login`" if any(word in said for word in _LOGIN) else "its last lines say why"
    raise LaunchError(f"xpk ended with exit code {code} and there is no workload: {remedy}:\n{tail}")


def run_xpk(argv: Sequence[str]) -> tuple[int, str]:
    """The exit code of xpk and what it printed; it ends with an exception here. Raises LaunchError if it hangs."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,  # xpk takes the end of the file for no
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
