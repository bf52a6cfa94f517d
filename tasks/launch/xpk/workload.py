"""Builds the arguments of `xpk workload create` from a plan: a name, one shell line for the pods, and options."""

import base64
import hashlib
import re
import shlex

from configs.environment import is_own
from tasks.launch.xpk.settings import Xpk
from tasks.records import RunPlan
from tasks.resolve.commands import CONFIG_IN_POD

# Kubernetes limits names to 63 characters. JobSet names pods NAME-slice-job-255-9999-abcde. xpk allows 40 for NAME.
NAME_LENGTH = 63 - len("-slice-job-255-9999-abcde")
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
    """Return the `xpk workload create` command of one attempt. It forbids restarts by xpk, because maxview restarts."""
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
