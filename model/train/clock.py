"""Splits the time of each step into the device's part and the parts of the host."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

PARTS = ("device_s", "input_s", "save_s", "report_s")


class StepClock:
    """A step lasts from the end of the previous step to its own end.

    Time that no part names, such as code that a user added to the loop, is the step less its parts. The report of a
    step is written after its time is taken, so it counts in the next step.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin a step here: exclude the time since the last one (an evaluation, a restore)."""
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.began, self.used = time.perf_counter(), time.process_time()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of the block as this part."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.parts[name] += time.perf_counter() - began

    def finish(self) -> tuple[float, float, dict[str, float]]:
        """End the step: return its wall seconds, processor seconds of all threads, and the seconds of each part."""
        ended, used = time.perf_counter(), time.process_time()
        took = ended - self.began, used - self.used, self.parts
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.began, self.used = ended, used
        return took
