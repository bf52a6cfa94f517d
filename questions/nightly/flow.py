"""The flow `nightly`: plan → one `compare` per cell → bisect what is new, evaluate twins → summary and comment.

A cell is a case of a comparison. A night is one set of cells; a later flow run of the same day finishes an interrupted
night.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from configs.comparison import load_comparison
from configs.names import BLESSED
from configs.trainers import find_kind
from flows.compare import compare_cases
from flows.publish_steps import comment_step
from questions.bisect.flow import bisect
from questions.invariants.describe_invariants import name_twin
from questions.invariants.flow import invariants
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.page import place_record, read_matrices
from questions.nightly.plan_night import find_new_regressions, name_culprit
from questions.nightly.steps import finish_night_step, notify_night_step, plan_night_step, publish_night_step
from tasks.diff.judge.repeat_rule import Patience
from tasks.launch.owners import forget
from tasks.publish.content.page_address import find_page
from tasks.publish.markdown.night import comment_markdown, night_headline
from tasks.publish.site.index import PAGE
from tasks.records.night import CellResult, NightCell, NightChange, NightPlan, NightRecord, NightTwins
from tasks.resolve.options import BisectMore, BisectOptions, NightOptions
from tasks.resolve.plans import Request
from tasks.services.events import EVENTS, Bisected, Compared, Event
from tasks.services.flow_names import unless_named
from tasks.services.flow_runs import job_flow
from tasks.services.outage import is_outage, outlast
from tasks.services.prefect_ui import CHANGED, VERDICT_STATES, log_result, name_comparison, with_parameters_of
from tasks.services.running_jobs import Jobs, in_lanes
from tasks.store.store import Store, open_store

# state of the flow `invariants` → the outcome of its twins
TWIN_OUTCOMES: Mapping[str, Literal["same", "another", "unknown"]] = {
    "Same": "same", CHANGED: "another", "Unknown": "unknown",
}  # fmt: skip


@unless_named
def name_run() -> str:
    """Return the flow run's name: the night's day."""
    return f"night of {flow_run.scheduled_start_time.date().isoformat()}"


@job_flow(
    name="nightly",
    flow_run_name=name_run,
    description="Every case of every comparison in configs/nightly.yml.",
)
@with_parameters_of(NightOptions)
def nightly(options: NightOptions) -> State[Any]:
    """Compare every cell of the night; a failed cell is a result and does not stop the night."""
    store = open_store(options.out)
    plan = plan_night_step(options, store, flow_run.scheduled_start_time)
    results = list(run_cells(plan, store))
    culprits = list(find_culprits(plan, results, store)) if plan.bisect_budget_s else []
    twins = list(evaluate_night_twins(plan, store)) if plan.invariants else []
    record = finish_night_step(plan, results, store, culprits, twins)
    forget([flow_run.id], store)
    problems = publish(record, store)
    log_result([(night_headline(record), find_page(store.path / PAGE, store).shown)])
    return final_state_of_night(record, problems)


def run_cells(plan: NightPlan, store: Store) -> Iterator[CellResult]:
    """Yield the cells' results in order. At most `plan.slices` cells run at once."""
    jobs = Jobs(flow_run.id)
    events: dict[str, Compared] = {}  # id of a cell's flow run → the event of its comparison

    def keep(event: Event) -> None:
        if isinstance(event, Compared):
            events[event.flow_run] = event

    with EVENTS.heard_by(keep):
        cells = [partial(run_cell, plan, cell, store, jobs, events) for cell in plan.cells]
        yield from in_lanes(cells, plan.slices, jobs)


def find_culprits(plan: NightPlan, results: Sequence[CellResult], store: Store) -> Iterator[NightChange]:
    """Bisect each result of `find_new_regressions`; yield one change for each: how its bisection ended.

    The change has the bisection's headline and page, or the state's message if no bisection was published.
    """
    for result in find_new_regressions(plan, results, store):
        cell = result.cell
        headlines: list[str] = []

        def keep(event: Event, headlines: list[str] = headlines) -> None:
            if isinstance(event, Bisected):
                headlines.append(f"{event.record.headline} ({event.page.shown})")

        with EVENTS.heard_by(keep):
            options = BisectOptions(
                good=str(cell.arms.baseline), bad=str(cell.arms.branch), comparison=cell.comparison,
                cases=(cell.case,), target=plan.target, repository=cell.arms.repository or "", out=store.address,
                more=BisectMore(overrides=plan.overrides, budget=f"{plan.bisect_budget_s:f}s"),
            )  # fmt: skip
            state: State[Any] = bisect(**dict(options), return_state=True)
        yield name_culprit(cell, headlines[0] if headlines else state.message or "the bisection did not finish")


def evaluate_night_twins(plan: NightPlan, store: Store) -> Iterator[NightTwins]:
    """Evaluate the twins of each trainer that the night compared, in the cases outside quarantine; yield the answers.

    The trainer is that of the comparison's branch at the night's commit, or the installed one.
    """
    seen = set()
    for cell in plan.cells:
        trainer = load_comparison(cell.comparison).trainer
        ref, repository = cell.arms.branch or "", cell.arms.repository or ""
        if find_kind(trainer).takes_command or (trainer, ref, repository) in seen:
            continue
        seen.add((trainer, ref, repository))
        own = (one for one in plan.cells if one.comparison == cell.comparison and not one.quarantine)
        if not (cases := tuple(dict.fromkeys(one.case for one in own))):
            continue
        options = InvariantsOptions(
            trainer=trainer, ref=ref, repository=repository if ref else "", cases=cases, out=store.address
        )
        state: State[Any] = invariants(**dict(options), return_state=True)
        word = TWIN_OUTCOMES.get(state.name or "", "failed")
        if word == "failed":
            headline = state.message or "the twins were not evaluated"
            yield NightTwins(comparison=cell.comparison, outcome="failed", headline=headline)
            continue
        record = read_matrices(store, trainer)[-1]
        yield NightTwins(
            comparison=cell.comparison,
            outcome=word,
            headline=record.headline,
            broken=tuple(name_twin(one, several=len(cases) > 1) for one in record.having("another")),
            page=find_page(place_record(record, store) / PAGE, store).shown,
            next=record.next,
        )


def name_cell_run() -> str:
    """Return the name of a cell's flow run: case, arms and target."""
    request: Request = flow_run.parameters["request"]
    refs = (request.arms.baseline, request.arms.branch)
    return name_comparison(request.comparison, request.cases, request.target, refs)


@job_flow(
    name="compare",
    flow_run_name=name_cell_run,
    description="A cell of a night: the comparison of one case.",
    validate_parameters=False,  # called only by the nightly flow, with valid objects
)
def compare_cell(request: Request, out: str, jobs: Jobs, beside: int, decide_budget_s: float | None) -> State[Any]:
    """Compare one case, as the flow `compare` does. The jobs belong to this flow run and to the night's flow run.

    beside: number of the night's other cells of the same comparison.
    decide_budget_s: seconds for further repeats while the comparison is undecided; None: no further repeats.
    """
    patience = None if decide_budget_s is None else Patience(budget_s=decide_budget_s)
    return compare_cases(request, open_store(out), jobs, patience=patience, beside=beside)


def run_cell(plan: NightPlan, cell: NightCell, store: Store, jobs: Jobs, events: Mapping[str, Compared]) -> CellResult:
    """Run one cell and return its result, also if the cell fails. Raises Stopped if the night is being ended.

    events: id of a cell's flow run → the event of its comparison; filled while the cell runs.
    """
    jobs.check()
    started = time.monotonic()
    event = None
    request = Request(
        comparison=cell.comparison,
        cases=(cell.case,),
        target=plan.target,
        repeats=cell.repeats,
        overrides=plan.overrides,
        arms=cell.arms,
        blessed=BLESSED if cell.blessed else "",
        rules=plan.rules.get(cell.comparison),
    )
    beside = sum(other.comparison == cell.comparison for other in plan.cells) - 1

    def attempt() -> State[Any]:
        """Return the final state of the cell's flow run. Raises the error if a server outage ended it."""
        jobs.check()
        state: State[Any] = compare_cell(request, store.address, jobs, beside, plan.decide_budget_s, return_state=True)
        error = state.result(raise_on_failure=False) if state.is_failed() and state.name not in VERDICT_STATES else None
        if isinstance(error, Exception) and is_outage(error):
            raise error
        return state

    try:
        state = outlast(attempt)  # a retry reuses finished runs
        event = events.get(str(state.state_details.flow_run_id))
        message = state.message or state.name or "it did not say why"
    except Exception as error:  # an error of Prefect, or a long outage of its server: the night continues
        get_run_logger().exception("%s %s failed", cell.comparison, cell.case)
        message = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - started
    jobs.check()
    if event is None:
        return CellResult(cell=cell, outcome="failed", headline=message, seconds=seconds)
    record = event.record
    return CellResult(
        cell=cell,
        outcome=record.verdict,
        headline=record.headline,
        conclusion=record.conclusion,
        died=record.has_died,
        page=event.page.address,
        seconds=seconds,
    )


def publish(record: NightRecord, store: Store) -> list[str]:
    """Publish the night's summary, message and comment; return the errors of these steps instead of raising them."""
    problems = []
    steps: list[tuple[str, Callable[[], Any]]] = [
        (publish_night_step.name, lambda: publish_night_step(record, store)),
        (notify_night_step.name, lambda: notify_night_step(record, store)),
    ]
    place = record.plan.comment
    if place is not None:
        steps.append((comment_step.name, lambda: comment_step(comment_markdown(record), place)))
    for name, step in steps:
        try:
            step()
        except Exception as error:
            get_run_logger().exception("%s failed", name)
            problems.append(f"{name}: {type(error).__name__}: {error}")
    return problems


def final_state_of_night(record: NightRecord, problems: list[str]) -> State[Any]:
    """Return the night's final state.

    Failed: `Regressed` if a result or a twin is bad, else `NotPublished` if the summary, message or comment was not
    published.
    Completed: `Unknown` if a result outside quarantine is unknown, else `Same`. problems: the errors of `publish`.
    """
    message = " · ".join([night_headline(record), *(f"not published: {problem}" for problem in problems)])[:1000]
    if record.is_bad:
        return Failed(name="Regressed", message=message)
    if problems:
        return Failed(name="NotPublished", message=message)
    unknown = any(result.outcome == "unknown" for result in record.results if not result.cell.quarantine)
    return Completed(name="Unknown" if unknown else "Same", message=message)
