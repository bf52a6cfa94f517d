"""The step that explains a comparison, as a Prefect task."""

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from tasks.extensions.explain.subjects import explain_comparison
from tasks.records import ComparisonRecord, RunPlan
from tasks.store import Store


@task(name="explain", task_run_name="explain {record.case}", cache_policy=NO_CACHE)
def explain_step(record: ComparisonRecord, plans: tuple[RunPlan, RunPlan], store: Store) -> ComparisonRecord:
    """Return the comparison with an explanation of the difference between the arms of two plans.

    Without a stored explanation, starts both trainers again for a few steps.
    """
    explanation = explain_comparison(record, plans, store)
    get_run_logger().info("%s", explanation.headline)
    explanation = explanation.model_copy(update={"function": record.function})
    return record.model_copy(update={"explanation": explanation})
