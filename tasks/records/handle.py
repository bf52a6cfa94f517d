"""A launched run: where it lives, and how its job is doing."""

from typing import Annotated, Literal

from pydantic import Field

from configs.schema import Frozen


class LocalHandle(Frozen):
    """A run on this machine: a trainer, or a stored log that is played, under a supervisor."""

    backend: Literal["local", "replay"]
    job_name: str
    pid: int  # the supervisor, leader of the run's process group
    created: float  # the supervisor's start in seconds since `boot`: a reused pid is not the same process
    boot: str = ""  # the machine's boot
    host: str = ""  # where it runs: another machine's numbers mean nothing here
    log: str


class XpkHandle(Frozen):
    """A run on a cluster: a workload that xpk created."""

    backend: Literal["xpk"]
    job_name: str  # of the workload, which is the name of its JobSet
    family: str  # what the names of all attempts of the run begin with
    namespace: str
    context: str | None  # of the kubeconfig; None: the credentials of the pod that the flow runs in
    created: float  # when it was asked for, in seconds since the epoch
    tries: int = 1  # counted up whenever the platform took the run's machines away and it was started again
    extra_argv: tuple[str, ...] = ()  # what the trainer was given beyond the plan's words
    grace_s: int = 60  # from SIGTERM to SIGKILL
    log: str  # where the log is gathered


# Where a launched run lives: enough to attach to it again after the flow died.
type RunHandle = Annotated[LocalHandle | XpkHandle, Field(discriminator="backend")]


class JobCause(Frozen):
    """Why the platform, and not the trainer, ended a job, e.g. type "Preempted"."""

    type: str
    message: str


class JobStatus(Frozen):
    """How a job is doing: waiting for machines, running, or over."""

    state: Literal["queued", "running", "ended"]
    exit_code: int | None = None  # the trainer's own; None before its end, and where nobody knows it
    cause: JobCause | None = None
    queued_s: float | None = None  # until its processes started
    ran_s: float | None = None  # from there to the end
