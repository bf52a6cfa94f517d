"""Notes each call of a trainer's step: its time, the process's memory, and the scalars that it returns.

Ends the program after so many calls, if the settings say so.

For programs whose log nobody can read. Nothing waits for a device: a scalar is written when it is ready.
"""

import atexit
import json
import os
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import jax

from maxview_probe.observe import jaxprs
from maxview_probe.observe import observation_files as files
from maxview_probe.observe.find_step import MAX_INSPECTED
from maxview_probe.observe.jit_hook import Bystander, in_trace
from maxview_probe.observe.observation_files import RecorderSettings
from maxview_probe.observe.stderr_lines import describe_error, print_on_stderr

LOSS = "loss"
RESIDENT = "/proc/self/statm"  # in pages, on Linux; 10 µs to read
_WORD = re.compile(r"[A-Za-z_]\w*")


class CallMeter(Bystander):
    """The `Recorder` of a run whose calls are noted."""

    def __init__(self, settings: RecorderSettings):
        self.settings = settings
        self.name: str | None = None  # the step's function, once found
        self.inspected: Counter[str] = Counter()  # function name → calls that were not the step
        self.last = 0.0  # when the last call returned, or when the step was found
        self.calls = 0
        # seconds, memory and scalars of calls not yet written
        self.waiting: deque[tuple[dict[str, float], dict[str, Any]]] = deque()
        self.written = 0
        self.file: Any = None  # opened by the process that claims the step
        atexit.register(self.write, wait=True)

    def before_compile(self, name: str, closed: Any, lowered: Any) -> None:
        self.look_at(name, lambda: closed.jaxpr)

    def before_other(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        if self.name is None:
            if self.inspected[name] < MAX_INSPECTED and not in_trace((args, kwargs)):
                self.look_at(name, lambda: jitted.trace(*args, **kwargs).jaxpr.jaxpr)
        elif name == self.name and self.calls == self.settings.end_after and not in_trace((args, kwargs)):
            self.end()

    def look_at(self, name: str, jaxpr: Callable[[], Any]) -> None:
        """Find the step by what it computes; the first one found is the step from then on."""
        if self.name is not None:
            return
        self.inspected[name] += 1
        try:
            if not jaxprs.is_step(name, jaxpr()):
                return
        except Exception as error:
            print_on_stderr(f"a call of {name} cannot be looked at: {describe_error(error)}")
            return
        self.name, self.last = name, time.perf_counter()
        if files.claim(self.settings.folder):
            self.file = (self.settings.folder / files.CALLS).open("w", encoding="utf-8")

    def after_other(self, name: str, given: Any, results: Any) -> None:
        if name != self.name or in_trace(results):
            return
        if self.calls == self.settings.end_after:  # a program that was compiled ahead of time
            self.end()
        self.calls += 1
        now = time.perf_counter()
        if self.file is not None:
            facts = {"step_time_s": round(now - self.last, 6), **read_memory()}
            self.waiting.append((facts, dict(scalars_of(results, given))))
            self.write()
        self.last = now

    def write(self, *, wait: bool = False) -> None:
        """Write the calls whose scalars are ready, in their order; all of them, if `wait`."""
        while self.waiting and (wait or all(is_ready(one) for one in self.waiting[0][1].values())):
            facts, scalars = self.waiting.popleft()
            values = {name: float(one) for name, one in scalars.items()}
            self.file.write(json.dumps({"step": self.written, **facts, **values}) + "\n")
            self.file.flush()
            self.written += 1

    def end(self) -> None:
        """End the program as if its last line had been reached: its own clean-up runs."""
        print_on_stderr(f"ended after {self.calls} calls of {self.name}, as asked")
        raise SystemExit(0)


def read_memory() -> dict[str, int]:
    """Return the process's resident memory as a metric, in bytes; {} where the system does not tell."""
    try:
        with open(RESIDENT, "rb") as file:
            return {"host_memory_b": int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")}
    except (OSError, ValueError, IndexError):
        return {}


def is_ready(array: Any) -> bool:
    """Whether the value of an array can be read without waiting."""
    ready = getattr(array, "is_ready", None)
    return ready is None or bool(ready())


def scalars_of(results: Any, given: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and array of each floating-point scalar that a step returns, without those of its state; loss first.

    A part of the results with the arrays of a part of the arguments is state. A scalar has the last word of its path
    as its name; the one whose name has the word "loss", or the only one, is the loss.
    """
    state = {shape_of(part) for part in parts_of(given)}
    found: dict[str, Any] = {}
    for path, part in parts_without(state, results):
        for below, leaf in jax.tree_util.tree_flatten_with_path(part)[0]:
            if getattr(leaf, "shape", None) == () and "float" in str(getattr(leaf, "dtype", "")) and is_whole(leaf):
                words = _WORD.findall(path + jax.tree_util.keystr(below))
                name = words[-1] if words else f"result {len(found)}"
                found[name if name not in found else f"{name} {len(found)}"] = leaf
    losses = [name for name in found if LOSS in name.lower()] or (list(found) if len(found) == 1 else [])
    first = LOSS if LOSS in found else next(iter(losses), None)
    if first is not None:
        yield LOSS, found.pop(first)
    yield from found.items()


def is_whole(array: Any) -> bool:
    """Whether this process has the array's value."""
    return bool(getattr(array, "is_fully_addressable", True) or getattr(array, "is_fully_replicated", False))


def parts_of(tree: Any) -> Iterator[Any]:
    """Yield the arguments that are trees, and the members of those that are tuples or lists."""
    for part in (*tree[0], *tree[1].values()):
        inner = part if type(part) in (tuple, list) else ()
        yield from (one for one in (part, *inner) if len(jax.tree_util.tree_leaves(one)) > 1)


def parts_without(state: set[tuple[Any, ...]], results: Any) -> Iterator[tuple[str, Any]]:
    """Yield path and value of the members of nested tuples and lists that are no part of the state."""
    if shape_of(results) in state:
        return
    if type(results) not in (tuple, list):
        yield "", results
        return
    for number, part in enumerate(results):
        for path, inner in parts_without(state, part):
            yield f"[{number}]{path}", inner


def shape_of(part: Any) -> tuple[Any, ...]:
    """Return the structure of a tree, and the shape and type of its arrays."""
    leaves, tree = jax.tree_util.tree_flatten(part)
    return tree, *((getattr(leaf, "shape", None), str(getattr(leaf, "dtype", type(leaf)))) for leaf in leaves)
