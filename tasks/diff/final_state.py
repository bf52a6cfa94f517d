"""Compares the digests of the arms' final arrays in one row, and finds the arrays that training never changed."""

from collections.abc import Mapping

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_row import Arms, make_row, not_judged
from tasks.diff.observed import Observations, notice
from tasks.diff.parity import LEAST_STEPS, MetricParity
from tasks.metrics.result_metrics import FINAL_STATE
from tasks.records import Decision, Measured, MetricDiff, RunRecord
from tasks.records.text import counted

SHOWN = 3  # most arrays that a message names

type Digests = Mapping[str, str]  # path of an array in the state → digest of its bytes


def final_state_row(arms: Arms, loss: MetricParity) -> MetricDiff | None:
    """Return the row that compares the arms' final arrays; None unless every run has digests of its arrays.

    Different arrays are judged only if all losses are equal bit for bit; else the row of the losses judges them.
    """
    states = [[_digests(run, "state") for run in arm.runs] for arm in arms]
    if not all(state for side in states for state in side):
        return None
    cells = [Measured(text=counted(len(side[0]), "array")) for side in states]
    return make_row(FINAL_STATE, (cells[0], cells[1]), arms, _judge(states, loss))


def _judge(states: list[list[Digests]], loss: MetricParity) -> Decision:
    first = states[0][0]
    if any(state != first for state in states[0]):
        return not_judged("the baseline's runs end in different states")
    for state in states[1]:
        common = first.keys() & state.keys()
        different = sorted(path for path in common if first[path] != state[path])
        many = f"{len(different)} of {len(common)} arrays differ"
        if different and loss.has_equal_bits:
            reason = f"{many}, first {different[0]}, though every loss is equal bit for bit"
            return Decision(verdict="changed", reason=reason, threshold_text="exact")
        if different:
            return not_judged(f"{many}; the losses are not proved equal either, and another row judges them")
        if alone := first.keys() ^ state.keys():
            return not_judged(
                f"only one arm has {counted(len(alone), 'array')}, first {min(alone)}; the common arrays are equal"
            )
    return Decision(verdict="same", reason="every array is equal bit for bit", threshold_text="exact")


def find_untrained(arms: Arms) -> Observations:
    """Yield findings for parameter arrays with the same digest before and after training, in one arm or in both."""
    frozen = _frozen(arms[0]), _frozen(arms[1])
    for here in (0, 1):
        arm, other, mine, theirs = arms[here], arms[1 - here], frozen[here], frozen[1 - here]
        if mine is None:
            continue
        number, paths = mine
        alone = [path for path in paths if theirs is not None and path not in theirs[1]]
        if alone:
            message = f"{arm.name_run(number)} did not change {_some(alone)} in training, and {other.label} did"
            yield notice("frozen-in-one-arm", message, (arm, f"{counted(len(alone), 'array')} never changed", None))
        if shared := [path for path in paths if path not in alone]:
            message = f"{arm.name_run(number)} did not change {_some(shared)}: not trained"
            yield notice("frozen-array", message, (arm, counted(len(shared), "array"), None))


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(paths[:SHOWN])}{more}"


def _frozen(arm: ArmRuns) -> tuple[int, list[str]] | None:
    """Return the number of the run with the most unchanged arrays, and their paths; None if no run has digests."""
    known = [(number, _frozen_of(run)) for number, run in enumerate(arm.runs)]
    told = [(number, paths) for number, paths in known if paths is not None]
    return max(told, key=lambda pair: len(pair[1]), default=None)


def _frozen_of(run: RunRecord) -> list[str] | None:
    start, end = _digests(run, "initial_state"), _digests(run, "state")
    if not start or not end or run.reading.steps.height < LEAST_STEPS:
        return None
    # in digests of the complete state, the paths of parameters have the prefix params/
    return [path for path, digest in start.items() if digest == end.get(path, end.get(f"params/{path}"))]


def _digests(run: RunRecord, name: str) -> Digests:
    state = run.program.get(name)
    return dict(state["arrays"]) if isinstance(state, dict) and isinstance(state.get("arrays"), dict) else {}
