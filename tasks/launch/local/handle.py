"""The handle of a run on this machine."""

from typing import Literal

from tasks.records.handle import RunHandle, StartedProcess


class LocalHandle(RunHandle, StartedProcess):
    """A run on this machine: a trainer, or a replayed log, under a supervisor, which is the process."""

    backend: Literal["local", "replay"]
    host: str = ""  # the machine's name: pids of other machines do not apply


HANDLE = LocalHandle
