"""Reads the step lines of the next window in a thread while the windows before it have their turn."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from tasks.scrape.memory import Memory
from tasks.scrape.step_pieces import Known, read_known
from tasks.scrape.step_table import StepTable
from tasks.scrape.window import Window

WAITING = 2  # windows that are read ahead; more threads than one would wait for the one that takes the windows in


class Ahead:
    """Windows on their way into a table. What is known of the layouts when a window comes decides what is read ahead,
    never which thread was faster: the same log gives the same reading."""

    def __init__(self, table: StepTable) -> None:
        self._table = table
        self._memory = Memory()
        self._pool: ThreadPoolExecutor | None = None
        self._queue: deque[tuple[Window, Future[Known]]] = deque()

    def put(self, window: Window) -> Iterator[tuple[Window, Known]]:
        """Windows whose turn it is, in order, with their lines in known places. The last window brings all the rest."""
        places = self._table.places()
        if not self._queue and (window.last or not places):
            yield window, read_known(window, places, self._table.first_day, self._memory)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="scrape")
        found = self._pool.submit(read_known, window, places, self._table.first_day, self._memory)
        self._queue.append((window, found))
        while self._queue and (window.last or len(self._queue) > WAITING):
            before, known = self._queue.popleft()
            yield before, known.result()
        if window.last:
            self._pool.shutdown(wait=False)
