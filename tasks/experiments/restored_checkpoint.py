"""Compares a checkpoint with the first state of a run that restores it: a run's folder, or a typed command."""

import shutil
from pathlib import Path
from tempfile import mkdtemp

from configs.custom_trainer import TYPED_MARK
from configs.errors import ConfigError
from tasks.experiments.witness_states import WitnessedRun, witness_start
from tasks.records.plan import ArmOverrides, RunPlan
from tasks.records.restored import Restored
from tasks.resolve.plans import Request, resolve
from tasks.store.documents import model_from_json, read_document
from tasks.verify.checkpoint_notes import note_checkpoint
from tasks.verify.compare_restored import compare_restored

PLAN = "plan.json"  # in a run's folder


def compare_run_with_checkpoint(checkpoint: str, run: str) -> Restored:
    """Return what became of each array of a checkpoint in a run that is started for this question, in a copy.

    run: the folder of a run of maxview, which starts with the run's files; or TYPED_MARK and a typed comparison, whose
    command names the checkpoint itself. Raises ConfigError, CheckpointError.
    """
    scratch = Path(mkdtemp(prefix="maxview-restored-"))
    try:
        if run.startswith(TYPED_MARK):
            plan, source = _plan_typed(run.removeprefix(TYPED_MARK), scratch), None
        else:
            source = Path(run).expanduser().absolute()
            plan = _read_plan(source)
        again = witness_start(plan, scratch / "again", source)
        if again.problem:
            return Restored(source=checkpoint, problem=again.problem, read=again.read)
        found = _compare(checkpoint, again, None)
        if found.faults and source is not None:  # a start without the run's files tells what was left untouched
            fresh = witness_start(plan, scratch / "fresh")
            found = _compare(checkpoint, again, fresh) if fresh.states else found
        place = str(Path(checkpoint).expanduser().absolute())
        names = (Path(place).name, Path(place).parent.name)
        if "://" not in checkpoint and not any(_is_inside(path, place, names) for path in again.read):
            note = f"the run opened no file of {checkpoint} before its first step"
            found = found.replace(notes=(*found.notes, note))
        return found
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _compare(checkpoint: str, again: WitnessedRun, fresh: WitnessedRun | None) -> Restored:
    restored = again.states[0]
    saved = note_checkpoint(checkpoint, restored)
    return compare_restored(saved, restored, fresh=fresh.states[0] if fresh else None, read=again.read)


def _is_inside(path: str, checkpoint: str, names: tuple[str, str]) -> bool:
    """Return whether a file that the run opened is in the checkpoint, or in the run's copy of it."""
    return path.startswith(checkpoint) or f"/{names[1]}/{names[0]}" in path


def _read_plan(folder: Path) -> RunPlan:
    plan = read_document(folder / PLAN, model_from_json(RunPlan))
    if plan is None:
        raise ConfigError(
            [f"{folder}: is no folder of a run of maxview; to start another program, type it: --restored-by -- COMMAND"]
        )
    if plan.backend != "local":
        raise ConfigError([f"{folder}: the run was not on this machine, and cannot be started again here"])
    return plan


def _plan_typed(name: str, out: Path) -> RunPlan:
    """Return the plan of the command in the working tree."""
    request = Request(comparison=name, repeats=1, arms=ArmOverrides(one_is_enough=True))
    return resolve(request, out)[-1]
