"""The backend that runs jobs on a SLURM cluster."""

import hashlib
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from configs.backends.slurm import Slurm
from tasks.launch import patience
from tasks.launch.logs import read_exit_code
from tasks.launch.patience import retry_outages
from tasks.launch.queued_jobs import QueuedJobs
from tasks.launch.slurm.allocation import allocation_folder, end_turn, find_allocation, find_turns, read_run
from tasks.launch.slurm.attempt import SlurmAttempt
from tasks.launch.slurm.check import check_pyxis
from tasks.launch.slurm.client import CAUSE_KINDS, cancel, find_jobs, read_job, submit
from tasks.launch.slurm.handle import SlurmHandle
from tasks.launch.slurm.script import submit_environment, submit_options, write_script
from tasks.records.plan import RunPlan
from tasks.store.atomic import write_atomically
from tasks.store.directories import RunDirectory

END_S = 120.0  # longest wait for a job's end after scancel; longer than KillWait. On a lost node it never ends


class OnSlurm(QueuedJobs[SlurmHandle]):
    """Runs jobs by sbatch."""

    death_kinds = CAUSE_KINDS

    def prepare(self, plan: RunPlan, directory: RunDirectory, common: dict[str, Any]) -> SlurmHandle:
        settings = settings_of(plan)
        check_pyxis(settings)
        output = next(path for n in count(1) if not (path := directory.path / f"slurm-{n}.txt").exists())
        name = name_job(plan)
        turn = str(allocation_folder(plan) / f"{time.time_ns()}-{name}.sh") if settings.allocation_s else ""
        return SlurmHandle(**common, job_name=name, output=str(output), turn=turn)

    def submit(
        self, plan: RunPlan, directory: RunDirectory, handle: SlurmHandle, keep: Callable[[SlurmHandle], Any]
    ) -> SlurmHandle:
        settings, output = settings_of(plan), Path(handle.output)
        script = write_script(plan, settings, output, handle.extra_argv)
        if settings.allocation_s:
            number = find_allocation(plan, settings, settings.allocation_s)
        else:
            options = submit_options(settings, handle.job_name, output, plan.time_limit_s)
            number = submit(options, script, submit_environment(plan), str(output))
        handle = handle.replace(job_id=number)
        keep(handle)
        if handle.turn:
            write_atomically(Path(handle.turn), script)
        return handle

    def find_usable(self, directory: RunDirectory, handle: SlurmHandle) -> SlurmHandle | None:
        found = with_job(handle)
        state = None if found.job_id is None else retry_outages(partial(read_run, found))
        runs = state is not None and not state.over and Path(handle.output).parent == directory.path
        if not runs and 0 not in (read_exit_code(Path(handle.output)), read_exit_code(directory.log)):
            return None
        directory.write_handle(found)
        return found

    def attempt(self, plan: RunPlan, directory: RunDirectory, handle: SlurmHandle) -> SlurmAttempt:
        return SlurmAttempt(settings_of(plan), directory, with_job(handle), lambda: self.stop(handle))

    def has_ended(self, handle: SlurmHandle) -> bool:
        return not find_running(handle)

    def end(self, handle: SlurmHandle) -> None:
        asked: set[int | Path] = set()
        deadline = time.monotonic() + END_S
        while (running := retry_outages(lambda: find_running(handle))) and time.monotonic() < deadline:
            for one in set(running) - asked:
                retry_outages(partial(end_turn if isinstance(one, Path) else cancel, one))  # type: ignore[arg-type]
            asked |= set(running)
            time.sleep(patience.LOOK_EVERY_S / 4)


def name_job(plan: RunPlan) -> str:
    """Return the name of a run's jobs. It contains a digest of the folder: the run elsewhere is another job."""
    digest = hashlib.sha256(f"{plan.identity}\0{plan.directory}".encode()).hexdigest()[:10]
    return f"{plan.case}-{plan.arm}-r{plan.repeat}-{digest}"


def find_running(handle: SlurmHandle) -> list[int | Path]:
    """Return the numbers of a run's jobs that have not ended, or the scripts of its turns in an allocation."""
    if handle.turn:
        job = None if handle.job_id is None else read_job(handle.job_id)
        return [] if job is None or job.over else [*find_turns(handle)]
    folder = Path(handle.output).parent  # a job of the same name with another folder is not the run's
    return [job.job_id for job in find_jobs(handle.job_name) if not job.over and Path(job.output).parent == folder]


def with_job(handle: SlurmHandle) -> SlurmHandle:
    """Return the handle with its job's number, searched by name if the flow died before sbatch returned it."""
    if handle.job_id is not None or handle.turn:
        return handle
    found = [job for job in retry_outages(lambda: find_jobs(handle.job_name)) if job.output == handle.output]
    return handle.replace(job_id=found[-1].job_id) if found else handle


def settings_of(plan: RunPlan) -> Slurm:
    """Return the settings of a plan for SLURM."""
    assert isinstance(plan.launch, Slurm)
    return plan.launch
