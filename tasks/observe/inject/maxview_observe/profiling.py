"""Profiles calls of the step, with each garbage collection marked."""

import gc
from pathlib import Path
from typing import Any

import jax

COLLECTION = "garbage collection"  # as model/compile/profile.py reads it


class Profiling:
    """A profile of some calls. Python's own functions stay out of it: to trace them slows the host several times."""

    def __init__(self, folder: Path):
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        self.mark: Any = None
        gc.callbacks.append(self.mark_collection)
        jax.profiler.start_trace(str(folder), profiler_options=options)

    def mark_collection(self, phase: str, _info: dict[str, int]) -> None:
        """A callback of the garbage collector."""
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
