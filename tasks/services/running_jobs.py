"""Runs the jobs of flows: locks each run for one flow, and ends the run's job if the flow ends before the job.

The job of an ending flow is left running if another flow run, or this flow run in another pod, continues the job.

A run is one training or compile by a plan; a job is the process or workload that executes the run. A lane is one of the
threads in which a flow makes several calls at once.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from weakref import WeakSet

from prefect import get_run_logger
from prefect.runtime import flow_run

from tasks.launch import job
from tasks.launch.backend import LaunchedRun
from tasks.launch.known_backends import read_handle
from tasks.launch.owners import find_heir, own, turn_of
from tasks.records.plan import RunHandle, RunPlan
from tasks.records.run import RunRecord
from tasks.services.events import EVENTS, Launched, Reused, Stopping, Troubled, Waits
from tasks.services.flow_runs import is_job_running, is_rescheduled, life_of
from tasks.store.store import Store


class Stopped(RuntimeError):
    """The flow is being ended, so no further job may start."""


class Jobs:
    """The running jobs of one flow and of the flows that it runs in threads."""

    def __init__(self, parent: str | None = None) -> None:
        self._parent = parent  # id of the flows' parent flow run; None: there is none
        self._lock = threading.Lock()
        self._running: dict[str, Callable[[], None]] = {}  # run name → function that ends its job
        self._stopping = False
        _here.add(self)

    @contextmanager
    def holding(self, run_name: str, stop: Callable[[], None]) -> Iterator[None]:
        """Register `stop`, which ends a job, while the block runs, and call `stop` if the block raises.

        Raises Stopped if `stop_all` was called, so that a truncated job is not taken for a result.
        """
        end = _once(stop)
        with self._lock:
            self._running[run_name] = end
        try:
            self.check()
            yield
            self.check()
        except BaseException:  # the job is ended also after Ctrl-C and cancellation
            end()
            raise
        finally:
            with self._lock:
                self._running.pop(run_name, None)

    @contextmanager
    def launching(self, run_name: str, stop: Callable[[], None]) -> Iterator[None]:
        """Register `stop` while the block starts or finds a job, and afterwards until `holding` replaces `stop`."""
        with self._lock:
            self._running[run_name] = stop
        try:
            yield
        except Exception:  # the launch failed. Not after Ctrl-C, when the job may exist: `stop` stays registered
            with self._lock:
                self._running.pop(run_name, None)
            raise

    def owners(self) -> tuple[str, ...]:
        """Return the ids of the flow runs that own this flow's jobs: the flow run and its parent, if they exist."""
        return tuple(dict.fromkeys(id for id in (flow_run.id, self._parent) if id))

    def check(self) -> None:
        """Raise Stopped once `stop_all` was called."""
        if self._stopping:
            raise Stopped("the flow was ended, and its jobs with it")

    def stop_all(self) -> None:
        """Call all registered `stop` functions in parallel, wait for them, and prevent new jobs."""
        with self._lock:
            self._stopping = True
            running = list(self._running.values())
        threads = [threading.Thread(target=stop) for stop in running]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


_here: "WeakSet[Jobs]" = WeakSet()  # of all flows in this process


def stop_every_job() -> None:
    """Call `stop_all` for all flows in this process."""
    for jobs in list(_here):
        jobs.stop_all()


def _once(end: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `end`, unless `end` has already returned; concurrent callers wait for each other."""
    lock, done = threading.Lock(), False

    def run() -> None:
        nonlocal done
        with lock:
            if not done:
                end()
                done = True

    return run


@contextmanager
def held_run(plan: RunPlan, store: Store, jobs: Jobs, *, take_over: bool) -> Iterator[RunRecord | None]:
    """Lock a run for the block. Yields the record of a run that has already finished, else None.

    While another flow has the run, waits for it. take_over: replace another machine's claim even if Prefect's server
    does not have the claim's flow runs; otherwise such a claim raises TakenError.
    """
    logger = get_run_logger()
    owners = jobs.owners()
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
    """Yield the job that `launch` starts or finds; this flow run owns the job.

    If the block raises or the flow is ended, the job is ended too, unless another flow run, or this flow run in another
    pod, continues the job.
    """
    logger = get_run_logger()  # needs Prefect's run context, which the threads that end jobs do not have
    owners = jobs.owners()
    jobs.check()
    own(plan.run_name, owners, store)

    def stop(handle: RunHandle) -> None:
        if why := find_heir(plan, owners, store, is_rescheduled=is_rescheduled):
            logger.info("%s: left running; %s", handle.job_name, why)
            return
        EVENTS.put(Stopping(plan))
        job.stop(handle)

    def stop_if_there() -> None:
        handle = read_handle(store.run(plan.run_name))
        if handle is not None and is_job_running(handle):
            stop(handle)

    with jobs.launching(plan.run_name, stop_if_there):
        run = launch()
    EVENTS.put(Launched(run))
    with jobs.holding(plan.run_name, lambda: stop(run.handle)):
        yield run


def in_lanes[T](calls: Iterable[Callable[[], T]], lanes: int, jobs: Jobs) -> Iterator[T]:
    """Yield the calls' results in the order of the calls; up to `lanes` of them run at once.

    If a call raises, pending calls are cancelled. If the flow is interrupted, the jobs of all calls are ended.
    """
    with ThreadPoolExecutor(max_workers=lanes, thread_name_prefix="lane") as pool:
        futures = []
        try:
            for call in calls:
                futures.append(pool.submit(copy_context().run, call))
            for future in futures:
                yield future.result()
        except BaseException as error:
            for future in futures:
                future.cancel()
            # An interrupt: the threads end once their jobs have ended. After the last result, GeneratorExit is normal.
            if not isinstance(error, Exception) and not all(future.done() for future in futures):
                jobs.stop_all()
            raise
