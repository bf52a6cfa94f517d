"""Turns plans into the records of their runs, one run after another: held, launched, watched, verified, scraped."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from prefect import get_run_logger
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run

from tasks.ingest.run_record import unverified_steps
from tasks.launch import job
from tasks.launch.cross_restore import find_partner
from tasks.launch.one_flow_per_run import turn_of
from tasks.launch.owners import is_owned
from tasks.launch.replay import holds_checkpoints
from tasks.records import CheckpointCommitted, CheckpointProof, RunHandle, RunPlan, RunRecord
from tasks.services.cleanup import is_running
from tasks.services.events import Events, Launched, Logged, Reused, Stopping, Verified, Waits
from tasks.services.flow_runs import goes_on, life_of
from tasks.services.running_jobs import Jobs
from tasks.services.slices import slice_of
from tasks.steps import launch_step, scrape_step, verify_step, watch_step
from tasks.store import Store


def run_all(
    plans: list[RunPlan], store: Store, events: Events, jobs: Jobs, *, take_over: bool = False
) -> Iterator[RunRecord]:
    """The records of the plans of a case: those that have finished before are read, the others run one after another.

    They keep the slice from the first to the last, so that no other comparison runs between an arm and the other. Each
    restores a checkpoint of the other arm, as a proof.
    """
    holding = False
    with ExitStack() as held:
        for plan in plans:
            finished = store.run(plan.run_name).read_record()
            if finished is not None and finished.is_finished:
                events.put(Reused(plan))
                yield finished
                continue
            if not holding:
                held.enter_context(slice_of(plan.target))
                holding = True
            yield run_in_turn(plan, store, events, jobs, among=plans, take_over=take_over)


def run_in_turn(
    plan: RunPlan, store: Store, events: Events, jobs: Jobs, *, among: list[RunPlan], take_over: bool = False
) -> RunRecord:
    """The record of one run: made here, or by the flow that this one has waited for."""
    with turn_of(
        plan,
        store.run(plan.run_name),
        jobs.owners(flow_run.id),
        life_of=life_of,
        wait=waiting(plan, events, jobs),
        take_over=take_over,
    ) as finished:
        if finished is not None:
            events.put(Reused(plan))
            return finished
        return run_one(plan, store, events, jobs=jobs, continue_from=find_partner(plan, among, store))


def waiting(plan: RunPlan, events: Events, jobs: Jobs) -> Callable[[str], None]:
    """What tells why a run has to wait, once, and ends the waiting if the flow is ended."""
    reported: set[str] = set()

    def wait(why: str) -> None:
        jobs.check()
        if why not in reported:
            reported.add(why)
            get_run_logger().info("%s", why)
            events.put(Waits(plan, why))

    return wait


def run_one(plan: RunPlan, store: Store, events: Events, *, jobs: Jobs, continue_from: Path | None) -> RunRecord:
    """The record of one run: launched, watched, verified and scraped."""
    directory, owners = store.run(plan.run_name), jobs.owners(flow_run.id)
    jobs.check()
    logger = get_run_logger()  # here: what ends jobs has threads of its own, in which Prefect knows no run
    proofs: list[PrefectFuture[CheckpointProof]] = []

    def stop(handle: RunHandle) -> None:
        if why := find_heir(plan, owners, store):
            logger.info("%s: left running; %s", handle.job_name, why)
            return
        events.put(Stopping(plan))
        job.stop(handle)

    def stop_if_there() -> None:
        handle = directory.read_handle()
        if handle is not None and is_running(handle):
            stop(handle)

    with jobs.launching(plan, stop_if_there):
        handle = launch_step(plan, directory, continue_from, owners, store)
    events.put(Launched(plan, handle))
    with jobs.holding(plan, handle, stop):
        for event in watch_step(plan, directory, handle):
            events.put(Logged(plan, event))
            jobs.check()
            if isinstance(event, CheckpointCommitted) and holds_checkpoints(plan):
                path = job.find_checkpoint(plan, directory, event.step)
                proofs.append(verify_step.submit(path, directory.manifest(event.step)))
    done = [future.result() for future in proofs]
    left = unverified_steps(plan, directory, done)
    done += [verify_step(path, directory.manifests / f"{path.name}.json") for path in left]
    events.put(Verified(plan, done))
    record: RunRecord = scrape_step(plan, directory, done)
    return record


def find_heir(plan: RunPlan, owners: tuple[str, ...], store: Store, *, goes_on: Callable[[str], bool] = goes_on) -> str:
    """Who goes on with the job of a flow that ends, as a sentence; empty: nobody does, and the job has to end."""
    if not is_owned(plan.run_name, owners, store):
        return "this flow run was given up, and another has its job"
    if not job.is_here(plan) and any(goes_on(owner) for owner in owners):  # others end with the pod: they may save
        return "this flow run goes on with it in another pod"
    return ""
