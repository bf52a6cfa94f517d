"""Makes a run note the lines that it executes, and start from the other arm's first state; reads both reports.

An arm is one of the two compared versions of a trainer. The runs of one arm store their start, and the runs of the
other arm use it.
"""

import json
from pathlib import Path

from configs.backends import settings_model
from configs.trainers import find_kind
from tasks.observe.ran_lines import read_ran_lines
from tasks.observe.recorder import prepare_recorder
from tasks.records.change import RanLines
from tasks.records.plan import RunPlan
from tasks.records.run import RESTORED, START_FILE, START_FOLDER, StartReport


def with_recorder(plan: RunPlan) -> RunPlan:
    """Return a run's plan with the variables of the recorder.

    It notes the executed lines of the plan's checkout; with `start`, it stores the run's start or uses the other arm's.
    plan.directory must exist. A plan without both, or without access to this folder, is returned unchanged.
    """
    observed = plan.start or plan.checkout or find_kind(plan.trainer).takes_command
    if not observed or not settings_model(plan.backend).shares_files:
        return plan
    folder = Path(plan.directory) / START_FOLDER
    folder.mkdir(exist_ok=True)
    source = plan.start.taken_from if plan.start is not None else None
    start = str(Path(plan.directory).parent / source / START_FOLDER) if source else None
    changed = (plan.version.different or ()) if plan.version is not None else ()
    metered = plan.start is None and find_kind(plan.trainer).takes_command
    variables = prepare_recorder(
        folder, plan.environment, start=start, lines_only=plan.start is None and not metered, root=plan.source or "",
        changed=changed, meter=metered, end_after=plan.files.end_after,
    )  # fmt: skip
    return plan.replace(environment={**plan.environment, **variables})


def read_ran(plan: RunPlan) -> RanLines | None:
    """Return the lines that a run executed; None without a checkout."""
    if plan.checkout is None:
        return None
    if not settings_model(plan.backend).shares_files:
        return RanLines(problem="its runs are in pods, which have no common folder")
    folder = Path(plan.directory)
    return read_ran_lines([folder / START_FOLDER, *(folder / RESTORED / name for name in ("saves", "restores"))])


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
