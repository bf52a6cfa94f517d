"""Finds parameter arrays that training did not change."""

from collections.abc import Mapping

from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.observed import Observations, notice
from tasks.diff.examine.parity import MIN_STEPS
from tasks.records.run import RunRecord
from tasks.records.text import counted

SHOWN = 3  # limit of arrays that a message names


type Digests = Mapping[str, str]  # path of an array in the state → digest of its bytes


def find_untrained(arms: Arms) -> Observations:
    """Yield findings for parameter arrays that are equal before and after training, in one arm or in both.

    By the trainer's digests, else by the bits of the run's first and last verified checkpoint.
    """
    frozen = _find_most_frozen(arms[0]), _find_most_frozen(arms[1])
    for here in (0, 1):
        arm, other, mine, theirs = arms[here], arms[1 - here], frozen[here], frozen[1 - here]
        if mine is None:
            continue
        number, paths = mine
        alone = [path for path in paths if theirs is not None and path not in theirs[1]]
        if alone:
            message = f"{arm.name_run(number)} did not change {_name_some(alone)} in training, and {other.label} did"
            yield notice("frozen-in-one-arm", message, (arm, f"{counted(len(alone), 'array')} never changed", None))
        if shared := [path for path in paths if path not in alone]:
            message = f"{arm.name_run(number)} did not change {_name_some(shared)}: not trained"
            yield notice("frozen-array", message, (arm, counted(len(shared), "array"), None))


def _name_some(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(paths[:SHOWN])}{more}"


def _find_most_frozen(arm: ArmRuns) -> tuple[int, list[str]] | None:
    """Return the number of the run with the most unchanged arrays, and their paths; None if no run can be judged."""
    known = [(number, _frozen_of(run)) for number, run in enumerate(arm.runs)]
    told = [(number, paths) for number, paths in known if paths is not None]
    return max(told, key=lambda pair: len(pair[1]), default=None)


def _frozen_of(run: RunRecord) -> list[str] | None:
    start, end = digests_of(run, "initial_state"), digests_of(run, "state")
    if run.reading.steps.height < MIN_STEPS:
        return None
    if not start or not end:
        return None if run.frozen is None else list(run.frozen)
    # in digests of the complete state, the paths of parameters have the prefix params/
    return [path for path, digest in start.items() if digest == end.get(path, end.get(f"params/{path}"))]


def digests_of(run: RunRecord, name: str) -> Digests:
    state = run.program.get(name)
    return dict(state["arrays"]) if isinstance(state, dict) and isinstance(state.get("arrays"), dict) else {}
