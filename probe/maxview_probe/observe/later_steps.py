"""Records what a trainer's host gives its jitted functions in many steps, while heavy ones return zeros at once."""

import functools
import os
import time
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maxview_probe.observe import jaxprs
from maxview_probe.observe import observation_files as files
from maxview_probe.observe.jit_hook import Bystander, function_name, in_trace
from maxview_probe.observe.observation_files import RecorderSettings
from maxview_probe.observe.stderr_lines import describe_error, print_on_stderr

LIMIT_S = 20.0  # from the step's first call on
LARGEST = 1 << 16  # elements of an array whose values count; of larger ones, and of results, the shape does
NUMBERS = 8  # of a call that are kept as numbers


class LaterSteps(Bystander):
    """The `Recorder` of a process that was started only to see what its host does in many steps."""

    def __init__(self, settings: RecorderSettings):
        self.settings = settings
        self.step: str | None = None  # name of the step's function, once found
        self.emptied: set[str] = set()  # names of the functions with matrix products
        self.known: set[int] = set()  # ids of the functions that were looked at
        self.steps: list[list[list[Any]]] = []  # of each step its calls: [name, digest of all, the first numbers]
        self.before: list[list[Any]] = []  # calls since the last call of the step
        self.began = 0.0

    def prepare(self, function: Any) -> Any:
        name = function_name(function)

        @functools.wraps(function)
        def emptied(*args: Any, **kwargs: Any) -> Any:
            results = function(*args, **kwargs)
            return jax.tree_util.tree_map(jnp.zeros_like, results) if name in self.emptied else results

        return emptied

    def before_compile(self, name: str, closed: Any, lowered: Any) -> None:
        """Leave programs that are compiled ahead of time as they are: their calls are not seen."""

    def before_other(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        if in_trace((args, kwargs)):
            return
        try:
            if id(jitted) not in self.known:
                self.known.add(id(jitted))
                self.look_at(name, jitted, args, kwargs)
            self.before.append(describe_call(name, (args, kwargs)))
        except Exception as error:
            print_on_stderr(f"a call of {name} cannot be looked at: {describe_error(error)}")
        if name == self.step:
            self.end_step()

    def look_at(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        """Empty a function with matrix products; the first one that trains is the step."""
        jaxpr = jitted.trace(*args, **kwargs).jaxpr.jaxpr
        if self.step is None and jaxprs.is_step(name, jaxpr) and files.claim(self.settings.folder):
            self.step, self.began = name, time.monotonic()
        if name == self.step or jaxprs.has_products(jaxpr):
            self.emptied.add(name)
            jitted.clear_cache()  # else the trace that was just made is used again

    def end_step(self) -> None:
        self.steps.append(self.before)
        self.before = []
        if len(self.steps) >= self.settings.later_steps or time.monotonic() - self.began > LIMIT_S:
            self.write()
            os._exit(0)

    def after_other(self, name: str, given: Any, results: Any) -> None:
        pass

    def write(self) -> None:
        """Write the calls of each step; called at the process's exit, too."""
        if self.steps:
            files.write_json(self.settings.folder / files.LATER, {"step": self.step, "steps": self.steps})


def describe_call(name: str, given: Any) -> list[Any]:
    """Return a call's name, a digest of what it is given, and its first numbers."""
    digest, numbers = 0, list[float]()
    for leaf in jax.tree_util.tree_leaves(given):
        shape, kind = np.shape(leaf), getattr(leaf, "dtype", type(leaf).__name__)
        digest = zlib.crc32(f"{shape} {kind}".encode(), digest)
        is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        if is_key or np.size(leaf) > LARGEST or not (hasattr(leaf, "dtype") or isinstance(leaf, (bool, int, float))):
            continue
        values = np.asarray(leaf)
        digest = zlib.crc32(values.tobytes(), digest)
        if not shape and values.dtype.kind in "bifu" and len(numbers) < NUMBERS:
            numbers.append(float(values))
    return [name, digest, numbers]
