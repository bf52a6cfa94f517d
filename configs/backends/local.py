"""Jobs as processes of this machine."""

from typing import ClassVar, Literal

from configs.backends.settings import Settings
from configs.schema import Frozen


class Local(Settings):
    """This machine; it needs no settings."""

    trains_here: ClassVar[bool] = True

    backend: Literal["local"] = "local"


class LocalHandle(Frozen):
    """A run on this machine: a trainer, or a replayed log, under a supervisor."""

    backend: Literal["local", "replay"]
    job_name: str
    pid: int  # the supervisor, leader of the run's process group
    created: float  # the supervisor's start in seconds since `boot`: a reused pid is not the same process
    boot: str = ""  # the machine's boot
    host: str = ""  # the machine's name: pids of other machines do not apply
    log: str
