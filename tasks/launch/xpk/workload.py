"""Creates a run's workload with `xpk workload create`, and retries after outages of the cluster.

The arguments are made from the run's plan: a name, one shell line for the pods, and options.
"""

import base64
import hashlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

from configs.environment import is_own
from tasks.launch.backend import LaunchError
from tasks.launch.xpk import poll_job
from tasks.launch.xpk.check import missing_tools
from tasks.launch.xpk.kube import KubeApi
from tasks.launch.xpk.settings import Xpk
from tasks.records import RunPlan
from tasks.resolve.commands import CONFIG_IN_POD
from tasks.store import RunDirectory

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
# Kubernetes limits names to 63 characters. JobSet names pods NAME-slice-job-255-9999-abcde. xpk allows 40 for NAME.
NAME_LENGTH = 63 - len("-slice-job-255-9999-abcde")
_NAME = re.compile(r"-{0,2}[A-Za-z_][\w.-]*")  # the key in an argument KEY=VALUE
_OTHER = re.compile(r"[^a-z0-9]+")
_ATTEMPT = re.compile(r"-a(\d+)\Z")
_FAMILY_LENGTH = NAME_LENGTH - len("-a9999")


def family_of(plan: RunPlan) -> str:
    """Return the common prefix of the workload names of a run's attempts: case, arm, repeat and a digest.

    The digest includes the output folder, because the same run in another folder is another job.
    """
    digest = hashlib.sha256(f"{plan.identity}\0{plan.directory}".encode()).hexdigest()[:10]
    words = _OTHER.sub("-", f"{plan.case}-{plan.arm}-r{plan.repeat}".lower()).strip("-")
    if not words[:1].isalpha():
        words = f"c{words}"
    return f"{words[: _FAMILY_LENGTH - len(digest) - 1].rstrip('-')}-{digest}"


def name_attempt(family: str, attempt: int) -> str:
    """Return an attempt's workload name: `[a-z]([-a-z0-9]*[a-z0-9])?`, at most NAME_LENGTH characters."""
    return family if attempt == 1 else f"{family}-a{attempt}"


def attempt_of(name: str, family: str) -> int | None:
    """Return a workload's attempt number in a family; None if the workload belongs to another family."""
    if name == family:
        return 1
    found = _ATTEMPT.fullmatch(name.removeprefix(family)) if name.startswith(family) else None
    return int(found[1]) if found else None


def attempts_of(api: KubeApi, family: str) -> list[tuple[int, str]]:
    """Return (attempt number, name) of every existing workload of a run."""
    names = [str(item["metadata"]["name"]) for item in api.jobsets()]
    return [(number, name) for name in names if (number := attempt_of(name, family)) is not None]


def as_pods_see(plan: RunPlan, directory: RunDirectory, extra_argv: tuple[str, ...]) -> tuple[RunPlan, tuple[str, ...]]:
    """Return the plan and its extra arguments with bucket addresses in place of the working copy's paths.

    Returns both unchanged if the store is not in a bucket.
    """
    mirror = directory.mirror
    if mirror is None:
        return plan, extra_argv
    here, there = str(mirror.folder), mirror.files.root.rstrip("/")

    def move[T](value: T) -> T | str:
        if isinstance(value, str) and (value == here or value.startswith(f"{here}/")):
            return there + value[len(here) :]
        return value

    def move_word(word: str) -> str:
        key, equals, value = word.partition("=")  # KEY=PATH, as in MaxText's arguments
        return f"{key}={move(value)}" if equals and _NAME.fullmatch(key) else str(move(word))

    config = {key: move(value) for key, value in plan.config.items()}
    words = tuple(move_word(word) for word in plan.argv)
    return plan.model_copy(update={"config": config, "argv": words}), tuple(map(move_word, extra_argv))


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
        *settings.extra,
        f"--command={command}",
    ]


def xpk_environment(caller: dict[str, str]) -> dict[str, str]:
    """Return xpk's environment: the caller's without maxview's own variables; telemetry and downloads are disabled."""
    kept = {name: value for name, value in caller.items() if not is_own(name)}
    return kept | {"TELEMETRY_ENABLED": "false", "DEPENDENCY_AUTO_DOWNLOAD": "false", "PIP_NO_INDEX": "1"}


def create_workload(argv: Sequence[str], exists: Callable[[], bool]) -> None:
    """Run xpk until the workload exists. Raises LaunchError with the end of xpk's output.

    Retries after an outage, and once if the first attempt is denied. exists: returns whether the workload exists; xpk's
    exit code does not decide, because xpk may fail after it created the workload.
    """
    missing = list(missing_tools([word for word in argv if word]))
    if missing:
        raise LaunchError("; ".join(missing))
    deadline = time.monotonic() + poll_job.PATIENCE_S
    for attempt in count():
        code, said = run_xpk(argv)
        if poll_job.retry_outages(exists):
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
