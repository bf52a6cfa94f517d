"""Measures the time of each step, and its parts: device, input, save, report."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

THREADS = Path("/proc/self/task")  # Linux only; other systems do not report how long a thread waits for a processor
DEVICE = "device_s"  # the part in which several threads compute
PARTS = (DEVICE, "input_s", "save_s", "report_s")

type Counts = tuple[int, int]  # nanoseconds for which a thread ran, and for which it waited for a processor
type Threads = dict[str, Counts]  # by Linux's scheduler


class StepClock:
    """Measures steps. A step lasts from the end of the previous step, or from `restart`, to its own end.

    The difference between the step and its parts is the time of other code, such as lines that a user added to the
    loop. A step's report is written after its time is measured, so the report's time is part of the next step.

    The wait for a processor is measured over all threads in the part DEVICE, and outside of it in the thread that made
    the clock: that thread may sleep there, and the share of other threads' waits would be subtracted from its sleep.
    """

    def __init__(self) -> None:
        self.thread = str(threading.get_native_id())
        self.restart()

    def restart(self) -> None:
        """Start a step now. The time since the last step (an evaluation, a restore) is part of no step."""
        self.parts, self.waited_s = dict.fromkeys(PARTS, 0.0), 0.0
        self.began, self.cpu_s, self.threads = time.perf_counter(), time.process_time(), read_threads()
        self.counts = read_counts(self.thread)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time of the block to the part `name`."""
        if name == DEVICE:
            self._add_own_wait()
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self.parts[name] += seconds
            if name == DEVICE:
                threads = read_threads()
                self.waited_s += waited_seconds(seconds, self.threads | {self.thread: self.counts}, threads)
                self.threads, self.counts = threads, threads.get(self.thread, (0, 0))

    def finish(self) -> tuple[float, float, float, dict[str, float]]:
        """End the step: return its wall seconds, the processor seconds of all threads, the wall seconds lost to waiting
        for a processor, and the seconds of each part."""
        ended, cpu_s = time.perf_counter(), time.process_time()
        self._add_own_wait()
        times = ended - self.began, cpu_s - self.cpu_s, self.waited_s, self.parts
        self.parts, self.waited_s = dict.fromkeys(PARTS, 0.0), 0.0
        self.began, self.cpu_s = ended, cpu_s
        return times

    def _add_own_wait(self) -> None:
        """Add the wait of the clock's thread since its last reading."""
        counts = read_counts(self.thread)
        self.waited_s += (counts[1] - self.counts[1]) / 1e9
        self.counts = counts


def read_threads() -> Threads:
    """Return the counts of each thread of this process; empty on other systems than Linux."""
    return {thread: read_counts(thread) for thread in os.listdir(THREADS)} if THREADS.is_dir() else {}


def read_counts(thread: str) -> Counts:
    """Return the counts of one thread; zeros if it has ended, or on other systems than Linux."""
    try:
        with open(f"{THREADS}/{thread}/schedstat", "rb", buffering=0) as file:  # a Path takes three times as long
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return 0, 0
    return int(ran), int(waited)


def waited_seconds(seconds: float, before: Threads, after: Threads) -> float:
    """Return the seconds, of `seconds` between two readings, that waits for a processor cost; 0 if no thread waited.

    It is the share waited / (ran + waited) of all threads, because the waits of several threads overlap: their sum can
    exceed the time. It is at most that sum, because all threads may sleep for a part of the time.
    """
    grown = [(now[0] - then[0], now[1] - then[1]) for key, now in after.items() for then in [before.get(key, (0, 0))]]
    ran, waited = (sum(column) for column in zip(*grown, strict=True)) if grown else (0, 0)
    return min(seconds * waited / (ran + waited), waited / 1e9) if waited > 0 else 0.0
