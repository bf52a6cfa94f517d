"""Takes the time of each step of the loop apart: what the device took, and what the host did beside it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

PARTS = ("device_s", "input_s", "save_s", "report_s")


class StepClock:
    """A step lasts from the end of the one before to its own, whatever the loop does in between.

    What no part names, such as code that somebody put into the loop, is the step less its parts. The report of a step
    is written when its time is known, so it counts in the next one.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin a step here: what was since the last one is not a step's (an evaluation, a restore)."""
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.began, self.used = time.perf_counter(), time.process_time()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what is done inside as this part."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.parts[name] += time.perf_counter() - began

    def finish(self) -> tuple[float, float, dict[str, float]]:
        """Seconds on the wall, of processor time in all threads, and of each part; the next step begins here."""
        ended, used = time.perf_counter(), time.process_time()
        took = ended - self.began, used - self.used, self.parts
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.began, self.used = ended, used
        return took
