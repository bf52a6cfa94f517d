"""Lets a trainer run its loop in turns with another one: it waits at the call of its step until it has the token.

The trainer runs unchanged in its own process. The token is a line with a number of steps in the pipe GO; after these
steps, when the device has done all work, the process writes their times into the pipe DONE and waits again.
"""

import json
import os
import time
from typing import Any, NamedTuple

import jax

from maxview_probe.observe import jaxprs
from maxview_probe.observe import observation_files as files
from maxview_probe.observe.find_step import MAX_INSPECTED
from maxview_probe.observe.jit_hook import Bystander, is_on_host
from maxview_probe.observe.loop_files import DONE, GO, WARM
from maxview_probe.observe.observation_files import RecorderSettings
from maxview_probe.observe.places import place_of_caller
from maxview_probe.observe.stderr_lines import describe_error, print_on_stderr
from maxview_probe.observe.thread_times import Threads, busy_seconds, read_thread_times, run_queue_seconds

MAX_FUNCTIONS = 100  # whose first arguments are noted
COMPILED = "/jax/core/compile/backend_compile_duration"  # JAX's event of a compile


_NO_CALL: tuple[str, Any, Any, Any] = ("", None, (), {})


class Reading(NamedTuple):
    """What a turn begins with."""

    wall: float
    cpu: float
    threads: Threads


class LoopTurns(Bystander):
    """The `Recorder` of a process whose loop takes turns."""

    def __init__(self, settings: RecorderSettings):
        self.folder = settings.folder
        self.name = settings.function or None  # of the step's function, once found
        self.claimed: bool | None = None  # whether this process takes the turns; None: the step was not called
        self.inspected: dict[str, int] = {}  # function name → calls that were not the step
        self.calls = 0
        self.due = WARM  # the call at which the turn ends
        self.began: Reading | None = None
        self.pipes: Any = None
        self.call = _NO_CALL  # that runs: name, function, args, kwargs
        self.first: dict[int, tuple[Any, dict[str, str]]] = {}  # id of a function → itself, its first arguments
        self.compiles: list[list[Any]] = []  # since the last turn: [call, function, place, the argument that changed]
        jax.monitoring.register_event_duration_secs_listener(self.note_compile)

    def before_compile(self, name: str, closed: Any, lowered: Any) -> None:
        """Find the step among programs that are compiled ahead of time."""
        if self.name is None and jaxprs.is_step(name, closed.jaxpr):
            self.name = name

    def before_other(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        if not is_on_host():
            return
        if self.name is None:
            self.look_at(name, jitted, args, kwargs)
        self.call = name, jitted, args, kwargs
        if id(jitted) not in self.first and len(self.first) < MAX_FUNCTIONS:
            self.first[id(jitted)] = jitted, describe_arguments(args, kwargs)
        self.before_run(name)

    def after_other(self, name: str, given: Any, results: Any) -> None:
        if is_on_host():
            self.call = _NO_CALL  # holds no array longer than the trainer does

    def look_at(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        """Find the step by what it computes."""
        self.inspected[name] = self.inspected.get(name, 0) + 1
        if self.inspected[name] > MAX_INSPECTED:
            return
        try:
            if jaxprs.is_step(name, jitted.trace(*args, **kwargs).jaxpr.jaxpr):
                self.name = name
        except Exception as error:
            print_on_stderr(f"a call of {name} cannot be looked at: {describe_error(error)}")

    def before_run(self, name: str) -> None:
        """Wait for the token before a call of the step, if the turn has ended."""
        if name != self.name or not is_on_host():
            return
        if self.claimed is None:
            self.claimed = files.claim(self.folder)
        if self.claimed and self.calls == self.due:
            self.end_turn()
        self.calls += 1

    def end_turn(self) -> None:
        """Write the times of the turn, and wait for the next one; end the process when there is none."""
        jax.block_until_ready(jax.live_arrays())
        found: dict[str, Any] = {"pid": os.getpid(), "calls": self.calls, "compiles": self.compiles}
        if self.began is None:
            self.pipes = [(self.folder / name).open(mode) for name, mode in ((GO, "r"), (DONE, "w"))]
        else:
            wall, cpu = time.perf_counter() - self.began.wall, time.process_time() - self.began.cpu
            is_cpu = jax.default_backend() == "cpu"
            threads = self.began.threads, read_thread_times()
            # a host that sleeps waits for no processor
            waited = run_queue_seconds(min(wall, busy_seconds(*threads)), *threads) if is_cpu else 0.0
            found.update(wall_s=wall, ran_s=wall - waited, cpu_s=cpu)
        self.compiles = []
        go, done = self.pipes
        print(json.dumps(found), file=done, flush=True)
        steps = go.readline()
        if not steps:  # the last turn, or the other end is gone
            os._exit(0)
        self.due = self.calls + int(steps)
        self.began = Reading(time.perf_counter(), time.process_time(), read_thread_times())

    def note_compile(self, event: str, duration_secs: float, **named: Any) -> None:
        """Note a compile after the warm-up, with the line that called the function, and why it compiles."""
        if event != COMPILED or self.calls <= WARM or not self.claimed:
            return
        name, jitted, args, kwargs = self.call
        made = str(named.get("fun_name", name)).removeprefix("jit(").removesuffix(")")
        _, line, _, file = place_of_caller()
        why = ""
        if made == name and id(jitted) in self.first:
            before, now = self.first[id(jitted)][1], describe_arguments(args, kwargs)
            changed = (f"{key} {before.get(key, 'none')} → {one}" for key, one in now.items() if before.get(key) != one)
            why = next(changed, "")
        self.compiles.append([self.calls, made, f"{file}:{line}", why])


def describe_arguments(args: Any, kwargs: Any) -> dict[str, str]:
    """Return path → type and shape of each array, and the value of everything else: what a program is compiled for."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        kind = getattr(leaf, "dtype", None)
        shape = ",".join(map(str, getattr(leaf, "shape", ())))
        found[jax.tree_util.keystr(path)] = f"{kind}[{shape}]" if kind is not None else repr(leaf)[:60]
    return found
