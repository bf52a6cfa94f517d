"""A launched run's handle, its job's status, and the platform's reason for ending it."""

from typing import Literal

from configs.launch import RunHandle as RunHandle
from configs.schema import Frozen


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
