"""The handle of a run on this machine."""

from typing import Literal

from tasks.records.plan import RunHandle, StartedProcess


class LocalHandle(RunHandle, StartedProcess):
    """A run on this machine: a trainer or a replayed log. `pid` is the pid of the run's supervisor."""

    backend: Literal["local", "replay"]
    host: str = ""  # name of the machine on which the pid is valid; "": this machine


HANDLE = LocalHandle
