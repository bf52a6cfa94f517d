"""Adds an explanation to a comparison whose arms differ; the explanation is a Prefect task."""

from collections.abc import Sequence

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from questions.explain.subjects import announce, explain_comparison, name_explainable_differences
from tasks.diff.judge.next_step import follow_cause
from tasks.experiments.runnable_arms import wants_explanation
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.services.events import EVENTS, Explaining, Troubled
from tasks.services.slices import slice_of
from tasks.store.store import Store


@task(name="explain", task_run_name="explain {record.case}", cache_policy=NO_CACHE)
def explain_step(record: ComparisonRecord, plans: tuple[RunPlan, RunPlan], store: Store) -> ComparisonRecord:
    """Return the comparison with an explanation of the difference between the arms of two plans.

    Without a stored explanation, starts both trainers again for a few steps.
    """
    explanation = explain_comparison(record, plans, store)
    get_run_logger().info("%s", explanation.headline)
    explanation = explanation.replace(function=record.function)
    explained = record.replace(explanation=explanation)
    return explained.replace(next_step=follow_cause(explained))


def explain_case(
    result: ComparisonRecord, plans: tuple[RunPlan, RunPlan] | None, store: Store, runs: Sequence[RunRecord] = ()
) -> ComparisonRecord:
    """Return the comparison, with an explanation if its arms differ and can run again on this machine.

    plans: of both arms; None if they cannot. runs: the judged ones. `explain: off` in the comparison's file prevents
    the explanation. If the explanation fails, the error is reported and the comparison is returned without one.
    """
    why = name_explainable_differences(result)
    if not why or plans is None or not wants_explanation(result.comparison):
        return result
    EVENTS.put(Explaining(result.case, announce(plans, runs, why)))
    try:
        with slice_of(plans[0].target):
            explained: ComparisonRecord = explain_step(result, plans, store)
    except Exception as error:
        get_run_logger().exception("%s failed", explain_step.name)
        EVENTS.put(Troubled(f"{result.case} is not explained: {type(error).__name__}: {error}"))
        return result
    return explained
