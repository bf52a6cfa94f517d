"""Runs a trainer whose programs return zeros at once, to see what its host does without them."""

import shutil
from pathlib import Path
from typing import Any

from tasks.experiments.observe_arm import end_after, make_run_folder
from tasks.launch.backend import LaunchError
from tasks.launch.local.process_group import run_to_end
from tasks.observe.recorder import explain_missing_step, prepare_recorder
from tasks.records.observation import LOG
from tasks.records.plan import RunPlan
from tasks.store.documents import load_json, read_document

TAKES_STEPS = ("maxview", "maxtext")  # trainers whose command takes `steps=`


def run_emptied(plan: RunPlan, folder: Path, file: str, steps: int, **settings: Any) -> dict[str, Any] | str:
    """Return what the recorder wrote into `file` of the folder, or why it wrote nothing.

    steps: of the run; a trainer that takes no `steps=` may have fewer. settings: of the recorder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    moved = make_run_folder(end_after(plan, steps) if plan.trainer in TAKES_STEPS else plan, folder)
    own = prepare_recorder(folder.absolute(), moved.environment, **settings)
    moved = moved.replace(environment={**moved.environment, **own})
    try:
        run_to_end(moved, folder / LOG)
    except LaunchError as error:
        return f"{plan.arm} does not start: {error}"
    found: dict[str, Any] | None = read_document(folder / file, load_json)
    return found if found is not None else f"the host loop of {plan.arm} was not seen: {explain_missing_step(folder)}"
