"""The step of the flow `preflight` that compares compiled programs, as a Prefect task."""

from collections.abc import Sequence

from prefect import task
from prefect.cache_policies import NO_CACHE

from questions.preflight.compare_compiles import compare_case_compiled
from tasks.diff.judge.suggested_commands import add_next_of_compiles
from tasks.records.compared_case import ComparisonRecord
from tasks.records.run import RunRecord
from tasks.store.store import Store


@task(name="compare the programs", task_run_name="compare the programs of {case}", cache_policy=NO_CACHE)
def diff_compiles_step(case: str, records: Sequence[RunRecord], store: Store) -> ComparisonRecord:
    """Compare the programs that a preflight compiled for a case's two arms."""
    return add_next_of_compiles(compare_case_compiled(records, store), records)
