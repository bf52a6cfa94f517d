"""Profiles calls of the step with JAX's profiler, and marks Python's garbage collections."""

import gc
import time
from pathlib import Path
from typing import Any

import jax

COLLECTION = "garbage collection"  # model/compile/profile.py reads this name
MIN_CALLS, LONG_S = 5, 20.0  # a profile ends early after MIN_CALLS calls if it has taken longer than LONG_S seconds


class Profiling:
    """A profile of some calls. It omits Python's functions, because tracing them slows the host several-fold."""

    def __init__(self, folder: Path):
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        self.mark: Any = None
        self.began, self.calls = time.monotonic(), 0
        gc.callbacks.append(self.mark_collection)
        jax.profiler.start_trace(str(folder), profiler_options=options)

    def is_enough(self, *, last: bool) -> bool:
        """Count a call; return whether the profile should end with it. last: whether it is the last wanted call."""
        self.calls += 1
        return last or (self.calls >= MIN_CALLS and time.monotonic() - self.began > LONG_S)

    def mark_collection(self, phase: str, _info: dict[str, int]) -> None:
        """Mark a garbage collection in the profile; registered in `gc.callbacks`."""
        if phase == "start":
            self.mark = jax.profiler.TraceAnnotation(COLLECTION)
            self.mark.__enter__()
        elif self.mark is not None:
            self.mark.__exit__(None, None, None)
            self.mark = None

    def stop(self) -> None:
        """End the profile and write it."""
        jax.profiler.stop_trace()
        gc.callbacks.remove(self.mark_collection)
