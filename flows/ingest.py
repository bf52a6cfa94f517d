"""The flow `ingest`: reads existing logs → archives their runs → compares them → publishes the comparison."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.ingest_steps import diff_logs, scrape_logs_step
from flows.publish_steps import publish_case, show_verdict
from tasks.diff.compare_logs import LogArguments, check_words
from tasks.diff.judge.ingest_command import UNTITLED
from tasks.ingest.given_logs import assign_sides
from tasks.resolve.options import IngestOptions
from tasks.services.flow_names import show_name, unless_named
from tasks.services.prefect_ui import (
    final_state,
    log_result,
    name_outcome,
    tag_run,
    with_parameters_of,
    with_plain_parameters,
)
from tasks.store.store import open_store


@unless_named
def name_run() -> str:
    """Return the flow run's name: the names of the compared files."""
    given = flow_run.parameters
    words = [word for key in ("logs", "baseline", "candidate") for word in given.get(key) or ()]
    return show_name(" and ".join(Path(word).name for word in words))


@with_plain_parameters
@flow(name="ingest", flow_run_name=name_run, description="Compare runs from their logs.")
@with_parameters_of(IngestOptions)
def ingest(options: IngestOptions) -> State[Any]:
    """Read the logs, archive their runs in the store, compare both sides, and publish the comparison."""
    check_words(options.target, options.tolerances)
    sides = assign_sides(options.logs, options.baseline, options.candidate)
    given = LogArguments(baseline=tuple(sides[0]), candidate=tuple(sides[1]))
    store = open_store(options.out)
    named, records = scrape_logs_step(given, options.aa, store)
    case = options.case or named or UNTITLED
    tag_run("ingest", [case], options.target)
    comparison = diff_logs(records, case, options, given, store)
    compared = publish_case(comparison, store, records)
    show_verdict([compared], "ingest")
    log_result([(f"{comparison.case}: {comparison.headline}", compared[1].shown)])
    name_outcome([comparison])
    return final_state([comparison])
