"""Creates a run's workload with `xpk workload create`, and retries after outages of the cluster.

The arguments are made from the run's plan: a name, one shell line for the pods, and options.
"""

import base64
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

from configs.backends.xpk import Xpk
from configs.environment import is_own
from tasks.launch import patience
from tasks.launch.backend import LaunchError
from tasks.launch.cluster.handle import ClusterHandle
from tasks.launch.cluster.job_view import is_there
from tasks.launch.cluster.kube import KubeApi
from tasks.launch.xpk.check import missing_tools
from tasks.records.plan import RunPlan
from tasks.resolve.trainers.trainer import CONFIG_IN_POD
from tasks.store.directories import config_text

TIMEOUT_S = 900.0  # long, because xpk may first install components in the cluster
TAIL_LINES = 12  # of xpk's output, in messages
# Messages of kubectl and xpk about an unavailable API server, for example a starting or an overloaded one.
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


def quote(word: str) -> str:
    """Quote a word for bash, without line breaks and control characters: xpk inserts it into YAML unquoted."""
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}" for byte in word.encode()
    )
    return f"$'{escaped}'"


def shell_line(plan: RunPlan, config: str, extra_argv: tuple[str, ...]) -> str:
    """Return one line of bash that unpacks the run's config and then execs the trainer.

    Because of exec, xpk's wrapper can send SIGTERM to the trainer and return its exit code. The line contains the
    config, so the pod does not read the store.
    """
    packed = base64.b64encode(config.encode()).decode()
    folder = CONFIG_IN_POD.rpartition("/")[0]
    variables = {"PYTHONUNBUFFERED": "1"} | plan.environment
    words = ["env", *(f"{name}={value}" for name, value in variables.items()), *plan.argv, *extra_argv]
    return (
        f"mkdir -p {folder} && echo {packed} | base64 -d > {CONFIG_IN_POD} && exec {' '.join(quote(w) for w in words)}"
    )


def create_argv(plan: RunPlan, settings: Xpk, name: str, command: str) -> list[str]:
    """Return the `xpk workload create` command of one attempt. Its options forbid restarts by JobSet."""
    return [
        *settings.argv,
        "workload",
        "create",
        f"--workload={name}",
        f"--cluster={settings.cluster}",
        f"--project={settings.project}",
        f"--zone={settings.zone}",
        f"--namespace={settings.namespace}",
        f"--tpu-type={settings.tpu_type}",
        f"--num-slices={settings.num_slices}",
        f"--docker-image={settings.image}",
        f"--priority={settings.priority}",
        f"--termination-grace-period-seconds={settings.grace_s}",
        "--max-restarts=0",
        # Kubernetes replaces $$ by $, and $(NAME) by a variable of the pod
        f"--command={command.replace('$', '$$')}",
    ]


def xpk_environment(caller: dict[str, str]) -> dict[str, str]:
    """Return xpk's environment: the caller's without maxview's own variables; telemetry and downloads are disabled."""
    kept = {name: value for name, value in caller.items() if not is_own(name)}
    return kept | {"TELEMETRY_ENABLED": "false", "DEPENDENCY_AUTO_DOWNLOAD": "false", "PIP_NO_INDEX": "1"}


def create_workload(api: KubeApi, plan: RunPlan, extra_argv: tuple[str, ...], handle: ClusterHandle) -> None:
    """Create the workload of an attempt with xpk; see `Create`. Raises LaunchError with the end of xpk's output."""
    assert isinstance(plan.launch, Xpk)
    command = shell_line(plan, config_text(plan), extra_argv)
    run_until_created(
        create_argv(plan, plan.launch, handle.job_name, command), lambda: is_there(api.jobset(handle.job_name))
    )


def run_until_created(argv: Sequence[str], exists: Callable[[], bool]) -> None:
    """Run xpk until the workload exists. Raises LaunchError with the end of xpk's output.

    Retries after an outage, and once if the first attempt is denied. exists: returns whether the workload exists; xpk's
    exit code does not decide, because xpk may fail after it created the workload.
    """
    missing = list(missing_tools([word for word in argv if word]))
    if missing:
        raise LaunchError("; ".join(missing))
    deadline = time.monotonic() + patience.PATIENCE_S
    for attempt in count():
        code, said = run_xpk(argv)
        if patience.retry_outages(exists):
            return
        # A starting API server denies everything until it has loaded its roles, so a denial is retried once.
        again = _OUTAGE.search(said) or (attempt == 0 and _FORBIDDEN.search(said))
        if not again or time.monotonic() > deadline:
            break
        time.sleep(patience.LOOK_EVERY_S)
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
