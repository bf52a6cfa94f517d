"""Names the jobs of a run's attempts, and shows a run's plan as its pods see it."""

import hashlib
import re
from typing import TYPE_CHECKING

from configs.backends.cluster import ClusterSettings
from tasks.launch.backend import LaunchError
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory

if TYPE_CHECKING:
    from tasks.launch.cluster.kube import KubeApi

SLICE_JOB = "slice-job"  # name of the replicated job in each JobSet
# Kubernetes limits names to 63 characters. JobSet names pods NAME-slice-job-255-9999-abcde.
NAME_LENGTH = 63 - len(f"-{SLICE_JOB}-255-9999-abcde")
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


def attempts_of(api: "KubeApi", family: str) -> list[tuple[int, str]]:
    """Return (attempt number, name) of every existing workload of a run."""
    names = [str(item["metadata"]["name"]) for item in api.jobsets()]
    return [(number, name) for name in names if (number := attempt_of(name, family)) is not None]


def check_out(plan: RunPlan, settings: ClusterSettings, directory: RunDirectory) -> None:
    """Raise LaunchError if the run's pods cannot write into its folder."""
    if not settings.shared_out and not directory.place.reaches_pods:
        raise LaunchError(
            f"pods cannot write to {plan.directory}: choose --out gs://BUCKET/FOLDER, or set `shared_out: true` in "
            "the target if pods mount this folder at the same path"
        )


def as_pods_see(plan: RunPlan, directory: RunDirectory, extra_argv: tuple[str, ...]) -> tuple[RunPlan, tuple[str, ...]]:
    """Return the plan and its extra arguments with bucket addresses in place of the working copy's paths.

    Returns both unchanged if the store is not in a bucket.
    """
    move = directory.place.translate

    def move_word(word: str) -> str:
        key, equals, value = word.partition("=")  # KEY=PATH, as in MaxText's arguments
        return f"{key}={move(value)}" if equals and _NAME.fullmatch(key) else move(word)

    config = {key: move(value) if isinstance(value, str) else value for key, value in plan.config.items()}
    words = tuple(move_word(word) for word in plan.argv)
    return plan.replace(config=config, argv=words), tuple(map(move_word, extra_argv))
