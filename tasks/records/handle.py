"""A launched run's handle, and the platform's reason for a job's end."""

from typing import Annotated, Any

from pydantic import BeforeValidator

from configs.launch import BackendName, find_part
from configs.schema import Frozen


class StartedProcess(Frozen):
    """A process that leads a session, with its start: a later process with the same pid has another one."""

    pid: int
    created: float  # seconds since `boot`
    boot: str = ""  # the machine's boot id


class RunHandle(Frozen):
    """Contains enough to attach to a run again after the flow died; each backend adds its own fields."""

    backend: BackendName
    job_name: str
    log: str  # path of the collected log


def _of_its_backend(value: Any) -> Any:
    return find_part(value.get("backend"), "handle").model_validate(value) if isinstance(value, dict) else value


# A handle read from a file has the class of its backend.
StoredHandle = Annotated[RunHandle, BeforeValidator(_of_its_backend)]


class JobCause(Frozen):
    """The platform's reason for ending a job, e.g. type "Preempted"."""

    type: str
    message: str
