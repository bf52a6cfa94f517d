"""Watches a command: its step in one process, its states, log and files in another one. Out: `Watched`."""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from configs.comparison import Comparison, load_comparison
from configs.errors import ConfigError
from tasks.experiments.observe_arm import observe_arm
from tasks.experiments.recordings import BATCHES
from tasks.experiments.witness_states import WitnessedRun, witness_saving
from tasks.ingest.run_record import read_metrics, read_run_log
from tasks.records.log_reading import RunReading
from tasks.records.observation import LOG, Observation
from tasks.records.plan import ArmOverrides
from tasks.resolve.plans import Request, resolve
from tasks.verify.layout import CheckpointError, find_steps

FORMATS = {
    ".safetensors": "safetensors", ".npz": "NumPy", ".eqx": "Equinox", ".msgpack": "Flax msgpack", ".pkl": "pickle",
    ".pickle": "pickle",
}  # fmt: skip
ORBAX = "Orbax"
# words of an error → what to type
REMEDIES = {
    ("EOFError", "not a tty", "Inappropriate ioctl"): "a run has no terminal: give its answers as options",
    ("No API key", "Login required"): "a run gets no keys: log in with the client, or export WANDB_MODE=offline",
    ("gaierror", "ConnectError", "Max retries exceeded"): "without a network: export HF_HUB_OFFLINE=1 reads the cache",
    ("no training step was found",): "type maxview compare --only function --step NAME -- … with its function's name",
}  # fmt: skip


class Saves(NamedTuple):
    """The checkpoints that a run wrote."""

    folder: str  # inside the run's folder
    format: str
    number: int


class Watched(NamedTuple):
    """What a short run of a command showed."""

    comparison: Comparison  # of the typed command
    seconds: float
    steps: int  # calls of the step after which a run is ended
    ended: bool  # the run was ended so; else it ended by itself
    exit_code: int | None
    observation: Observation
    run: WitnessedRun
    log: RunReading | None  # None: it has no row that maxview reads
    saves: tuple[Saves, ...]
    metrics: str | None  # file of JSON lines with a step and a loss, inside the run's folder


def watch(name: str, steps: int, say: Callable[[str], object]) -> Watched:
    """Run the command of a typed comparison twice, for at most `steps` calls of its step. Raises ConfigError."""
    scratch = Path(mkdtemp(prefix="maxview-init-"))
    try:
        request = Request(comparison=name, repeats=1, arms=ArmOverrides(one_is_enough=True))
        plan = resolve(request, scratch)[-1]
        say("watching two runs: the step of one, and what the other one saves and prints")
        began = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            observed = pool.submit(observe_arm, plan, scratch / "observed", tensors=False, batches=BATCHES, cycles=True)
            run = witness_saving(plan, scratch / "watched", steps=steps)
            observation = observed.result()
        seconds = time.monotonic() - began
        if run.problem or observation.step is None:
            why = run.problem or "; ".join(observation.notes)
            kept = _keep_log(scratch)
            raise ConfigError(
                [f"the command trains no step that maxview sees: {why}{_remedy(why)}; its output: {kept}"]
            )
        log = read_run_log(scratch / "watched" / LOG)
        ended = run.states[-1].call >= steps
        return Watched(
            comparison=load_comparison(name), seconds=seconds, steps=steps, ended=ended, exit_code=log.exit_code,
            observation=observation, run=run, log=log if log.steps.height else None,
            saves=tuple(_find_saves(run)), metrics=_find_metrics(run),
        )  # fmt: skip
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _remedy(why: str) -> str:
    """Return what to do about an error that a run has and the user's terminal may not have; else nothing."""
    return next((f" ({text})" for words, text in REMEDIES.items() if any(word in why for word in words)), "")


def _keep_log(scratch: Path) -> Path:
    """Copy the log out of the folder that is deleted; return its place."""
    target = Path(mkdtemp(prefix="maxview-init-log-")) / LOG
    log = scratch / "watched" / LOG
    if log.exists():
        shutil.copyfile(log, target)
    return target


def _find_saves(run: WitnessedRun) -> list[Saves]:
    """Return the folders of checkpoints below the run's folder: of Orbax, else of files of known formats."""
    root = Path(run.plan.directory)
    saves: list[Saves] = []
    taken: set[Path] = set()
    for path in sorted(run.written, key=lambda path: len(path.parts)):
        if path.name in ("_CHECKPOINT_METADATA", "_METADATA") and not any(place in path.parents for place in taken):
            step = path.parent if path.name == "_CHECKPOINT_METADATA" else path.parent.parent
            folder = step.parent
            try:
                found = len(find_steps(folder))
            except CheckpointError:
                continue
            taken.add(folder)
            saves.append(Saves(str(folder.relative_to(root)), ORBAX, found))
    others: dict[tuple[Path, str], int] = {}
    for path in run.written:
        if path.suffix in FORMATS and not any(place in path.parents for place in taken):
            key = path.parent, FORMATS[path.suffix]
            others[key] = others.get(key, 0) + 1
    return saves + [Saves(str(folder.relative_to(root)), form, count) for (folder, form), count in others.items()]


def _find_metrics(run: WitnessedRun) -> str | None:
    """Return the one file of JSON lines with steps, losses and step times."""
    root = Path(run.plan.directory)
    found = []
    for path in run.written:
        if path.suffix in (".jsonl", ".ndjson"):
            try:
                frame = read_metrics(path)
            except ValueError:
                continue
            if frame is not None and {"step", "loss"} <= set(frame.columns):
                found.append(str(path.relative_to(root)))
    return found[0] if len(found) == 1 else None
