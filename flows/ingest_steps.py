"""The steps of the flow `ingest`: logs → run records (a Prefect task) → comparison."""

from collections.abc import Sequence

from prefect import task

from flows.step_parts import IO
from tasks.diff.compare_logs import LogArguments, archive, case_runs, compare_pair
from tasks.diff.examine.examine_case import read_past_noise
from tasks.ingest.given_logs import open_arms
from tasks.records.compared_case import ComparisonRecord
from tasks.records.run import RunRecord
from tasks.resolve.options import IngestOptions
from tasks.store.store import Store


@task(name="scrape", task_run_name="read the logs", **IO)
def scrape_logs_step(given: LogArguments, aa: bool, store: Store) -> tuple[str | None, list[RunRecord]]:
    """Read two arms' runs from existing logs into the store; return (case, records). case: None if no page names it."""
    with open_arms((given.baseline, given.candidate), aa=aa) as arms:
        return arms.case, archive(arms, store)


def diff_logs(
    records: Sequence[RunRecord], case: str, options: IngestOptions, given: LogArguments, store: Store
) -> ComparisonRecord:
    """Compare the ingested runs of a case, with the history of equal runs on the target if a target is given.

    No task: a task run costs more than the comparison.
    """
    target, tolerances = options.target, options.tolerances
    past = read_past_noise(case_runs(records, case=case, target=target), store) if target else {}
    return compare_pair(
        records, case=case, aa=options.aa, target=target, past=past, tolerances=tolerances, arguments=given
    )
