"""Turns a plan into the words of `xpk workload create`: a name, one line for the pods' shell, and everything else."""

import base64
import hashlib
import re
import shlex

from configs.environment import is_own
from configs.launch import Xpk
from tasks.records import RunPlan
from tasks.resolve.commands import CONFIG_IN_POD

NAME_LENGTH = 40  # xpk refuses more
_OTHER = re.compile(r"[^a-z0-9]+")
_ATTEMPT = re.compile(r"-a(\d+)\Z")
_FAMILY_LENGTH = NAME_LENGTH - len("-a99")


def family_of(plan: RunPlan) -> str:
    """What the names of all attempts of a run begin with: case and arm for people, then what makes it unique.

    The same run in another output folder is another job, so the folder is part of it.
    """
    digest = hashlib.sha256(f"{plan.identity}\0{plan.directory}".encode()).hexdigest()[:10]
    words = _OTHER.sub("-", f"{plan.case}-{plan.arm}-r{plan.repeat}".lower()).strip("-")
    if not words[:1].isalpha():
        words = f"c{words}"
    return f"{words[: _FAMILY_LENGTH - len(digest) - 1].rstrip('-')}-{digest}"


def name_attempt(family: str, attempt: int) -> str:
    """The workload's name of one attempt; matches `[a-z]([-a-z0-9]*[a-z0-9])?` and has at most 40 characters."""
    return family if attempt == 1 else f"{family}-a{attempt}"


def attempt_of(name: str, family: str) -> int | None:
    """Which attempt of a family a workload is; None if it is of another."""
    if name == family:
        return 1
    found = _ATTEMPT.fullmatch(name.removeprefix(family)) if name.startswith(family) else None
    return int(found[1]) if found else None


def quote(word: str) -> str:
    """A word for bash on one line: xpk pastes it into YAML, where a line break or a control character ends badly."""
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}" for byte in word.encode()
    )
    return f"$'{escaped}'"


def shell_line(plan: RunPlan, config: str, extra_argv: tuple[str, ...]) -> str:
    """One line of bash that unpacks the run's config and then *becomes* the trainer.

    Nothing stands between xpk's wrapper and the trainer, so that SIGTERM reaches it and its exit code is the pod's. The
    config travels in the line itself: the pod needs no access to the place where the plan was made.
    """
    packed = base64.b64encode(config.encode()).decode()
    folder = CONFIG_IN_POD.rpartition("/")[0]
    variables = {"PYTHONUNBUFFERED": "1"} | plan.environment
    words = ["env", *(f"{name}={value}" for name, value in variables.items()), *plan.argv, *extra_argv]
    return (
        f"mkdir -p {folder} && echo {packed} | base64 -d > {CONFIG_IN_POD} && exec {' '.join(quote(w) for w in words)}"
    )


def create_argv(plan: RunPlan, settings: Xpk, name: str, command: str) -> list[str]:
    """`xpk workload create` for one attempt. Restarts are ours to decide, so xpk makes none."""
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
    """The caller's environment for xpk, less what is maxview's own: no telemetry, no downloads of tools on the way."""
    kept = {name: value for name, value in caller.items() if not is_own(name)}
    return kept | {"TELEMETRY_ENABLED": "false", "DEPENDENCY_AUTO_DOWNLOAD": "false", "PIP_NO_INDEX": "1"}
