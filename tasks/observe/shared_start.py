"""Makes a run start from the other arm's first state and batches, and reads the report about this start.

An arm is one of the two compared versions of a trainer. The runs of one arm store their start, and the runs of the
other arm use it.
"""

import json
from pathlib import Path

from configs.backends import settings_model
from tasks.observe.recorder import prepare_recorder
from tasks.records import RunPlan, StartReport
from tasks.records.run import START_FILE, START_FOLDER


def with_shared_start(plan: RunPlan) -> RunPlan:
    """Return a run's plan with the variables that make its process store its start, or use the other arm's start.

    plan.directory must exist. A plan without `start`, or without access to this folder, is returned unchanged.
    """
    if plan.start is None or not settings_model(plan.backend).shares_files:
        return plan
    folder = Path(plan.directory) / START_FOLDER
    folder.mkdir(exist_ok=True)
    source = plan.start.taken_from
    start = str(Path(plan.directory).parent / source / START_FOLDER) if source else None
    variables = prepare_recorder(folder, plan.environment, start=start)
    return plan.model_copy(update={"environment": {**plan.environment, **variables}})


def read_start(plan: RunPlan) -> StartReport | None:
    """Return the report of a run that should start from the other arm's state; None for other runs."""
    if plan.start is None or plan.start.taken_from is None:
        return None
    if not settings_model(plan.backend).shares_files:
        return StartReport(reason="its runs are in pods, which have no common folder")
    try:
        text = (Path(plan.directory) / START_FOLDER / START_FILE).read_text(encoding="utf-8")
        return StartReport.model_validate(json.loads(text))
    except FileNotFoundError:
        return StartReport(reason="no training step was found in it")
    except (OSError, ValueError) as error:
        return StartReport(reason=f"its report cannot be read: {error}")
