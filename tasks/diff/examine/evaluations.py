"""Compares the values of evaluations step by step, and finds evaluations that one arm lacks."""

from tasks.diff.examine.arms import Arms
from tasks.diff.examine.observed import Observations, notice
from tasks.diff.examine.parity import LOSS_LIKE, MetricParity, compare_metric, eval_table, shared_metrics
from tasks.metrics.merged_steps import place_of_row
from tasks.records.text import counted

SHOWN = 5  # limit of steps that a message names


def compare_evaluations(arms: Arms) -> list[MetricParity]:
    """Return the step-by-step comparison of each deterministic value of the evaluations, losses first."""
    names = shared_metrics(arms, "evals")
    return [compare_metric(arms, name, "evals") for name in sorted(names, key=lambda name: LOSS_LIKE not in name)]


def find_lacking_evaluations(arms: Arms) -> Observations:
    """Yield a finding per arm without dead runs that lacks evaluations at steps at which the other arm has them."""
    steps = [{row["step"] for run in arm.runs for row in run.reading.evals} for arm in arms]
    for here in (0, 1):
        (arm, other), (mine, theirs) = (arms[here], arms[1 - here]), (steps[here], steps[1 - here])
        lacking = sorted(step for step in theirs - mine if step is not None)
        if not lacking or arm.dead:
            continue
        named = ", ".join(map(str, lacking[:SHOWN])) + (", …" if len(lacking) > SHOWN else "")
        message = f"{arm.label} has no evaluation of step {named}; {other.label} has"
        place = place_of_row(eval_table(other.first))
        yield notice("missing-field", message, (arm, f"{counted(len(mine), 'evaluation')}", None),
                     (other, f"{counted(len(theirs), 'evaluation')}", place))  # fmt: skip
