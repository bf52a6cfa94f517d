"""The flow `compare`: resolve → launch → watch and verify → scrape → diff → publish."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

from configs.comparison import Kind, list_names, load_comparison
from configs.load import ConfigError
from flows.cleanup import on_cancellation, on_crashed
from flows.form import Field, show_name
from flows.jobs import Jobs, Stopped, current_jobs
from flows.report import Report, current_report
from flows.slices import slice_of
from tasks.arms import ArmWishes
from tasks.diff import exit_status
from tasks.diff.case import CaseRuns
from tasks.diff.until import MOST_REPEATS, Patience
from tasks.launch import job
from tasks.launch.places import find_checkpoint
from tasks.launch.replay import holds_checkpoints
from tasks.owners import is_owned
from tasks.partner import find_partner
from tasks.publish.comment import comparison_comment
from tasks.publish.pull_request import parse_pull_request
from tasks.publish.site import PublishedPage
from tasks.record import is_finished, unverified_steps
from tasks.records import CheckpointProof, ComparisonRecord, RunHandle, RunPlan, RunRecord
from tasks.refs import LONGEST_NAME
from tasks.resolve import Request
from tasks.scrape import CheckpointCommitted
from tasks.steps import (
    comment_step,
    diff_step,
    forget_step,
    goes_on,
    launch_step,
    life_of,
    publish_step,
    repeat_step,
    resolve_step,
    scrape_step,
    summarise_step,
    verify_step,
    watch_step,
)
from tasks.store import Store, open_store
from tasks.turns import turn_of


def _choices(kind: Kind) -> dict[str, Any]:
    """A dropdown in the run form. The names are checked again when they are resolved, with a suggestion."""
    return {"enum": list(list_names(kind))}


def name_run() -> str:
    """The flow run's name: cases, arms and target."""
    wanted = flow_run.parameters
    try:
        spec = load_comparison(wanted["comparison"])
    except ConfigError:  # the resolve step says what is wrong with it
        return show_name(str(wanted["comparison"]))
    cases = ", ".join(wanted.get("cases") or spec.cases)
    arms = [arm.name for arm in spec.arms]
    if spec.has_refs:
        arms = [
            (wanted.get(side) or arm.ref or arm.name).partition(":")[0]
            for side, arm in zip(("baseline", "branch"), spec.arms, strict=True)
        ]
    return show_name(f"{cases}: {' vs '.join(arms)} on {wanted.get('target') or spec.target}")


@flow(
    name="compare",
    flow_run_name=name_run,
    description="Train both arms of a comparison and say what differs.",
    on_cancellation=[on_cancellation],
    on_crashed=[on_crashed],
)
def compare(
    comparison: Annotated[
        str,
        Field(description="What to compare: a file in configs/comparisons", json_schema_extra=_choices("comparisons")),
    ] = "linen-vs-nnx",
    cases: Annotated[
        list[str], Field(description="Cases, for example 03_dropout; empty: those of the comparison; all: every case")
    ] = [],  # noqa: B006 - a run form needs a plain default; nothing changes it
    target: Annotated[str | None, Field(description="Where to run; empty: the comparison's own target")] = None,
    model: Annotated[str | None, Field(description="Model file; empty: the target's own model")] = None,
    repeats: Annotated[
        int | None, Field(ge=1, le=100, description="Runs per arm, interleaved; empty: as the comparison says")
    ] = None,
    overrides: Annotated[
        list[str], Field(description="Config values for both arms, each key=value, for example steps=50")
    ] = [],  # noqa: B006
    branch: Annotated[
        str | None,
        Field(max_length=LONGEST_NAME, description="main-vs-branch: the branch, tag or commit to judge; empty: HEAD"),
    ] = None,
    baseline: Annotated[
        str | None,
        Field(max_length=LONGEST_NAME, description="main-vs-branch: what to judge it against; empty: main"),
    ] = None,
    repository: Annotated[
        str | None, Field(description="main-vs-branch: clone or address with both; empty: maxview's own checkout")
    ] = None,
    software: Annotated[
        list[str], Field(description="Packages or a Python for one arm, for example branch:jax==0.11.0")
    ] = [],  # noqa: B006
    aa: Annotated[bool, Field(description="A control: both arms are meant to be the same commit")] = False,
    until_decided: Annotated[
        bool, Field(description="Go on with more repeats until every judged row is decided or the budget ends")
    ] = False,
    budget_s: Annotated[float | None, Field(gt=0, description="Seconds for that; empty: no limit")] = None,
    max_repeats: Annotated[
        int | None, Field(ge=1, le=100, description=f"Runs per arm at most for that; empty: {MOST_REPEATS}")
    ] = None,
    out: Annotated[str, Field(description="Folder for runs, records and pages")] = "maxview-out",
    fresh: Annotated[bool, Field(description="Train again even if equal runs have finished before")] = False,
    take_over: Annotated[
        bool, Field(description="Go on with runs in a bucket that a machine has claimed which is gone for good")
    ] = False,
    comment: Annotated[
        str | None, Field(description="A pull request on GitHub, owner/name#12, whose comment shows the verdict")
    ] = None,
) -> State[Any]:
    """Train both arms of every case, verify their checkpoints meanwhile, and publish what differs."""
    report, jobs, began = current_report(), current_jobs(), time.monotonic()
    if comment:
        parse_pull_request(comment)  # a mistake in it is told before anything is trained
    store = open_store(out)
    request = Request(
        comparison=comparison,
        cases=tuple(cases),
        target=target,
        model=model,
        repeats=repeats,
        overrides=tuple(overrides),
        fresh=uuid4().hex if fresh else "",
        arms=ArmWishes(baseline=baseline, branch=branch, repository=repository, software=tuple(software), aa=aa),
    )
    patience = Patience(budget_s=budget_s, most=max_repeats or MOST_REPEATS) if until_decided else None
    plans = resolve_step(request, store)
    # a ref may move meanwhile: what may be needed later is resolved now
    spare = resolve_step(request.model_copy(update={"repeats": patience.most}), store) if patience else []
    report.planned(plans)
    comparisons = []
    cases_in_all = len({plan.case for plan in plans})
    try:
        for case, group in groupby(plans, key=lambda plan: plan.case):
            records = list(run_all(list(group), store, report, jobs, take_over=take_over))
            runs = CaseRuns(
                comparison=comparison, case=case, target=plans[0].target, runs=tuple(records), cases=cases_in_all
            )
            if patience is None:
                result = diff_step(runs, store)
            else:
                result = run_until_decided(
                    runs, spare, store, report, jobs, patience=patience, began=began, take_over=take_over
                )
            page = publish_step(result, store)
            report.compared(result, page)
            comparisons.append((result, page))
    except Stopped as stopped:  # the night that this is a part of is being ended
        return Cancelled(message=str(stopped))
    results = [result for result, _ in comparisons]
    summarise_step(results, comparison)
    problem = write_comment(comparisons, comparison, comment) if comment else ""
    if problem:
        report.troubled(problem)
    forget_step(flow_run.id, store)
    return final_state(results, problem)


def write_comment(comparisons: list[tuple[ComparisonRecord, PublishedPage]], name: str, place: str) -> str:
    """Write the comment on a pull request; returns what went wrong with it, which hides no verdict."""
    try:
        comment_step(comparison_comment(comparisons, name), place)
    except Exception as error:
        get_run_logger().exception("%s failed", comment_step.name)
        return f"no comment: {type(error).__name__}: {error}"
    return ""


def run_all(
    plans: list[RunPlan], store: Store, report: Report, jobs: Jobs, *, take_over: bool = False
) -> Iterator[RunRecord]:
    """The records of the plans of a case: those that have finished before are read, the others run one after another.

    They keep the slice from the first to the last, so that no other comparison runs between an arm and the other. Each
    restores a checkpoint of the other arm, as a proof.
    """
    holding = False
    with ExitStack() as held:
        for plan in plans:
            finished = store.run(plan.run_name).read_record()
            if finished is not None and is_finished(finished):
                report.reused(plan)
                yield finished
                continue
            if not holding:
                held.enter_context(slice_of(plan.target))
                holding = True
            with turn_of(
                plan,
                store.run(plan.run_name),
                jobs.owners(flow_run.id),
                life_of=life_of,
                wait=waiting(plan, report, jobs),
                take_over=take_over,
            ) as finished:
                if finished is None:
                    partner = find_partner(plan, plans, store)
                    record = run_one(plan, store, report, jobs=jobs, continue_from=partner)
                else:  # by the flow that this one has waited for
                    report.reused(plan)
                    record = finished
            yield record


def waiting(plan: RunPlan, report: Report, jobs: Jobs) -> Callable[[str], None]:
    """What tells why a run has to wait, once, and ends the waiting if the flow is ended."""
    told: set[str] = set()

    def wait(why: str) -> None:
        jobs.check()
        if why not in told:
            told.add(why)
            get_run_logger().info("%s", why)
            report.waits(plan, why)

    return wait


def run_until_decided(
    runs: CaseRuns,
    spare: list[RunPlan],
    store: Store,
    report: Report,
    jobs: Jobs,
    *,
    patience: Patience,
    began: float,
    take_over: bool = False,
) -> ComparisonRecord:
    """Look, and as long as more repeats may decide and are allowed: run them, interleaved, and look again."""
    look = 1
    while True:
        result: ComparisonRecord = diff_step(runs.model_copy(update={"look": look}), store)
        repeats, spent_s = len(runs.runs) // 2, time.monotonic() - began
        following = repeat_step(result, patience, repeats, spent_s)
        numbers = range(repeats, following.repeats or repeats)
        plans = [plan for plan in spare if plan.case == runs.case and plan.repeat in numbers]
        report.extended(plans, following.why)
        if not plans:
            return result
        more = run_all(plans, store, report, jobs, take_over=take_over)
        runs = runs.model_copy(update={"runs": (*runs.runs, *more)})
        look += 1


def run_one(plan: RunPlan, store: Store, report: Report, *, jobs: Jobs, continue_from: Path | None) -> RunRecord:
    """The record of one run: launched, watched, verified and scraped."""
    directory, owners = store.run(plan.run_name), jobs.owners(flow_run.id)
    jobs.check()
    handle = launch_step(plan, directory, continue_from, owners, store)
    report.launched(plan, handle)
    proofs: list[PrefectFuture[CheckpointProof]] = []

    def stop(handle: RunHandle) -> None:
        if not is_owned(plan.run_name, owners, store):  # this flow was given up, and another goes on with the job
            return
        if plan.backend == "xpk" and any(goes_on(owner) for owner in owners):  # others end with the pod: they may save
            get_run_logger().info("%s: left running; this flow run goes on with it in another pod", handle.job_name)
            return
        report.stopping(plan)
        job.stop(handle)

    with jobs.holding(plan, handle, stop):
        for event in watch_step(plan, directory, handle):
            report.saw(plan, event)
            jobs.check()
            if isinstance(event, CheckpointCommitted) and holds_checkpoints(plan):
                path = find_checkpoint(plan, directory, event.step)
                proofs.append(verify_step.submit(path, directory.manifest(event.step)))
    done = [future.result() for future in proofs]
    done += [verify_step(path, directory.manifests / f"{path.name}.json") for path in unverified_steps(directory, done)]
    report.verified(plan, done)
    record: RunRecord = scrape_step(plan, directory, done)
    return record


def final_state(comparisons: list[ComparisonRecord], problem: str = "") -> State[Any]:
    """The flow run's end: Failed if something regressed or an arm died, else Completed; its name is the verdict."""
    status = exit_status(comparisons)
    verdicts = [f"{record.case}: {record.headline}" for record in comparisons]
    message = " · ".join(([problem] if problem else []) + verdicts)[:1000]
    if status == 1:
        return Failed(name="Regressed", message=message)
    names = {0: "Improved" if any(r.verdict == "improved" for r in comparisons) else "Same", 3: "Unknown"}
    return Completed(name=names[status], message=message)
