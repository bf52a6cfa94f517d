"""Runs several calls of a flow at once in threads (lanes), and ends their jobs with the flow."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from tasks.services.running_jobs import Jobs


def in_lanes[T](calls: Iterable[Callable[[], T]], lanes: int, jobs: Jobs) -> Iterator[T]:
    """Yield the calls' results in the order of the calls; `lanes` of them run at once.

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
            if not isinstance(error, Exception):  # an interrupt: the threads end once their jobs have ended
                jobs.stop_all()
            raise
