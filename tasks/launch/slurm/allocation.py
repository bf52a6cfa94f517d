"""Lets the runs of a comparison take turns in one allocation, so that both arms run on the same nodes."""

import hashlib
import shlex
import sys
from pathlib import Path

from configs.backends.slurm import Slurm
from tasks.launch.patience import retry_outages
from tasks.launch.slurm import turns
from tasks.launch.slurm.client import JobState, find_jobs, read_job, submit
from tasks.launch.slurm.handle import SlurmHandle
from tasks.launch.slurm.script import submit_environment, submit_options
from tasks.records.plan import RunPlan

ALLOCATION = "allocation.txt"  # the job's output, in the folder of its turns
IDLE_S = 120  # until an allocation without runs ends; between two runs a flow verifies checkpoints and reads the log


def allocation_folder(plan: RunPlan) -> Path:
    """Return the folder through which the runs of a comparison on a target get their turns."""
    digest = hashlib.sha256(f"{plan.comparison}\0{plan.target}\0{plan.launch!r}".encode()).hexdigest()[:10]
    return Path(plan.directory).parent.parent / "allocations" / f"{plan.comparison}-{digest}"


def find_allocation(plan: RunPlan, settings: Slurm, seconds: float) -> int:
    """Return the number of the job whose allocation the comparison's runs share; submit it if there is none."""
    folder = allocation_folder(plan)
    folder.mkdir(parents=True, exist_ok=True)
    name, output = f"maxview-{folder.name}", folder / ALLOCATION
    for job in retry_outages(lambda: find_jobs(name)):
        if not job.over and job.output == str(output):
            return job.job_id
    words = [sys.executable, "-I", "-S", turns.__file__, str(folder), str(IDLE_S)]
    options = submit_options(settings, name, output, seconds)
    return submit(options, f"#!/bin/bash\nexec {shlex.join(words)}\n", submit_environment(plan), str(output))


def read_run(handle: SlurmHandle) -> JobState | None:
    """Return the state of a run; None if SLURM has forgotten its job. Raises NotAnswering, LaunchError.

    A turn that has ended is COMPLETED, a turn that has not begun PENDING.
    """
    assert handle.job_id is not None  # `jobs.py` looks it up
    turn = Path(handle.turn)
    has_ended = bool(handle.turn) and turn.with_suffix(".ended").exists()  # looked at before the allocation
    job = read_job(handle.job_id)
    if job is not None and job.output not in ("", str(turn.parent / ALLOCATION) if handle.turn else handle.output):
        job = None  # slurmctld may give a number again after it was killed
    if has_ended:
        return (job or JobState(job_id=handle.job_id, state="")).replace(state="COMPLETED")
    if job is None or not handle.turn:
        return job
    if job.state in ("COMPLETED", "FAILED", "TIMEOUT"):
        return job.replace(state="AllocationEnded")
    return job.replace(state="PENDING", reason="Turn") if turn.exists() else job


def find_turns(handle: SlurmHandle) -> list[Path]:
    """Return the scripts of a run's turns that have not ended, under the names with which they were written."""
    folder, end = Path(handle.turn).parent, f"-{handle.job_name}"
    begun = [path.with_suffix(".sh") for path in folder.glob(f"*{end}.*") if path.suffix in (".sh", ".taken")]
    return [path for path in begun if not path.with_suffix(".ended").exists()]


def end_turn(turn: Path) -> None:
    """Let the allocation end a turn by SIGTERM, or withdraw it if it has not begun."""
    turn.with_suffix(".cancel").touch()
    turn.unlink(missing_ok=True)
