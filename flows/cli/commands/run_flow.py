"""Runs a flow in this process with a live view, prints its comparisons, and exits if Prefect's server is lost."""

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Console

from configs.questions import find_flow, find_functions
from flows.cli.commands.common_options import absolute_place
from flows.cli.commands.report_options import Reports

if TYPE_CHECKING:
    from tasks.records.plan import RunPlan
    from tasks.services.server import PrefectApi
    from tasks.store.store import Store

MAX_MISSES, PAUSE_S = 2, 0.5  # the server is gone after MAX_MISSES failed requests in a row, PAUSE_S seconds apart
# Prefect's, before the reason; errors of these types are sentences for users
PREFIX = re.compile(
    r"^Flow run encountered an exception: ((ValueError|LaunchError|Refused|Invalid|NotServed|NotAnswering): )?"
)
REPORT_S = 30.0  # seconds after Ctrl-C for the flow to report its final state to the server; then the process is ended


class FlowError(RuntimeError):
    """The flow itself failed, not a trainer that it started. The message has the reason."""


def run_flow(
    name: str,
    parameters: Mapping[str, Any],
    *,
    as_json: bool,
    full: bool = False,
    left_out: Mapping[str, str] = MappingProxyType({}),
    reports: Reports = Reports(),
) -> int:
    """Run the flow `name` in this process with a live view, print its comparisons, and return the exit status.

    full: print the whole report. left_out: case → why it was not run. reports: files to write.

    Raises FlowError if the flow itself failed or published no comparison.
    """
    state, view = finish_flow(name, parameters)
    from tasks.diff.judge.exit_status import exit_status
    from tasks.publish.terminal.floors_table import render_floors
    from tasks.publish.terminal.report import print_comparison
    from tasks.services.prefect_ui import VERDICT_STATES

    records = [record for record, _ in view.comparisons]
    if not records or (state.is_failed() and state.name not in VERDICT_STATES) or state.is_crashed():
        raise FlowError(PREFIX.sub("", state.message or "") or "the flow did not finish")
    if as_json:
        print(json.dumps([json.loads(record.model_dump_json()) for record in records], indent=1))
    else:
        console = Console()
        for record, page in view.comparisons:
            if record is not records[0]:
                console.print()
            link = page.link if page.link.startswith("http") else None
            print_comparison(console, record, page=page.place, link=link, full=full)
        if len(records) > 1:
            console.print(render_floors(records, left_out))
            print(f"index: {index_of(parameters['out'])}")
    reports.write(records, [page.shown for _, page in view.comparisons])
    return exit_status(records)


def load_flow(name: str) -> None:
    """Import the modules that the flow `name` needs, which takes seconds."""
    find_flow(name)
    points = ("refuse_cases", "after_run", "read_past", "after_case", "after_publishing")
    for point in points[-1:] if name == "ingest" else points:
        find_functions(point)


def index_of(out: str) -> str:
    """Return the address of a store's index page, for messages."""
    return f"{out.rstrip('/')}/index.html"


def finish_flow(name: str, parameters: Mapping[str, Any]) -> tuple[Any, Any]:
    """Run the flow `name` in this process; return its final state and its LiveView, which has the comparisons.

    If the embedded server cannot be restarted, publishes the finished cases and ends the process with exit status 2.
    """
    from flows.cli.byte_progress import open_stderr
    from flows.cli.interrupts import NothingToUndo, end_at_once
    from flows.cli.live_view import LiveView

    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

    def lost(why: str) -> None:
        from tasks.store.store import open_store

        try:
            errors.print(f"maxview: {why}")
            done = {(record.comparison, record.case) for record, _ in view.comparisons}
            for page in publish_finished(view.plans, open_store(parameters["out"]), done):
                errors.print(f"page: {page}")
        finally:
            end_at_once(code=2)

    with LiveView(open_stderr()) as view, ExitStack() as held:
        with NothingToUndo():
            from tasks.services import prefect_settings as environment

            environment.set_defaults()
            from tasks.services.server import explain_failure, prefect_api

            api = held.enter_context(prefect_api(lost, lambda: load_flow(name)))
            from tasks.services.events import EVENTS
        end_in_time(api)
        from tasks.scrape.window import read_listener

        with EVENTS.heard_by(view.show), read_listener(view.show_read):
            flow = find_flow(name)
            try:
                state = flow(**{**parameters, "out": absolute_place(parameters["out"])}, return_state=True)
            except Exception as error:
                if (message := explain_failure(error)) is None:
                    raise
                raise FlowError(message) from error
        return state, view


def end_in_time(api: "PrefectApi") -> None:
    """Make Ctrl-C end the jobs; also this process, if the server is gone or the flow does not end within REPORT_S.

    Otherwise the process would retry its reports to a lost server for minutes.
    """
    from flows.cli.interrupts import at_interrupt, end_at_once
    from tasks.services.running_jobs import stop_every_job
    from tasks.services.server import answers

    def end() -> None:
        stop_every_job()
        misses, deadline = 0, time.monotonic() + REPORT_S
        while misses < MAX_MISSES and time.monotonic() < deadline:
            misses = 0 if answers(api.url) else misses + 1
            time.sleep(PAUSE_S)
            if api.is_ending():  # the flow has reported its final state
                return
        end_at_once()

    at_interrupt.append(end)


def publish_finished(plans: "Sequence[RunPlan]", store: "Store", done: Collection[tuple[str, str]] = ()) -> list[str]:
    """Publish, without Prefect's server, every case whose trainings have all ended; return the paths of the pages.

    done: pairs (comparison, case) to leave out, because they have a page already.
    """
    from tasks.diff.examine.assemble_case import assemble_case
    from tasks.diff.examine.examine_case import examine, read_past_noise
    from tasks.diff.judge.judge_stored import judge_stored
    from tasks.ingest.run_record import adopt_run
    from tasks.publish.site.comparison_pages import publish_comparison

    pages = []
    cases = len({plan.case for plan in plans})
    trained = [plan for plan in plans if plan.work.has_steps]
    for (name, case), group in groupby(trained, key=lambda plan: (plan.comparison, plan.case)):
        own = list(group)
        found = [(plan, record) for plan in own if (record := store.run(plan.run_name).read_record()) is not None]
        records = [adopt_run(record, plan) for plan, record in found]
        if (name, case) in done or len(records) < len(own):
            continue
        runs = assemble_case(own, records, store, cases=cases)
        result = judge_stored(examine(runs, read_past_noise(runs, store)), runs.runs, store, cases=cases)
        pages.append(str(publish_comparison(result, store, runs.runs)))
    return pages
