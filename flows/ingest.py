"""The flow `ingest`: the last steps of `compare`, from existing logs."""

from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from tasks.diff.compare_logs import UNTITLED, Given, check_words
from tasks.ingest.given_logs import sort_words
from tasks.services.endings import final_state, tell_end
from tasks.services.events import EVENTS, Compared
from tasks.services.run_form import Field, show_name, tag_run
from tasks.steps import diff_logs_step, publish_step, scrape_logs_step, summarise_step
from tasks.store import open_store


def name_run() -> str:
    """Return the flow run's name: the compared files."""
    given = flow_run.parameters
    words = [word for key in ("logs", "baseline", "candidate") for word in given.get(key) or ()]
    return show_name(" and ".join(Path(word).name for word in words))


@flow(name="ingest", flow_run_name=name_run, description="Compare runs from their logs.")
def ingest(
    logs: Annotated[
        list[str] | None, Field(max_length=2, description="Two logs, or one saved MaxView page; paths or gs://")
    ] = None,
    baseline: Annotated[
        list[str] | None, Field(description="Several runs: the baseline's logs, folders, patterns; paths or gs://")
    ] = None,
    candidate: Annotated[list[str] | None, Field(description="Several runs: the candidate's, as many")] = None,
    case: Annotated[str | None, Field(description="The case's name, where the logs do not name it")] = None,
    out: Annotated[str, Field(description="Folder for runs, records and pages")] = "maxview-out",
    aa: Annotated[bool, Field(description="The two are meant to be the same commit")] = False,
    target: Annotated[
        str | None, Field(description="Where they ran: a target, or any name; the noise is estimated from its history")
    ] = None,
    tolerances: Annotated[str, Field(description="Tolerances: default, or other-draws for other seeds")] = "default",
) -> State[Any]:
    """Read the logs, archive them, and publish what differs."""
    check_words(target, tolerances)
    sides = sort_words(logs or (), baseline or (), candidate or ())
    given = Given(baseline=tuple(sides[0]), candidate=tuple(sides[1]))
    store = open_store(out)
    named, records = scrape_logs_step(given, aa, store)
    tag_run("ingest", [case or named or UNTITLED], target)
    comparison = diff_logs_step(records, case or named or UNTITLED, aa, target, tolerances, given, store)
    page = publish_step(comparison, store, records)
    EVENTS.put(Compared(comparison, page, str(flow_run.id)))
    summarise_step([comparison], "ingest")
    tell_end([(f"{comparison.case}: {comparison.headline}", page.told)])
    return final_state([comparison])
