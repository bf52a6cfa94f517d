"""The flow `preflight`: resolve → compile both arms for a slice → compare → publish."""

from typing import Annotated, Any
from uuid import uuid4

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled

from configs.errors import ConfigError
from flows.compare import compile_cases
from tasks.preflight.read import find_missing_compilers
from tasks.resolve.arm_trainers import ArmOptions
from tasks.resolve.plans import Request
from tasks.services.cleanup import on_cancellation, on_crashed
from tasks.services.endings import final_state, tell_end
from tasks.services.events import EVENTS, Compared, Planned
from tasks.services.run_form import (
    Baseline,
    Branch,
    Cases,
    Field,
    Model,
    Overrides,
    Repository,
    Software,
    choices,
    show_name,
    tag_run,
)
from tasks.services.running_jobs import Jobs, Stopped
from tasks.steps import forget_step, publish_step, resolve_step, summarise_step
from tasks.store import open_store


def name_run() -> str:
    """Return the flow run's name: cases, comparison and target."""
    wanted = flow_run.parameters
    cases = ", ".join(wanted.get("cases") or ["its own cases"])
    return show_name(f"{wanted['comparison']}: {cases} compiled for {wanted['target']}")


@flow(
    name="preflight",
    flow_run_name=name_run,
    description="Compile both arms of a comparison for a TPU slice, without one, and say what differs.",
    on_cancellation=[on_cancellation],
    on_crashed=[on_crashed],
)
def preflight(
    comparison: Annotated[
        str,
        Field(description="What to compare: a file in configs/comparisons", json_schema_extra=choices("comparisons")),
    ] = "linen-vs-nnx",
    cases: Cases = [],  # noqa: B006 - a run form needs a plain default; nothing changes it
    target: Annotated[
        str, Field(description="A target that names a topology", json_schema_extra=choices("targets"))
    ] = "v6e-32",
    model: Model = None,
    overrides: Overrides = [],  # noqa: B006
    branch: Branch = None,
    baseline: Baseline = None,
    repository: Repository = None,
    software: Software = [],  # noqa: B006
    out: Annotated[str, Field(description="Folder for compiles, records and pages")] = "maxview-out",
    fresh: Annotated[bool, Field(description="Compile again even if equal compiles have finished before")] = False,
) -> State[Any]:
    """Compile both arms of every case for a slice, and publish what differs."""
    jobs = Jobs()
    store = open_store(out)
    request = Request(
        comparison=comparison,
        cases=tuple(cases),
        target=target,
        model=model,
        overrides=tuple(overrides),
        fresh=uuid4().hex if fresh else "",
        arms=ArmOptions(baseline=baseline, branch=branch, repository=repository, software=tuple(software)),
        compile_only=True,
    )
    plans = resolve_step(request, store)
    tag_run(comparison, [*dict.fromkeys(plan.case for plan in plans)], target, [branch])
    missing = find_missing_compilers(plans)
    if missing:
        raise ConfigError(missing)
    EVENTS.put(Planned(plans))
    results = []
    try:
        for record in compile_cases(plans, store, jobs):
            page = publish_step(record, store)
            EVENTS.put(Compared(record, page, str(flow_run.id)))
            results.append((record, page))
    except Stopped as stopped:
        return Cancelled(message=str(stopped))
    summarise_step([record for record, _ in results], f"{comparison} preflight")
    forget_step(flow_run.id, store)
    tell_end((f"{record.case}: {record.headline}", page.told) for record, page in results)
    return final_state([record for record, _ in results])
