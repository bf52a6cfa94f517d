"""Splits the time of each step into the device's part and the parts of the host."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

THREADS = Path("/proc/self/task")  # of Linux; elsewhere nothing tells how long a thread waits for a processor
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
        self.began, self.used, self.threads = time.perf_counter(), time.process_time(), read_threads()

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
        ended, used, threads = time.perf_counter(), time.process_time(), read_threads()
        wall_s = ended - self.began
        took = wall_s, used - self.used, wall_s * share_waited(self.threads, threads), self.parts
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.began, self.used, self.threads = ended, used, threads
        return took


type Threads = dict[str, tuple[int, int]]  # thread -> nanoseconds that it has run, and waited for a processor


def read_threads() -> Threads:
    """What the scheduler has counted of each thread of this process; empty where it does not tell."""
    found: Threads = {}
    for thread in os.listdir(THREADS) if THREADS.is_dir() else ():
        try:
            with open(f"{THREADS}/{thread}/schedstat", "rb", buffering=0) as file:  # a Path takes three times as long
                ran, waited, _ = file.read().split()
        except (OSError, ValueError):  # a thread that ended meanwhile
            continue
        found[thread] = int(ran), int(waited)
    return found


def share_waited(before: Threads, after: Threads) -> float:
    """The share of the time of threads that could run in which they waited for a processor; 0 if none could.

    The waits of several threads overlap, so that their sum is longer than the step: the share is what can be taken off.
    """
    grown = [(now[0] - then[0], now[1] - then[1]) for key, now in after.items() for then in [before.get(key, (0, 0))]]
    ran, waited = (sum(column) for column in zip(*grown, strict=True)) if grown else (0, 0)
    return waited / (ran + waited) if ran + waited > 0 else 0.0
