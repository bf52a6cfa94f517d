"""Checks the restore of a run that has ended: its program saves once more, ends early, and is started again there."""

from collections.abc import Iterator
from pathlib import Path

from configs.trainers import find_kind
from maxview_probe.observe.observation_files import CALLS
from tasks.experiments.observe_arm import end_after
from tasks.experiments.witness_states import TEXTS, compare_again, witness_restoring, witness_saving
from tasks.launch.backend import LaunchedRun
from tasks.launch.logs import read_exit_code
from tasks.observe.recorder import SETTINGS
from tasks.records.plan import RunPlan
from tasks.records.restored import Restored
from tasks.records.run import RESTORED, START_FOLDER

MAX_S = 120.0  # a run that took longer is not repeated for this question: `maxview restores` asks it
RESUMES = "resume_after_step"


def can_check(run: LaunchedRun) -> bool:
    """Return whether the question arises: for the first run of an arm on this machine, if it can be started again.

    A case that resumes can, and a custom program that wrote files that it could restore from.
    """
    plan = run.plan
    if plan.backend != "local" or not plan.work.has_steps or plan.repeat or read_exit_code(run.directory.log) != 0:
        return False
    if not find_kind(plan.trainer).takes_command:
        return int(plan.config.get(RESUMES, -1)) >= 0
    return _count_calls(plan) >= 2 and any(_find_saved(plan))


def check_restore(plan: RunPlan) -> Restored:
    """Return what the program of a run restores of what it saves. `can_check` must hold."""
    folder = Path(plan.directory) / RESTORED
    if not find_kind(plan.trainer).takes_command:
        saves, again = (_resuming(plan, int(plan.config[RESUMES]) + more) for more in (1, 2))
        saved = witness_saving(saves, folder / "saves")
        return compare_again(saved, witness_restoring(again, folder / "restores", saved))
    saved = witness_saving(plan, folder / "saves", steps=_count_calls(plan) - 1)
    return compare_again(saved, witness_restoring(plan, folder / "restores", saved))


def _resuming(plan: RunPlan, steps: int) -> RunPlan:
    """Return the plan of a run of our trainer that ends after some steps, and saves the last one."""
    moved = end_after(plan, steps)
    own = {RESUMES: -1, "steps": steps, "eval_interval": -1}
    words = tuple(f"{key}={value}" for key, value in own.items() if key != "steps")
    kept = tuple(word for word in moved.argv if word.partition("=")[0] not in own or word.startswith("steps="))
    return moved.replace(argv=(*kept, *words), config=plan.config | own)


def _count_calls(plan: RunPlan) -> int:
    """Return the number of noted calls of a run's step; 0 for a run that took longer than MAX_S."""
    noted, settings = (Path(plan.directory) / START_FOLDER / name for name in (CALLS, SETTINGS))
    if not noted.is_file() or noted.stat().st_mtime - settings.stat().st_mtime > MAX_S:
        return 0
    with noted.open("rb") as lines:
        return sum(1 for _ in lines)


def _find_saved(plan: RunPlan) -> Iterator[Path]:
    """Yield the files that a run has written in its folder and that a program could restore from."""
    root, began = Path(plan.directory), (Path(plan.directory) / START_FOLDER / SETTINGS).stat().st_mtime
    for path in root.rglob("*"):
        inside = path.relative_to(root).parts
        is_ours = inside[0] in (START_FOLDER, RESTORED) or "__pycache__" in inside
        # a copy of a program keeps its times
        if not is_ours and path.is_file() and not path.name.endswith(TEXTS) and path.stat().st_mtime > began:
            yield path
