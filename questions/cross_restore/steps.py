"""The step that lets one arm restore the other arm's checkpoint, as a Prefect task."""

from collections.abc import Sequence

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from questions.cross_restore.cross_maxtext import find_source_plan, restore_across
from tasks.launch.backend import LaunchedRun
from tasks.launch.logs import read_exit_code
from tasks.records.plan import RunPlan


@task(name="cross restore", task_run_name="cross restore {run.plan.arm} {run.plan.case}", cache_policy=NO_CACHE)
def cross_restore_step(run: LaunchedRun, before: RunPlan) -> None:
    """Restore a checkpoint of `before`, the other arm's preceding run, with this run's trainer; store the result."""
    found = restore_across(run.plan, before)
    run.directory.write_crossing(found)
    get_run_logger().info("%s", found.evidence)


def restore_after_run(run: LaunchedRun, among: Sequence[RunPlan]) -> None:
    """Make the step for the first repeat, if the run succeeded and both runs train MaxText here with checkpoints."""
    before = find_source_plan(run.plan, among)
    if before is not None and run.plan.repeat == 0 and read_exit_code(run.directory.log) == 0:
        cross_restore_step(run, before)
