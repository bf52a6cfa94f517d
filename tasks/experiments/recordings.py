"""Records the training steps of both arms for experiments: program, state and batches, in processes of their own."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path

from tasks.experiments.kept_recordings import PLAN, PROBE, observe_or_keep
from tasks.experiments.observe_arm import recorded_source
from tasks.ingest.log_causes import list_frames, with_cause, with_frame
from tasks.ingest.run_record import read_run_log
from tasks.launch.logs import read_exit_code
from tasks.records.log_reading import RunReading
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan
from tasks.resolve.changed_code import changed_between
from tasks.store.documents import model_from_json, read_document

BATCHES = 20  # recorded batches; fewer if the run has fewer steps
SIDES = ("baseline", "candidate")
FOLDER = "experiments"  # in a comparison's folder

type Both[T] = tuple[T, T]


def record_arms(plans: Both[RunPlan], folders: Both[Path], *, timed: bool = False) -> Both[Observation]:
    """Return the observations of both steps; start only the arms whose step is not recorded in its folder.

    timed: with times of trace and lowering, which belong to one hour.
    """
    changed = changed_between(*plans)
    files = changed.files if changed else ()
    with ThreadPoolExecutor(len(plans)) as pool:
        left, right = pool.map(partial(record_arm, timed=timed), plans, folders, repeat(files))
    return left, right


def record_again(plan: RunPlan, folder: Path) -> Observation:
    """Return the observation of one more process of the baseline, whose step is recorded below the same folder."""
    return record_arm(plan, folder / "again", shared=False)


def record_arm(
    plan: RunPlan, folder: Path, changed: Sequence[str] = (), *, shared: bool = True, timed: bool = False
) -> Observation:
    """Return the observation of a plan's step: the recorded one, else a new one, for which its trainer starts.

    shared: a recording of another page may be used. timed: see `record_arms`.
    """
    batches = min(BATCHES, int(plan.config["steps"]))
    return observe_or_keep(plan, folder, shared=shared, timed=timed, tensors=False, batches=batches, changed=changed)


def read_plans(folder: Path) -> Both[RunPlan] | None:
    """Return the plans whose steps are recorded below a folder; None if one is missing."""
    left, right = (read_document(folder / side / PLAN, model_from_json(RunPlan)) for side in SIDES)
    return None if left is None or right is None else (left, right)


def read_ends(observations: Both[Observation], logs: Both[Path], plans: Both[RunPlan]) -> Both[RunReading | None]:
    """Return the log of each trainer that failed before all wanted calls of its step were made; None for another.

    A recording that has all calls ends its trainer with the exit code 0. Both are None if a step is missing for another
    reason, such as a failure of the recorder.
    """
    read = (_read_end(log, recorded_source(plan, log.parent) or None) for log, plan in zip(logs, plans, strict=True))
    left, right = ends = tuple(read)
    missing = [end is None for one, end in zip(observations, ends, strict=True) if one.step is None]
    return (None, None) if any(missing) else (left, right)


def _read_end(log: Path, root: str | None) -> RunReading | None:
    if not log.is_file() or not read_exit_code(log):
        return None
    reading = with_frame(with_cause(read_run_log(log), log, supervised=True), log, root)
    frames = list_frames(log, reading.error) if reading.error is not None else []
    is_ours = bool(frames) and str(PROBE) in frames[-1][1]
    return reading if reading.has_died and not is_ours else None


def name_problem(observations: Both[Observation], names: Both[str]) -> str:
    """Return why a step was not recorded, or ""."""
    for observation, name in zip(observations, names, strict=True):
        if observation.step is None:
            why = "; ".join(observation.notes) or "no step was found"
            return f"the step of {name} was not recorded: {why}"
    return ""
