"""The flow `ingest`: the end of `compare`, from logs that exist."""

from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.compare import final_state
from flows.form import Field, show_name
from flows.report import current_report
from tasks.ingest import UNTITLED, check_target
from tasks.steps import diff_pair_step, publish_step, scrape_pair_step, summarise_step
from tasks.store import open_store


def name_run() -> str:
    """The flow run's name: the files that are compared."""
    return show_name(" and ".join(Path(log).name for log in flow_run.parameters["logs"]))


@flow(name="ingest", flow_run_name=name_run, description="Compare two runs from the logs that they left.")
def ingest(
    logs: Annotated[
        list[str], Field(min_length=1, max_length=2, description="Two logs, or one saved MaxView page; paths or gs://")
    ],
    case: Annotated[str | None, Field(description="The case's name, where the logs do not tell it")] = None,
    out: Annotated[str, Field(description="Folder for runs, records and pages")] = "maxview-out",
    aa: Annotated[bool, Field(description="The two are meant to be the same commit")] = False,
    target: Annotated[
        str | None, Field(description="Where they ran: a target, or any name; its history tells the noise")
    ] = None,
) -> State[Any]:
    """Read both logs, archive them, and publish what differs."""
    check_target(target)
    report = current_report()
    store = open_store(out)
    pair, records = scrape_pair_step(logs, store)
    comparison = diff_pair_step(records, case or pair.case or UNTITLED, aa, target, store)
    report.compared(comparison, publish_step(comparison, store))
    summarise_step([comparison], "ingest")
    return final_state([comparison])
