"""Gives a flow exclusive access to a run, and ends the run's job when the flow ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prefect import get_run_logger
from prefect.runtime import flow_run

from tasks.launch import job
from tasks.launch.job import LaunchedRun
from tasks.launch.one_flow_per_run import find_heir, turn_of
from tasks.launch.owners import own
from tasks.records import RunHandle, RunPlan, RunRecord
from tasks.services.cleanup import is_running
from tasks.services.events import EVENTS, Launched, Reused, Stopping, Troubled, Waits
from tasks.services.flow_runs import goes_on, life_of
from tasks.services.running_jobs import Jobs
from tasks.store import Store


@contextmanager
def held_run(plan: RunPlan, store: Store, jobs: Jobs, *, take_over: bool) -> Iterator[RunRecord | None]:
    """Lock a run for the block. Yields its record if it has already finished, else None. take_over: see `turn_of`."""
    logger = get_run_logger()
    owners = jobs.owners(flow_run.id)
    reported: set[str] = set()

    def wait(why: str) -> None:
        jobs.check()
        if why not in reported:
            reported.add(why)
            logger.info("%s", why)
            EVENTS.put(Waits(plan, why))

    def tell(what: str) -> None:
        logger.warning("%s", what)
        EVENTS.put(Troubled(what))

    directory = store.run(plan.run_name)
    with turn_of(plan, directory, owners, life_of=life_of, wait=wait, tell=tell, take_over=take_over) as finished:
        if finished is not None:
            EVENTS.put(Reused(plan))
        yield finished


@contextmanager
def held_job(plan: RunPlan, store: Store, jobs: Jobs, *, launch: Callable[[], LaunchedRun]) -> Iterator[LaunchedRun]:
    """Launch a job for this flow run. If the block raises or the flow is ended, the job is ended too.

    Leaves the job running if another flow run continues it.
    """
    logger = get_run_logger()  # needs Prefect's run context, which the threads that end jobs do not have
    owners = jobs.owners(flow_run.id)

    def stop(handle: RunHandle) -> None:
        if why := find_heir(plan, owners, store, goes_on=goes_on):
            logger.info("%s: left running; %s", handle.job_name, why)
            return
        EVENTS.put(Stopping(plan))
        job.stop(handle)

    def stop_if_there() -> None:
        handle = store.run(plan.run_name).read_handle()
        if handle is not None and is_running(handle):
            stop(handle)

    jobs.check()
    own(plan.run_name, owners, store)
    with jobs.launching(plan.run_name, stop_if_there):
        run = launch()
    EVENTS.put(Launched(run))
    with jobs.holding(plan.run_name, lambda: stop(run.handle)):
        yield run
