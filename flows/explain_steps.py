"""The step that explains a comparison, as a Prefect task."""

from collections.abc import Sequence

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from tasks.extensions.explain.subjects import explain_comparison
from tasks.records import ComparisonRecord, RunRecord
from tasks.store import Store


@task(name="explain", task_run_name="explain {record.case}", cache_policy=NO_CACHE)
def explain_step(record: ComparisonRecord, runs: Sequence[RunRecord], store: Store) -> ComparisonRecord:
    """Return the comparison with an explanation of the arms' difference; unchanged if its runs cannot be repeated.

    Without a stored explanation, starts both trainers again for a few steps.
    """
    explanation = explain_comparison(record, runs, store)
    if explanation is None:
        return record
    get_run_logger().info("%s", explanation.headline)
    explanation = explanation.model_copy(update={"function": record.function})
    return record.model_copy(update={"explanation": explanation})
