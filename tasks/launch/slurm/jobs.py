"""The backend that runs jobs on a SLURM cluster, and restarts a job after it lost its nodes."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from etils import epath

from tasks.launch import patience
from tasks.launch.backend import LaunchError, Restarted
from tasks.launch.job import has_checkpoint
from tasks.launch.logs import open_locked, read_exit_code, rename_earlier_log
from tasks.launch.patience import retry_outages
from tasks.launch.slurm.allocation import allocation_folder, end_turn, find_allocation, find_turns, read_run
from tasks.launch.slurm.attempt import Attempt
from tasks.launch.slurm.check import check_pyxis
from tasks.launch.slurm.client import CAUSE_KINDS, Refused, cancel, find_jobs, read_job, submit
from tasks.launch.slurm.handle import SlurmHandle
from tasks.launch.slurm.script import submit_environment, submit_options, write_script
from tasks.launch.slurm.settings import Slurm
from tasks.records import RunPlan
from tasks.store import RunDirectory
from tasks.store.atomic import write_atomically

END_S = 120.0  # longest wait for a job's end after scancel; longer than KillWait. On a lost node it never ends
# types of causes after which a run is restarted
TAKEN = {name for name, kind in CAUSE_KINDS.items() if kind == "preempted"}


class OnSlurm:
    """Runs jobs by sbatch. Their state is SLURM's, so a flow needs only the handle to continue."""

    here = True

    def find_checkpoint(self, plan: RunPlan, directory: RunDirectory, step: int) -> epath.Path:
        return epath.Path(directory.path / str(plan.files.checkpoints) / str(step))

    def launch(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        *,
        extra_argv: tuple[str, ...] = (),
        keep: Callable[[SlurmHandle], Any] = lambda _: None,
        tries: int = 1,
    ) -> SlurmHandle:
        """Return once SLURM has the job; it may not run yet. tries: number of this start; 1: not a restart."""
        settings = settings_of(plan)
        check_pyxis(settings)
        os.close(open_locked(directory.log))
        rename_earlier_log(directory.log)
        output = next(path for n in count(1) if not (path := directory.path / f"slurm-{n}.txt").exists())
        name = name_job(plan)
        handle = SlurmHandle(
            backend="slurm", job_name=name, log=str(directory.log), output=str(output), created=time.time(),
            turn=str(allocation_folder(plan) / f"{time.time_ns()}-{name}.sh") if settings.allocation_s else "",
            tries=tries, extra_argv=extra_argv,
        )  # fmt: skip
        keep(handle)
        script = write_script(plan, settings, output, extra_argv)
        try:
            if settings.allocation_s:
                handle = handle.model_copy(update={"job_id": find_allocation(plan, settings, settings.allocation_s)})
                keep(handle)
                write_atomically(Path(handle.turn), script)
                return handle
            options = submit_options(settings, name, output, plan.time_limit_s)
            job_id = submit(options, script, submit_environment(plan), str(output))
            handle = handle.model_copy(update={"job_id": job_id})
            keep(handle)
        except Refused:
            raise
        except BaseException:  # sbatch may have submitted the job before it failed
            self.stop(handle)
            raise
        return handle

    def attach(self, plan: RunPlan, directory: RunDirectory, handle: SlurmHandle | None) -> SlurmHandle | None:
        if handle is None:
            return None
        found = with_job(handle)
        state = None if found.job_id is None else retry_outages(partial(read_run, found))
        runs = state is not None and not state.over
        succeeded = 0 in (read_exit_code(Path(handle.output)), read_exit_code(directory.log))
        if (runs and Path(handle.output).parent == directory.path) or succeeded:
            directory.write_handle(found)
            return found
        self.stop(found)
        return None

    def has_ended(self, handle: SlurmHandle) -> bool:
        return not find_running(handle)

    def stop(self, handle: SlurmHandle) -> None:
        """End every start of the run. Raises LaunchError if SLURM cannot be reached."""
        asked: set[int | Path] = set()
        try:
            deadline = time.monotonic() + END_S
            while (running := retry_outages(lambda: find_running(handle))) and time.monotonic() < deadline:
                for one in running:
                    if one not in asked:
                        retry_outages(partial(end_turn if isinstance(one, Path) else cancel, one))  # type: ignore[arg-type]
                asked |= set(running)
                time.sleep(patience.LOOK_EVERY_S / 4)
        except LaunchError as error:
            remedy = f"`scancel --name={handle.job_name}` ends it"
            raise LaunchError(f"{error}; the job may still run, {remedy}") from error

    def follow(
        self, plan: RunPlan, directory: RunDirectory, handle: SlurmHandle, *, poll_s: float
    ) -> Iterator[bytes | Restarted]:
        settings = settings_of(plan)
        while True:
            handle = with_job(handle)
            cause = yield from Attempt(settings, directory, handle).follow(poll_s)
            if cause is None:
                return
            self.stop(handle)  # if it waits in vain, or if SLURM has requeued it
            if cause.type not in TAKEN or handle.tries >= settings.attempts:
                return
            directory.check_claim()
            again = plan.files.resume if has_checkpoint(plan, directory) else ()
            extra = handle.extra_argv if handle.extra_argv[-len(again) :] == again else (*handle.extra_argv, *again)
            handle = self.launch(plan, directory, extra_argv=extra, keep=directory.write_handle, tries=handle.tries + 1)
            yield Restarted(job_name=handle.job_name, attempt=handle.tries, cause=cause)


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
    return handle.model_copy(update={"job_id": found[-1].job_id}) if found else handle


def settings_of(plan: RunPlan) -> Slurm:
    """Return the settings of a plan for SLURM. Raises LaunchError for another backend's plan."""
    if not isinstance(plan.launch, Slurm):
        raise LaunchError(f"{plan.run_name}: its plan names no partition")
    return plan.launch
