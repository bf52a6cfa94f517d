"""Records the steps of sides: runs their commands in processes that share one import of the trainer."""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Self

from maxview_probe.inject import FORK_RUNS, INJECTED
from tasks.experiments.kept_recordings import digest_given
from tasks.experiments.observe_arm import end_after, make_run_folder, read_ended
from tasks.launch.backend import LaunchError
from tasks.launch.local.process_group import run_to_end, start_folder
from tasks.launch.local.program_copy import copy_program
from tasks.launch.logs import read_exit_code
from tasks.observe.recorder import VARIABLE, prepare_recorder
from tasks.records.observation import LOG, Observation
from tasks.records.plan import RunPlan
from tasks.resolve.trainers import trainer_class
from tasks.store.atomic import write_atomically

IDENTITY = "made-from.txt"  # digest of what the recorded process was given
BEFORE_LOG = "before.log"  # of a run that is resumed
BATCHES = 2  # the second call shows which results are the next call's arguments
FLAGS = "XLA_FLAGS"
# a step that must run does so a few times: its compile need not be thorough
QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


class RecordedSide(NamedTuple):
    """One step to record. Sides with the same folder are one."""

    plan: RunPlan
    folder: Path
    recorder: Mapping[str, Any] = {}  # settings of the recorder that are not every side's
    resumed: int | None = None  # the steps of the same run before its command starts again

    @property
    def is_recorded(self) -> bool:
        """Whether the folder has the recording."""
        identity = self.folder / IDENTITY
        return identity.is_file() and identity.read_text(encoding="utf-8") == self.given

    @property
    def given(self) -> str:
        """A digest of what its process is given. Edited packages and data are not seen: forks cannot note them."""
        return digest_given(self.plan, {**self.recorder, "resumed": self.resumed})

    @property
    def runs(self) -> bool:
        """Whether the recorded arguments depend on steps before them."""
        return "skipped" in self.recorder or self.resumed is not None

    def with_recorder(self, name: str, **settings: Any) -> Self:
        """Return the side with settings of its recorder, and a folder for them."""
        own = {**self.recorder, **settings}
        return self._replace(folder=self.folder.with_name(f"{self.folder.name}-{name}"), recorder=own)


def record_sides(
    sides: Sequence[RecordedSide], folder: Path, name: str, interrupt: Event | None = None
) -> dict[Path, Observation]:
    """Return the observations by folder. One process imports the trainer, and is forked for each side to record.

    folder: that of all recordings. name: of this call, for its files in `folder`. The sides have one trainer.
    interrupt: set by another thread, ends the recording.
    """
    wanted = [side for side in sides if not side.is_recorded]
    problem = _run(wanted, folder.absolute(), name, interrupt) if wanted else ""
    found = {}
    for side in sides:
        observation = read_ended(side.folder, side.plan.arm)
        if side in wanted and observation.step is not None:
            write_atomically(side.folder / IDENTITY, side.given)
        elif observation.step is None:
            before = side.folder / BEFORE_LOG
            code = read_exit_code(before)
            why = problem or (f"the run that is resumed ended with exit code {code}; see {before}" if code else "")
            observation = observation.replace(notes=(*([why] if why else ()), *observation.notes))
        found[side.folder] = observation
    return found


def _run(sides: Sequence[RecordedSide], folder: Path, name: str, interrupt: Event | None) -> str:
    """Run the commands of all sides; return why they could not start, or ""."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = sides[0].plan
    modules = trainer_class(plan.trainer).imports
    runs = [list(_commands(side)) for side in sides]
    settings, log = folder / f"{name}.json", folder / f"{name}.log"
    settings.write_text(json.dumps({"modules": modules, "runs": runs}), encoding="utf-8")
    environment = {name: text for name, text in plan.environment.items() if name != FLAGS}  # read after the fork
    python = plan.argv[0] if modules else sys.executable
    together = plan.replace(
        argv=(python, str(FORK_RUNS), str(settings), plan.argv[0]),  # the last word's environment is read-only
        environment=environment | {"PYTHONPATH": str(INJECTED)},
        directory=str(sides[0].folder),  # exists; a run's own folder is made in none of the recordings
        time_limit_s=plan.time_limit_s * sum(map(len, runs)),
    )
    try:
        run_to_end(together, log, interrupt=interrupt)  # which makes the log's folder writable
    except LaunchError as error:
        return f"{plan.arm} is not observed: {error}"
    if code := read_exit_code(log):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        return f"the trainer ended with exit code {code}; see {log} ({' | '.join(lines[-4:-2])})"
    settings.unlink()
    log.unlink()
    return ""


def _commands(side: RecordedSide) -> Iterator[dict[str, Any]]:
    """Yield the commands of a side, as fork_runs.py takes them: the run that is resumed, then the recorded one."""
    if side.folder.exists():
        shutil.rmtree(side.folder)
    moved = make_run_folder(side.plan, side.folder)
    copy_program(moved)
    if side.resumed is not None:
        yield _command(end_after(moved, side.resumed), side.folder / BEFORE_LOG, {}, "")
        moved = end_after(moved, moved.config["steps"])  # the run before it has left its own number in the config
    own = prepare_recorder(
        side.folder.absolute(), moved.environment, observe=True, runs=side.runs,
        **{"batches": BATCHES, "platform": moved.config.get("hardware", ""), **side.recorder},
    )  # fmt: skip
    yield _command(moved, side.folder / LOG, own, own[VARIABLE])


def _command(plan: RunPlan, log: Path, own: dict[str, str], settings: str) -> dict[str, Any]:
    flags = f"{plan.environment.get(FLAGS, '')} {QUICKLY}".strip()
    return {
        "argv": plan.argv, "environment": plan.environment | own | {FLAGS: flags}, "log": str(log.absolute()),
        "folder": str(start_folder(plan)), "settings": settings, "time_limit_s": plan.time_limit_s,
    }  # fmt: skip
