"""Lets one arm's MaxText restore the other arm's checkpoint and train on, and compares the losses of both arms.

An arm is one of the two compared versions. Equal losses prove that both arms save the same state.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tasks.launch.backend import LaunchError
from tasks.launch.local.process_group import move_plan, run_to_end
from tasks.launch.logs import read_exit_code
from tasks.records.checkpoint_proof import CrossRestore
from tasks.records.plan import RunPlan
from tasks.resolve.trainers import trainer_class
from tasks.resolve.trainers.maxtext_metrics import read_maxtext_metrics

FOLDER, LOG = "cross_restore", "cross_restore.log"  # in the run's folder
_FULL_STATE, _ITEMS = "load_full_state_path", "items"
_METADATA, _AUX = "_METADATA", "nnx_aux"
_LOSS = "loss"


def find_source_plan(plan: RunPlan, plans: Sequence[RunPlan]) -> RunPlan | None:
    """Return the plan of the preceding run, if the run of `plan` can restore that run's checkpoint; else None.

    The two runs must be of different arms, and train MaxText on this machine with checkpoints.
    """
    index = plans.index(plan)
    if index == 0:
        return None
    before = plans[index - 1]
    fits = all(
        trainer_class(one.trainer).loads_full_state and one.backend == "local" and one.work.has_steps
        and one.config.get("enable_checkpointing", True)
        for one in (plan, before)
    )  # fmt: skip
    return before if fits and plan.arm != before.arm else None


def restore_across(plan: RunPlan, before: RunPlan) -> CrossRestore:
    """Restore the first checkpoint of the run `before` with the command of `plan`, train on, and compare the losses.

    Returns the proof. If the test could not be completed, its `holds` is None and its `evidence` is the reason.
    """
    source = {"source": before.run_name}
    if plan.config.get("enable_dropout") and plan.config.get("dropout_rate"):
        return CrossRestore(**source, evidence="not tried: MaxText's implementations drop different units for one seed")
    checkpoints = Path(before.directory) / str(before.files.checkpoints)
    steps = sorted(int(path.name) for path in checkpoints.glob("*") if path.name.isdigit())
    if not steps:
        return CrossRestore(**source, evidence=f"{before.run_name} left no checkpoint")
    first = steps[0]
    moved = move_plan(plan, Path(plan.directory) / FOLDER)
    argv = tuple(text for text in moved.argv if not text.startswith(f"{_FULL_STATE}="))
    log = Path(plan.directory) / LOG
    Path(moved.directory).mkdir(parents=True, exist_ok=True)
    items = checkpoints / str(first) / _ITEMS
    try:
        if not plan.config.get("pure_nnx"):
            items = map_to_linen(items, Path(plan.directory) / FOLDER / _ITEMS)
        word = f"{_FULL_STATE}={items}"
        log.unlink(missing_ok=True)
        run_to_end(moved.replace(argv=(*argv, word)), log)
        return compare_losses(plan, before, first, Path(moved.directory), read_exit_code(log))
    except (LaunchError, OSError, ValueError) as error:
        return CrossRestore(**source, restored_step=first, evidence=f"could not be tried: {error}")
    finally:
        shutil.rmtree(Path(plan.directory) / FOLDER, ignore_errors=True)


def map_to_linen(items: Path, copy: Path) -> Path:
    """Return the folder of a checkpoint that Linen can restore: `items` itself, or for NNX `copy` without `nnx_aux`.

    MaxText saves NNX's state under Linen's names, except `nnx_aux` (its random number streams), and Orbax restores only
    an equal tree. Uses hard links where the disk allows it. Raises OSError, ValueError.
    """
    tree = json.loads((items / _METADATA).read_text(encoding="utf-8"))
    arrays: dict[str, Any] = tree["tree_metadata"]
    kept = {key: value for key, value in arrays.items() if value["key_metadata"][0]["key"] != _AUX}
    if len(kept) == len(arrays):
        return items
    shutil.copytree(items, copy, copy_function=link)
    (copy / _METADATA).unlink()
    (copy / _METADATA).write_text(json.dumps(tree | {"tree_metadata": kept}), encoding="utf-8")
    return copy


def link(source: str, target: str) -> None:
    """Create a hard link to a file, or a copy if the file system does not allow the link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def compare_losses(plan: RunPlan, before: RunPlan, first: int, folder: Path, code: int | None) -> CrossRestore:
    """Return the proof: it holds if the losses in `folder` and of the run `before` are equal after the step `first`.

    Its `holds` is None if the exit code `code` of the restoring run is not 0, or if the steps differ or are missing.
    first: the restored step. Raises OSError, ValueError.
    """
    start = {"source": before.run_name, "restored_step": first}
    if code != 0:
        evidence = f"{plan.arm} could not train on from {before.run_name}: exit code {code}, see {LOG}"
        return CrossRestore(**start, evidence=evidence)
    ours, theirs = (_losses(path / plan.files.metrics, first) for path in (folder, Path(before.directory)))
    title = f"{plan.arm} restored step {first} of {before.run_name}"
    if not ours or ours.keys() != theirs.keys():
        return CrossRestore(**start, evidence=f"{title}, and trained {len(ours)} of {len(theirs)} steps after it")
    different = [step for step in ours if ours[step] != theirs[step]]
    if different:
        step = different[0]
        evidence = f"{title}; at step {step} its loss is {ours[step]!r}, not {theirs[step]!r}"
        return CrossRestore(**start, steps=len(ours), holds=False, evidence=evidence)
    evidence = f"{title} and trained {len(ours)} steps on: every loss equals the other's, bit for bit"
    return CrossRestore(**start, steps=len(ours), holds=True, evidence=evidence)


def _losses(path: Path, after: int) -> dict[int, float]:
    frame = read_maxtext_metrics(path)
    if frame is None or _LOSS not in frame.columns:
        return {}
    rows = frame.filter(pl.col("step") > after).select("step", _LOSS).iter_rows()
    return {int(step): float(loss) for step, loss in rows if loss is not None}
