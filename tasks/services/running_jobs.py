"""Knows the jobs that this process has running, so that whoever ends the process can end them first."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet


class Stopped(RuntimeError):
    """The flow is being ended: no further job is started."""


class Jobs:
    """The running jobs of one flow and of the flows that it runs in threads."""

    def __init__(self, night: str | None = None) -> None:
        self._night = night  # the flow run that all of them belong to, if each has one of its own
        self._lock = threading.Lock()
        self._running: dict[str, Callable[[], None]] = {}
        self._stopping = False
        _here.add(self)

    @contextmanager
    def holding(self, run_name: str, stop: Callable[[], None]) -> Iterator[None]:
        """While the block runs, the job is ended if the flow is; if the block raises, the job is ended at once.

        Raises Stopped where the flow was ended meanwhile, so that nobody takes what is left of the job for a result.
        """
        end = _once(stop)
        with self._lock:
            self._running[run_name] = end
        try:
            self.check()
            yield
            self.check()
        except BaseException:  # Ctrl-C, cancellation, an error of ours: no job is left behind
            end()
            raise
        finally:
            with self._lock:
                self._running.pop(run_name, None)

    @contextmanager
    def launching(self, run_name: str, stop: Callable[[], None]) -> Iterator[None]:
        """While the block finds a job or starts one, and until it is held: what there is of it ends with the flow."""
        with self._lock:
            self._running[run_name] = stop
        try:
            yield
        except Exception:  # nobody holds it; Ctrl-C may come when there is a job already, and is no Exception
            with self._lock:
                self._running.pop(run_name, None)
            raise

    def owners(self, flow_run: str | None) -> tuple[str, ...]:
        """The flow runs that a job of `flow_run` belongs to."""
        return tuple(dict.fromkeys(id for id in (flow_run, self._night) if id))

    def check(self) -> None:
        """Raises Stopped once `stop_all` was called."""
        if self._stopping:
            raise Stopped("the flow was ended, and its jobs with it")

    def stop_all(self) -> None:
        """End every job, side by side, and let none start."""
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
    """End every job of this process, whatever its flows are doing, and let none start."""
    for jobs in list(_here):
        jobs.stop_all()


def _once(end: Callable[[], None]) -> Callable[[], None]:
    """Whoever comes while it is being done waits for it."""
    lock, done = threading.Lock(), False

    def run() -> None:
        nonlocal done
        with lock:
            if not done:
                end()
                done = True

    return run
