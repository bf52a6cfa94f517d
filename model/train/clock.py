"""Measures the time of each step, and its parts: device, input, save, report."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

THREADS = Path("/proc/self/task")  # Linux only; other systems do not report how long a thread waits for a processor
PARTS = ("device_s", "input_s", "save_s", "report_s")


class StepClock:
    """Measures steps. A step lasts from the end of the previous step, or from `restart`, to its own end.

    The difference between the step and its parts is the time of other code, such as lines that a user added to the
    loop. A step's report is written after its time is measured, so the report's time is part of the next step.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start a step now. The time since the last step (an evaluation, a restore) is part of no step."""
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.began, self.cpu_s, self.threads = time.perf_counter(), time.process_time(), read_threads()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time of the block to the part `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.parts[name] += time.perf_counter() - began

    def finish(self) -> tuple[float, float, float, dict[str, float]]:
        """End the step: return its wall seconds, the processor seconds of all threads, the wall seconds lost to waiting
        for a processor, and the seconds of each part."""
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
    """Return the run and wait times of each thread of this process, by Linux's scheduler; empty on other systems."""
    found: Threads = {}
    for thread in os.listdir(THREADS) if THREADS.is_dir() else ():
        try:
            with open(f"{THREADS}/{thread}/schedstat", "rb", buffering=0) as file:  # a Path takes three times as long
                ran, waited, _ = file.read().split()
        except (OSError, ValueError):  # the thread has ended
            continue
        found[thread] = int(ran), int(waited)
    return found


def wait_share(before: Threads, after: Threads) -> float:
    """Return waited / (ran + waited) over all threads between two readings; 0 if no thread ran or waited.

    It is a share, because the waits of several threads overlap: their sum can exceed the step.
    """
    grown = [(now[0] - then[0], now[1] - then[1]) for key, now in after.items() for then in [before.get(key, (0, 0))]]
    ran, waited = (sum(column) for column in zip(*grown, strict=True)) if grown else (0, 0)
    return waited / (ran + waited) if ran + waited > 0 else 0.0
