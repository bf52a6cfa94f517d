"""The handle of a run that is a process on a machine, not a workload on a cluster."""

from typing import Literal

from tasks.records.plan import RunHandle, StartedProcess


class LocalHandle(RunHandle, StartedProcess):
    """A run on the machine `host`. `pid` is the pid of the run's supervisor."""

    backend: Literal["local"]
    host: str = ""  # name of the machine on which the pid is valid; "": this machine


HANDLE = LocalHandle
