"""Rewrites a plan's paths to another folder, and runs a plan's command to its end."""

import time
from pathlib import Path

from tasks.launch.local import process_group
from tasks.records import RunPlan

POLL_S = 0.2


def run_to_end(plan: RunPlan, log: Path) -> None:
    """Run the plan's command until it exits; its output goes to `log`. Raises LaunchError if it cannot start.

    The command may also write to the folder of the log. An exception while waiting stops the process group.
    """
    handle = process_group.launch(plan, log, writable=(log.parent.absolute(),))
    try:
        while process_group.is_alive(handle):
            time.sleep(POLL_S)
    finally:
        process_group.stop(handle)


def move_plan(plan: RunPlan, runs: Path) -> RunPlan:
    """Return the plan with the folder `runs` instead of the store's, in all its paths, arguments and settings."""
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
