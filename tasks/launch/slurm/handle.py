"""The handle of a run on a SLURM cluster."""

from typing import Literal

from tasks.records.plan import RunHandle


class SlurmHandle(RunHandle):
    """A run on a SLURM cluster: a job, or a turn in the allocation of a job."""

    backend: Literal["slurm"]
    job_id: int | None = None  # of the job, or of the allocation; None: sbatch has not returned
    output: str  # path of the file into which the job writes its log; no other job has the same
    turn: str = ""  # path of the turn's script, see `turns.py`; "": the run is a job of its own
    created: float  # time of the launch, seconds since the epoch
    tries: int = 1  # number of this start: 1, and one more after each restart by `follow`
    extra_argv: tuple[str, ...] = ()  # the trainer's arguments after the plan's


HANDLE = SlurmHandle
