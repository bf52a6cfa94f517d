"""A launched run's handle, and its job's status."""

from typing import Annotated, Literal

from pydantic import Field

from configs.backends.xpk import XpkHandle
from configs.schema import Frozen


class StartedProcess(Frozen):
    """A process that leads a session, with its start: a later process with the same pid has another one."""

    pid: int
    created: float  # seconds since `boot`
    boot: str = ""  # the machine's boot id


class LocalHandle(StartedProcess):
    """A run on this machine: a trainer, or a replayed log, under a supervisor, which is the process."""

    backend: Literal["local", "replay"]
    job_name: str
    host: str = ""  # the machine's name: pids of other machines do not apply
    log: str


# Contains enough to attach to the run again after the flow died.
type RunHandle = Annotated[LocalHandle | XpkHandle, Field(discriminator="backend")]


class JobCause(Frozen):
    """The platform's reason for ending a job, e.g. type "Preempted"."""

    type: str
    message: str


class JobStatus(Frozen):
    """A job's status: pending, running or ended."""

    state: Literal["queued", "running", "ended"]
    exit_code: int | None = None  # the trainer's; None before its end, or if unknown
    cause: JobCause | None = None
    queued_s: float | None = None  # until its processes started
    ran_s: float | None = None  # from then to the end
