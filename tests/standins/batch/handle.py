"""The handle of a batch job."""

from typing import Literal

from tasks.records.plan import RunHandle


class BatchHandle(RunHandle):
    """A batch job; `pid` is its number."""

    backend: Literal["batch"]
    pid: int


HANDLE = BatchHandle
