"""Runs a plan's command a second time, outside of a job: in another folder, and waiting for its end."""

import time
from pathlib import Path

from tasks.launch.local import process_group
from tasks.records import RunPlan

POLL_S = 0.2


def run_to_end(plan: RunPlan, log: Path) -> None:
    """Run the plan's command until it exits; its output goes to `log`. Raises LaunchError if it cannot start.

    The command may also write to the log's folder. If waiting is interrupted, its process group is ended.
    """
    handle = process_group.launch(plan, log, writable=(log.parent.absolute(),))
    try:
        while process_group.is_alive(handle):
            time.sleep(POLL_S)
    finally:
        process_group.stop(handle)


def move_plan(plan: RunPlan, runs: Path) -> RunPlan:
    """Return the plan with `runs` in place of the store's folder of runs, in all paths, arguments and settings."""
    old, new = str(Path(plan.directory).parent), str(runs)

    def moved(text: str) -> str:
        return text.replace(old, new)

    return plan.model_copy(
        update={
            "directory": moved(plan.directory),
            "argv": tuple(map(moved, plan.argv)),
            "environment": {name: moved(text) for name, text in plan.environment.items()},
            "config": {key: moved(value) if isinstance(value, str) else value for key, value in plan.config.items()},
        }
    )
