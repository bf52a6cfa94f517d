"""Reads how long the threads of this process ran, and how long they waited for a processor."""

import os
from pathlib import Path
from threading import get_native_id
from typing import TypeAlias

THREADS = Path("/proc/self/task")  # Linux only
Threads: TypeAlias = dict[str, tuple[int, int]]  # thread → nanoseconds for which it ran, and waited for a processor


def read_thread_times() -> Threads:
    """Return the run and wait times of each thread of this process; empty on other systems than Linux."""
    found: Threads = {}
    for thread in os.listdir(THREADS) if THREADS.is_dir() else ():
        try:
            with open(f"{THREADS}/{thread}/schedstat", "rb", buffering=0) as file:
                ran, waited, _ = file.read().split()
        except (OSError, ValueError):  # the thread has ended
            continue
        found[thread] = int(ran), int(waited)
    return found


def busy_seconds(before: Threads, after: Threads) -> float:
    """Return about the time between two readings in which a thread ran or waited for a processor: the rest is sleep.

    It is the time of this thread and of the busiest other one, which computes while this one waits for it.
    """
    spans = {thread: sum(now) - sum(before.get(thread, (0, 0))) for thread, now in after.items()}
    own = spans.pop(str(get_native_id()), 0)
    return float(own + max(spans.values(), default=0)) / 1e9


def run_queue_seconds(seconds: float, before: Threads, after: Threads) -> float:
    """Return the part of `seconds`, between two readings, that waits for a processor cost; as `model.train.clock`."""
    ran = waited = 0
    for thread, (now_ran, now_waited) in after.items():
        then = before.get(thread, (0, 0))
        ran, waited = ran + now_ran - then[0], waited + now_waited - then[1]
    return min(seconds * waited / (ran + waited), waited / 1e9) if waited > 0 else 0.0
