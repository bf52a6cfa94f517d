"""The flow `preflight`: resolve → compile both arms for a TPU slice → compare the programs → publish."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled

from configs.comparison import load_target
from configs.errors import ConfigError
from flows.compare import run_one
from flows.compare_steps import resolve_step
from flows.publish_steps import publish_case, publish_step, show_verdict
from questions.preflight.planned_compiles import find_missing_compilers, order_compiles
from questions.preflight.steps import diff_compiles_step
from tasks.diff.phrases.headlines import tell_headline
from tasks.launch.owners import forget
from tasks.programs.compile_lanes import count_lanes
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import RunPlan
from tasks.resolve.options import PreflightOptions
from tasks.resolve.plans import CompileRequest, Request, request_compiles
from tasks.services.events import EVENTS, Planned, Troubled
from tasks.services.flow_names import show_name, unless_named
from tasks.services.flow_runs import job_flow
from tasks.services.prefect_ui import final_state, log_result, tag_run, with_parameters_of
from tasks.services.running_jobs import Jobs, Stopped, in_lanes
from tasks.store.store import Store, open_store


@unless_named
def name_run() -> str:
    """Return the flow run's name: cases, comparison and target."""
    given = flow_run.parameters
    cases = ", ".join(given.get("cases") or ["its own cases"])
    return show_name(f"{given['comparison']}: {cases} compiled for {given['target']}")


@job_flow(
    name="preflight",
    flow_run_name=name_run,
    description="Compile both arms of a comparison for a TPU slice, without one, and say what differs.",
)
@with_parameters_of(PreflightOptions)
def preflight(options: PreflightOptions) -> State[Any]:
    """Compile both arms of every case for the target's slice, and publish the differences between the programs."""
    jobs = Jobs()
    store = open_store(options.out)
    plans = resolve_step(request_compiles(options), store)
    tag_run(options.comparison, [*dict.fromkeys(plan.case for plan in plans)], options.target, [options.branch])
    missing = find_missing_compilers(plans)
    if missing:
        raise ConfigError(missing)
    EVENTS.put(Planned(plans))
    results = []
    try:
        for record in compile_cases(plans, store, jobs):
            results.append(publish_case(record, store))
    except Stopped as stopped:
        return Cancelled(message=str(stopped))
    show_verdict(results, options.comparison, "preflight")
    forget([flow_run.id], store)
    log_result((f"{record.case}: {record.headline}", page.shown) for record, page in results)
    return final_state([record for record, _ in results])


def refuse_cases(request: Request, target: str, store: Store, jobs: Jobs) -> dict[str, ComparisonRecord]:
    """Compile all cases for the target's slice; return case → comparison of its programs for the cases that do not fit.

    Publishes the comparisons of the other cases. Compiles nothing and returns {} if the target has no topology; also,
    but with a warning, if a config is wrong or a compiler is missing.
    """
    if load_target(target).topology is None:
        return {}
    try:
        plans = resolve_step(CompileRequest(**dict(request)), store)
        missing = find_missing_compilers(plans)
    except ConfigError as error:
        plans, missing = [], list(error.problems)
    if missing:
        message = f"preflight was left out: {'; '.join(missing)}"
        get_run_logger().warning("%s", message)
        EVENTS.put(Troubled(message))
        return {}
    EVENTS.put(Planned(plans))
    refused = {}
    for record in compile_cases(plans, store, jobs):
        if record.programs and record.programs.unfit:
            conclusion = record.conclusion.replace(launched=False)
            refused[record.case] = record.replace(conclusion=conclusion, headline=tell_headline(conclusion))
        else:
            publish_step(record, store)
    return refused


def compile_cases(plans: list[RunPlan], store: Store, jobs: Jobs) -> Iterator[ComparisonRecord]:
    """Compile the plans, several at once; yield each case's comparison of programs once its arms are compiled."""
    lanes = count_lanes(len(plans))
    groups = order_compiles(plans, lanes)
    compiles = [partial(run_one, plan, store, jobs, among=[plan]) for plan in chain(*groups)]
    records = in_lanes(compiles, lanes, jobs)
    for group in groups:
        done = [(plan.case, next(records)) for plan in group]
        for case in dict.fromkeys(plan.case for plan in group):
            yield diff_compiles_step(case, [record for its_case, record in done if its_case == case], store)
