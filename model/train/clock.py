"""Splits the time of each step into the device's part and the parts of the host."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

THREADS = Path("/proc/self/task")  # Linux only; other systems do not report how long a thread waits for a processor
PARTS = ("device_s", "input_s", "save_s", "report_s")


class StepClock:
    """A step lasts from the end of the previous step to its own end.

    The step minus its parts is the time of other code, such as lines that a user added to the loop. A step is reported
    after its time is measured, so the report counts in the next step.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start a step now, without the time since the last one (an evaluation, a restore)."""
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.began, self.cpu_s, self.threads = time.perf_counter(), time.process_time(), read_threads()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of the block as this part."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.parts[name] += time.perf_counter() - began

    def finish(self) -> tuple[float, float, float, dict[str, float]]:
        """End the step: return its wall seconds, processor seconds of all threads, seconds lost to other work, and the
        seconds of each part."""
        ended, cpu_s, threads = time.perf_counter(), time.process_time(), read_threads()
        wall_s = ended - self.began
        times = wall_s, cpu_s - self.cpu_s, wall_s * wait_share(self.threads, threads), self.parts
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.began, self.cpu_s, self.threads = ended, cpu_s, threads
        return times


type Threads = dict[
    str, tuple[int, int]
]  # thread -> nanoseconds for which it ran, and for which it waited for a processor


def read_threads() -> Threads:
    """Return the scheduler's counts for each thread of this process; empty on systems without them."""
    found: Threads = {}
    for thread in os.listdir(THREADS) if THREADS.is_dir() else ():
        try:
            with open(f"{THREADS}/{thread}/schedstat", "rb", buffering=0) as file:  # a Path takes three times as long
                ran, waited, _ = file.read().split()
        except (OSError, ValueError):  # a thread that ended meanwhile
            continue
        found[thread] = int(ran), int(waited)
    return found


def wait_share(before: Threads, after: Threads) -> float:
    """Return the share of the runnable threads' time that they waited for a processor; 0 if no thread was runnable.

    A share, because the waits of several threads overlap: their sum can exceed the step.
    """
    grown = [(now[0] - then[0], now[1] - then[1]) for key, now in after.items() for then in [before.get(key, (0, 0))]]
    ran, waited = (sum(column) for column in zip(*grown, strict=True)) if grown else (0, 0)
    return waited / (ran + waited) if ran + waited > 0 else 0.0
