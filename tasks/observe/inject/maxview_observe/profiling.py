"""Profiles calls of the step, with each garbage collection marked."""

import gc
import time
from pathlib import Path
from typing import Any

import jax

COLLECTION = "garbage collection"  # as model/compile/profile.py reads it
LEAST_CALLS, LONG_S = 5, 20.0  # more calls make a profile more precise; of a long step the least number is enough


class Profiling:
    """A profile of some calls, without Python's own functions: tracing them slows the host several times."""

    def __init__(self, folder: Path):
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        self.mark: Any = None
        self.began, self.calls = time.monotonic(), 0
        gc.callbacks.append(self.mark_collection)
        jax.profiler.start_trace(str(folder), profiler_options=options)

    def is_enough(self, *, last: bool) -> bool:
        """Count a call; return whether it ends the profile, as the last one or after enough calls that took long."""
        self.calls += 1
        return last or (self.calls >= LEAST_CALLS and time.monotonic() - self.began > LONG_S)

    def mark_collection(self, phase: str, _info: dict[str, int]) -> None:
        """Mark a collection: a callback of the garbage collector."""
        if phase == "start":
            self.mark = jax.profiler.TraceAnnotation(COLLECTION)
            self.mark.__enter__()
        elif self.mark is not None:
            self.mark.__exit__(None, None, None)
            self.mark = None

    def stop(self) -> None:
        """Write the profile."""
        jax.profiler.stop_trace()
        gc.callbacks.remove(self.mark_collection)
