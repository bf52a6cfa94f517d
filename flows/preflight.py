"""The flow `preflight`: resolve → compile both arms for a TPU slice → compare the programs → publish."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled

from configs.errors import ConfigError
from flows.compare import compile_cases, publish_case
from flows.compare_steps import resolve_step
from flows.publish_steps import summarise_step
from tasks.extensions.preflight.planned_compiles import find_missing_compilers
from tasks.launch.owners import forget
from tasks.resolve.options import PreflightOptions
from tasks.resolve.plans import request_compiles
from tasks.services.events import EVENTS, Planned
from tasks.services.flow_runs import end_jobs
from tasks.services.prefect_ui import final_state, log_result, show_name, tag_run, unless_named, with_parameters_of
from tasks.services.running_jobs import Jobs, Stopped
from tasks.store import open_store


@unless_named
def name_run() -> str:
    """Return the flow run's name: cases, comparison and target."""
    given = flow_run.parameters
    cases = ", ".join(given.get("cases") or ["its own cases"])
    return show_name(f"{given['comparison']}: {cases} compiled for {given['target']}")


@flow(
    name="preflight",
    flow_run_name=name_run,
    description="Compile both arms of a comparison for a TPU slice, without one, and say what differs.",
    on_cancellation=[end_jobs],
    on_crashed=[end_jobs],
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
    summarise_step([record for record, _ in results], f"{options.comparison} preflight")
    forget([flow_run.id], store)
    log_result((f"{record.case}: {record.headline}", page.shown) for record, page in results)
    return final_state([record for record, _ in results])
