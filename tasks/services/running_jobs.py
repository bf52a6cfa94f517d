"""Tracks the running jobs of the flows in this process, so that they can be ended before the process ends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet


class Stopped(RuntimeError):
    """The flow is being ended, so no further job may start."""


class Jobs:
    """The running jobs of one flow and of the flows that it runs in threads."""

    def __init__(self, night: str | None = None) -> None:
        self._night = night  # id of the flows' parent flow run; None: there is none
        self._lock = threading.Lock()
        self._running: dict[str, Callable[[], None]] = {}  # run name → function that ends its job
        self._stopping = False
        _here.add(self)

    @contextmanager
    def holding(self, run_name: str, stop: Callable[[], None]) -> Iterator[None]:
        """Register `stop`, which ends a job, while the block runs, and call it if the block raises.

        Raises Stopped if `stop_all` was called, so that a truncated job is not taken for a result.
        """
        end = _once(stop)
        with self._lock:
            self._running[run_name] = end
        try:
            self.check()
            yield
            self.check()
        except BaseException:  # BaseException, to end the job also after Ctrl-C and cancellation
            end()
            raise
        finally:
            with self._lock:
                self._running.pop(run_name, None)

    @contextmanager
    def launching(self, run_name: str, stop: Callable[[], None]) -> Iterator[None]:
        """Register `stop` while the block starts or finds a job, and after it until `holding` replaces it."""
        with self._lock:
            self._running[run_name] = stop
        try:
            yield
        except Exception:  # the launch failed. After Ctrl-C (no Exception) the job may exist and stays registered
            with self._lock:
                self._running.pop(run_name, None)
            raise

    def owners(self, flow_run: str | None) -> tuple[str, ...]:
        """Return the ids of the flow runs that own a job of `flow_run`: itself and its parent, if they exist."""
        return tuple(dict.fromkeys(id for id in (flow_run, self._night) if id))

    def check(self) -> None:
        """Raise Stopped once `stop_all` was called."""
        if self._stopping:
            raise Stopped("the flow was ended, and its jobs with it")

    def stop_all(self) -> None:
        """End all registered jobs in parallel, and prevent new ones."""
        with self._lock:
            self._stopping = True
            running = list(self._running.values())
        threads = [threading.Thread(target=stop) for stop in running]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


_here: "WeakSet[Jobs]" = WeakSet()


def stop_every_job() -> None:
    """End every job of this process, and prevent new ones."""
    for jobs in list(_here):
        jobs.stop_all()


def _once(end: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `end` only at its first call; concurrent callers wait until `end` returns."""
    lock, done = threading.Lock(), False

    def run() -> None:
        nonlocal done
        with lock:
            if not done:
                end()
                done = True

    return run
