"""Times the host loop of a trainer: the step's program returns zeros at once, and each call of the step is stamped.

What lies between two calls is the host: batches, dispatch, metrics, logs, saves. The process ends after the calls.
"""

import functools
import os
import time
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp

from maxview_probe.observe import jaxprs
from maxview_probe.observe import observation_files as files
from maxview_probe.observe.empty_program import empty
from maxview_probe.observe.find_step import MAX_INSPECTED
from maxview_probe.observe.jit_hook import Bystander, function_name, in_trace
from maxview_probe.observe.observation_files import RecorderSettings
from maxview_probe.observe.stderr_lines import describe_error, print_on_stderr


class LoopClock(Bystander):
    """The `Recorder` of a process that was started only to time its host loop."""

    def __init__(self, settings: RecorderSettings):
        self.settings = settings
        self.name: str | None = None  # the step's function, once found
        self.emptied = ""  # name of the function whose next trace returns zeros
        self.inspected: Counter[str] = Counter()  # function name → calls that were not the step
        self.stamps: list[tuple[float, float]] = []  # (clock, processor time of all threads) after each call, seconds

    def prepare(self, function: Any) -> Any:
        name = function_name(function)

        @functools.wraps(function)
        def emptied(*args: Any, **kwargs: Any) -> Any:
            results = function(*args, **kwargs)
            # the compiler drops what is not used
            return jax.tree_util.tree_map(jnp.zeros_like, results) if name == self.emptied else results

        return emptied

    def before_compile(self, name: str, closed: Any, lowered: Any) -> None:
        try:
            if self.is_step(name, closed.jaxpr):
                empty(lowered)
        except Exception as error:
            self.give_up(f"the program cannot be emptied: {describe_error(error)}")

    def before_other(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        """Find the step by what it computes; from its first call on it returns zeros."""
        if self.name is not None or self.inspected[name] >= MAX_INSPECTED or in_trace((args, kwargs)):
            return
        try:
            if self.is_step(name, jitted.trace(*args, **kwargs).jaxpr.jaxpr):
                self.emptied = name
                jitted.clear_cache()  # else the trace that was just made is used again
        except Exception as error:
            print_on_stderr(f"a call of {name} cannot be looked at: {describe_error(error)}")

    def is_step(self, name: str, jaxpr: Any) -> bool:
        """Whether this is the step; the first one found is the step from then on."""
        if self.name is None and jaxprs.is_step(name, jaxpr) and files.claim(self.settings.folder):
            self.name = name
        self.inspected[name] += 1
        return self.name == name

    def after_other(self, name: str, given: Any, results: Any) -> None:
        if name == self.name and not in_trace(results):
            self.stamps.append((time.perf_counter(), time.process_time()))
            if len(self.stamps) >= self.settings.loop_calls:
                self.write()
                os._exit(0)

    def give_up(self, text: str) -> None:
        """End the process: with its own program it would take the place of a training."""
        print_on_stderr(text)
        os._exit(1)

    def write(self) -> None:
        """Write the stamps; called at the process's exit, too."""
        if self.stamps:
            files.write_json(self.settings.folder / files.LOOP, {"step": self.name, "stamps": self.stamps})
