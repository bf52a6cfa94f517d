"""The step that checks what a run's program restores of what it saves, as a Prefect task."""

from collections.abc import Sequence

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from questions.restores.restore_of_run import can_check, check_restore
from tasks.launch.backend import LaunchedRun
from tasks.records.plan import RunPlan


@task(
    name="check the restore", task_run_name="check the restore of {run.plan.arm} {run.plan.case}", cache_policy=NO_CACHE
)
def check_restore_step(run: LaunchedRun) -> None:
    """Start the run's program again where it saved, and store what it restored."""
    found = check_restore(run.plan)
    run.directory.write_restored(found)
    get_run_logger().info("restored by %s: %s", run.plan.arm, found.summary)


def check_after_run(run: LaunchedRun, among: Sequence[RunPlan]) -> None:
    """Make the step if the question arises, so that the flow's graph has no empty tasks."""
    if can_check(run):
        check_restore_step(run)
