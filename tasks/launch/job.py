"""Starts, follows and ends jobs by the backend of their plan, and attaches to an earlier flow's job.

A job executes one planned run. An arm is one of the two compared versions; its run may restore the other arm's
checkpoint, as a proof that both arms save the same state.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from etils import epath

from configs.backends import BACKENDS, settings_model
from configs.comparison import Target
from configs.errors import ConfigError
from tasks.launch.backend import WITHOUT, LaunchedRun, LaunchError, Restarted
from tasks.launch.known_backends import backend_of, launcher_of, read_handle
from tasks.launch.patience import retry_outages
from tasks.observe.kept_program import program_variables
from tasks.observe.shared_start import with_recorder
from tasks.records.plan import RunHandle, RunPlan
from tasks.resolve.checkout import check_checkout
from tasks.resolve.trainers import trainer_class
from tasks.store.directories import RunDirectory
from tasks.store.locks import hold
from tasks.store.store import Store
from tasks.verify.layout import TMP_MARK

POLL_S = 0.2  # between checks of the lock, the log or the job
LOCK = ".launch"  # file in the run's folder


def find_obstacles(target: Target, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the obstacles to runs on the target, each with its remedy. Connects to the target's cluster, if any."""
    try:
        settings = target.launch_settings(environ)
    except ConfigError as error:
        yield from error.problems
        return
    try:
        yield from launcher_of(target.backend).find_obstacles(settings)
    except LaunchError as error:
        yield str(error)


def check_target(plans: Sequence[RunPlan], store: Store) -> None:
    """Raise LaunchError if new jobs of the plans cannot run on their target. Connects to the target's cluster, if any.

    Called before the first compile. Finished runs, and jobs that an earlier flow has launched, are not checked.
    """
    new = [plan for plan in plans if read_handle(store.run(plan.run_name)) is None]
    for plan in new[:1]:
        launcher = launcher_of(plan.backend)
        obstacles = retry_outages(lambda: list(launcher.find_obstacles(plan.launch)))  # noqa: B023  # called at once
        if problems := [problem for problem in obstacles if WITHOUT not in problem]:
            raise LaunchError("; ".join(problems))
        if launcher.manifest is not None:
            launcher.manifest(plan, store.run(plan.run_name))


def write_manifest(plan: RunPlan, directory: RunDirectory) -> str:
    """Return the text that the plan's backend would submit. Raises ConfigError if there is none."""
    manifest = launcher_of(plan.backend).manifest
    if manifest is None:
        known = " or ".join(name for name in BACKENDS if launcher_of(name).manifest is not None)
        raise ConfigError(
            [f"{plan.target}: jobs of the backend {plan.backend} have no manifest; those of {known} have"]
        )
    try:
        return manifest(with_recording(plan), directory)
    except LaunchError as error:
        raise ConfigError([str(error)]) from error


def launch_or_attach(plan: RunPlan, directory: RunDirectory, *, continue_from: Path | None = None) -> LaunchedRun:
    """Start the plan's job, or attach to an earlier flow's job if it still runs or has succeeded.

    A started job resumes from the checkpoint of an earlier attempt, if there is one.
    `continue_from`: folder of the other arm's run, whose checkpoint the trainer restores as a proof; None: no proof.
    Raises LaunchError, StoreError, CheckoutError.
    """
    directory.create()
    backend = backend_of(plan.backend)
    # Of two concurrent callers, one launches the job and the other attaches to it.
    with hold(directory.path / LOCK, lambda _: time.sleep(POLL_S)):
        earlier: RunHandle | None = backend.attach(plan, directory, read_handle(directory))
        if earlier is not None:
            return LaunchedRun(plan, directory, earlier)
        if plan.checkout is not None and plan.commit is not None:
            check_checkout(plan.checkout, plan.commit)
        extra = ("--continue-from", str(continue_from)) if continue_from else ()
        if has_checkpoint(plan, directory):
            extra = (*extra, *plan.files.resume)

        def keep(handle: RunHandle) -> None:
            directory.write_plan(plan)
            directory.write_config(plan)
            directory.write_handle(handle)

        return LaunchedRun(
            plan, directory, backend.launch(with_recording(plan), directory, extra_argv=extra, keep=keep)
        )


def with_recording(plan: RunPlan) -> RunPlan:
    """Return the plan with the variables that make its trainer record its program and lines, and share its start."""
    plan = with_recorder(plan)
    return plan.replace(environment={**plan.environment, **program_variables(plan)})


def has_checkpoint(plan: RunPlan, directory: RunDirectory) -> bool:
    """Return whether an earlier attempt left a checkpoint on this machine that Orbax has not marked as incomplete."""
    folder = directory.checkpoints_of(plan)
    return folder is not None and folder.is_dir() and any(TMP_MARK not in path.name for path in folder.iterdir())


def is_here(plan: RunPlan) -> bool:
    """Return whether the plan's job uses this machine's files."""
    return settings_model(plan.backend).shares_files


def find_checkpoint(run: LaunchedRun, step: int) -> epath.Path:
    """Return the path of the run's checkpoint of a step."""
    path = run.directory.path / str(run.plan.files.checkpoints) / str(step)
    return epath.Path(path if is_here(run.plan) else run.directory.place.address_of(path))


def find_source_folder(plan: RunPlan, plans: Sequence[RunPlan], store: Store) -> Path | None:
    """Return the folder of the run in `plans` whose checkpoint the run of `plan` restores; None if there is none.

    A run restores the preceding run's checkpoint if that run is of the other arm and both arms use maxview's trainer.
    If the first run died, the second run had no checkpoint to restore. If then only the first run is repeated, the
    first run restores the second run's checkpoint.
    """
    index = plans.index(plan)
    if index > 0:
        before = plans[index - 1]
        return store.run(before.run_name).path if proves_by_restoring(plan, before) else None
    behind = plans[1] if len(plans) > 1 and proves_by_restoring(plans[1], plan) else None
    if behind is None:
        return None
    directory = store.run(behind.run_name)
    record = directory.read_record()
    if record is not None and not record.is_finished:  # the second run is repeated later, and then restores
        return None
    # If the flow was killed, there is no record: read the file that the trainer wrote.
    program = record.program if record is not None else directory.read_program()
    crossing = (program or {}).get("cross_restore")
    could_not_try = isinstance(crossing, dict) and crossing.get("holds") is None
    return directory.path if could_not_try else None


def proves_by_restoring(plan: RunPlan, before: RunPlan) -> bool:
    """Return whether the run of `plan` restores the checkpoint of the preceding run, whose plan is `before`."""
    alike = plan.arm != before.arm and plan.trainer == before.trainer
    return alike and trainer_class(plan.trainer).reports


def has_ended(handle: RunHandle) -> bool:
    """Return whether the job has ended; a job that waits for its machines has not."""
    return backend_of(handle.backend).has_ended(handle)


def follow(run: LaunchedRun, *, poll_s: float = POLL_S) -> Iterator[bytes | Restarted]:
    """Yield the job's log from start to end, and `Restarted` before a restarted job's log; see `Backend.follow`."""
    return backend_of(run.handle.backend).follow(run.plan, run.directory, run.handle, poll_s=poll_s)


def stop(handle: RunHandle) -> None:
    """End the job and everything that belongs to it, even if the job itself has ended."""
    backend_of(handle.backend).stop(handle)
