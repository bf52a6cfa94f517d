"""Records of a launched run: its handle, its process, and the platform's reason for ending the job."""

from typing import Annotated, Any

from pydantic import BeforeValidator

from configs.launch import BackendName, find_part
from configs.schema import Frozen


class StartedProcess(Frozen):
    """A session leader with its start time, which differs from that of a later process with the same pid."""

    pid: int
    created: float  # start time in seconds since the boot on Linux, else since 1970
    boot: str = ""  # the machine's boot id; empty if not Linux


class RunHandle(Frozen):
    """The data for attaching to a run after the flow that launched it died. Each backend adds its own fields."""

    backend: BackendName
    job_name: str  # name of the job on its platform
    log: str  # path of the collected log


def _of_its_backend(value: Any) -> Any:
    return find_part(value.get("backend"), "handle").model_validate(value) if isinstance(value, dict) else value


# Validates a stored handle as the `RunHandle` subclass of its backend.
StoredHandle = Annotated[RunHandle, BeforeValidator(_of_its_backend)]


class JobCause(Frozen):
    """The platform's reason for ending a job, e.g. type "Preempted"."""

    type: str
    message: str
