"""Runs `xpk workload create`, and says what is missing where it cannot."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from tasks.launch.errors import LaunchError
from tasks.launch.workload import xpk_environment

TIMEOUT_S = 900.0  # it may install things in the cluster first
TAIL_LINES = 12
XPK = "xpk==1.16.0"
# what tools print who have no credentials
_LOGIN = ("gcloud auth login", "active account", "credential", "Unauthorized", "Reauthentication", "must be logged in")


def missing_tools(argv: Sequence[str]) -> Iterator[str]:
    """What is not on the path of what a launch needs, each with what to type."""
    if shutil.which(argv[0]) is None:
        yield f"{argv[0]} is not installed: `uv tool install {XPK}`, or name it as `argv` of the target"
    if shutil.which("kubectl") is None:
        yield "kubectl is not installed: `gcloud components install kubectl`"
    if shutil.which("gcloud") is None:
        yield "gcloud is not installed: https://cloud.google.com/sdk/docs/install"


def create_workload(argv: Sequence[str], exists: Callable[[], bool]) -> None:
    """Run xpk until the workload is there. Raises LaunchError with the end of what it said.

    xpk goes on after it has created the workload, with links and dashboards: `exists` tells whether that was in vain.
    """
    missing = list(missing_tools([word for word in argv if word]))
    if missing:
        raise LaunchError("; ".join(missing))
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,  # a question is answered with the end of the file, which xpk takes for no
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
    if exists():
        return
    said = output.decode("utf-8", "replace")
    tail = "\n".join(line for line in said.splitlines()[-TAIL_LINES:])
    remedy = "log in with `gcloud auth login`" if any(word in said for word in _LOGIN) else "its last lines say why"
    raise LaunchError(f"xpk ended with exit code {process.returncode} and there is no workload: {remedy}:\n{tail}")
