"""Observes an arm: runs its command once more, in a new process that ends after the observed calls of its step.

An arm is one of the two compared versions of a trainer. The files of its judged run, from which the verdict
comes, stay unchanged.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tasks.launch.backend import LaunchError
from tasks.launch.local.process_group import move_plan, run_to_end
from tasks.launch.logs import read_exit_code
from tasks.observe.recorder import prepare_recorder, read_observation
from tasks.records.observation import LOG, Observation
from tasks.records.plan import RunPlan
from tasks.store.directories import config_text

OWN_FOLDER = "run"  # subfolder for the files that the trainer writes


def observe_arm(
    plan: RunPlan,
    folder: Path,
    *,
    start: Path | None = None,
    tensors: bool = True,
    evaluated: int = 0,
    profile: tuple[int, int] | None = None,
    batches: int = 1,
    changed: Sequence[str] = (),
    cycles: bool = False,
    timed: bool = True,
) -> Observation:
    """Run the plan's command until its step is recorded and profiled; return the record of the step's first call.

    An existing `folder` is deleted first.

    start: folder of the other arm's `arguments.npz`, whose arrays replace this arm's arguments of the same meaning.
    tensors: evaluate the call `evaluated` operation by operation. profile: first and last call to profile. Calls count
    from 0. batches: number of calls whose batches are stored. changed: files of the checkout whose conditions are
    watched. cycles: evaluate the loop's cycle in place of the step. timed: time its trace and lowering.
    If the backend is not `local`, or if the trainer cannot start or has no training step, the record has a note.
    """
    if plan.backend != "local":
        return Observation(arm=plan.arm, notes=(f"{plan.arm} runs on a cluster, and is not observed",))
    if folder.exists():
        shutil.rmtree(folder)
    moved = make_run_folder(plan, folder)
    own = prepare_recorder(
        folder.absolute(),
        moved.environment,
        observe=True,
        evaluated=evaluated if tensors else None,
        start=str(start.absolute()) if start else None,
        profile=profile,
        batches=batches,
        platform=plan.config.get("hardware", ""),
        root=moved.source or "",
        changed=list(changed),
        cycles=cycles,
        timed=timed,
        function=plan.step[0] if plan.step else "",
        others=list(plan.step[1:]),
    )
    if tensors:
        own["OPENBLAS_NUM_THREADS"] = "1"  # a second thread doubles the CPU time of small products
    moved = moved.replace(environment={**moved.environment, **own})
    try:
        run_to_end(moved, folder / LOG)
    except LaunchError as error:
        return Observation(arm=plan.arm, notes=(f"{plan.arm} is not observed: {error}",))
    return read_ended(folder, plan.arm)


def make_run_folder(plan: RunPlan, folder: Path) -> RunPlan:
    """Make the folder of an observed run, with its config, inside `folder`; return the plan that uses it."""
    moved = move_plan(plan, folder.absolute() / OWN_FOLDER)
    Path(moved.directory).mkdir(parents=True, exist_ok=True)
    Path(moved.directory, "config.yml").write_text(config_text(moved), encoding="utf-8")
    return moved


def recorded_source(plan: RunPlan, folder: Path) -> str:
    """Return the folder whose source an observed run executed; empty if the trainer is installed."""
    if plan.files.copy_at is not None:
        return str(move_plan(plan, folder.absolute() / OWN_FOLDER).source)
    return plan.checkout or plan.start_folder or ""


def end_after(plan: RunPlan, steps: int) -> RunPlan:
    """Return a plan of the same run that ends after some steps."""
    return plan.replace(argv=(*(w for w in plan.argv if not w.startswith("steps=")), f"steps={steps}"))


def read_ended(folder: Path, arm: str) -> Observation:
    """Return the observation of a command that has ended; without a step, its notes have the exit code."""
    found = read_observation(folder, arm)
    code = read_exit_code(folder / LOG)
    if found.step is None and code:
        text = f"the process ended with exit code {code}"
        return found.replace(notes=(*found.notes, text))
    return found
