"""The handle of a run on a SLURM cluster."""

from typing import Literal

from tasks.launch.queued_handle import QueuedHandle


class SlurmHandle(QueuedHandle):
    """A run on a SLURM cluster: a job, or a turn in the allocation of a job."""

    backend: Literal["slurm"]
    job_id: int | None = None  # of the job, or of the allocation; None: sbatch has not returned
    output: str  # path of the file into which the job writes its log; no other job has the same
    turn: str = ""  # path of the turn's script, see `turns.py`; "": the run is a job of its own

    @property
    def command_to_end(self) -> str:
        return f"scancel --name={self.job_name}"


HANDLE = SlurmHandle
