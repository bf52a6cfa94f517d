"""Does several things of a flow at once, each in a lane of its own, and ends them with the flow."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from tasks.services.running_jobs import Jobs


def in_lanes[T](calls: Iterable[Callable[[], T]], lanes: int, jobs: Jobs) -> Iterator[T]:
    """What the calls return, in their order; a lane takes the next call when its last one is over.

    Where one raises, those that have not begun are left out. Where the flow is being ended, so are the jobs of all.
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
            if not isinstance(error, Exception):  # the lanes see it by their jobs
                jobs.stop_all()
            raise
