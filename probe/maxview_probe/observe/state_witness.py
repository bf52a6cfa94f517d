"""Notes the state that a trainer's step is given: of its first call, which then ends the process, or of every call.

A resumed run's first arguments are what it has restored. The notes of a run that saves tell what was to be saved.
Nothing is copied on a device: each array's shards are read by the host, one array at a time.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from maxview_probe.observe import bits, ran_lines
from maxview_probe.observe import observation_files as files
from maxview_probe.observe.array_notes import note_array
from maxview_probe.observe.find_step import StepFinder
from maxview_probe.observe.jit_hook import ArgsKwargs, Bystander, Call
from maxview_probe.observe.meaning import meanings_of
from maxview_probe.observe.observation_files import RecorderSettings
from maxview_probe.observe.stderr_lines import describe_error, print_on_stderr

PROBLEM = "states-problem.json"  # a sentence why states could not be noted
READ = "files-read.json"  # files that the process opened to read before the step's first call, in their order
FIRST, EVERY = "first", "every"
MAX_READ = 2000
ELSEWHERE = (sys.prefix, sys.base_prefix, "/proc/", "/sys/", "/dev/", "/etc/", "/usr/")
NO_DATA = (".py", ".pyc", ".pyi", ".so", ".pth")


def state_file(folder: Path, call: int, process: int) -> Path:
    """Return the file with the arguments of a call, from 0, as one process of the trainer holds them."""
    return folder / f"state-{call:08d}-{process}.json"


class StateWitness(Bystander):
    """The `Recorder` of a process whose states are noted."""

    def __init__(self, settings: RecorderSettings):
        self.settings, self.finder = settings, StepFinder(settings.folder, settings.function)
        self.calls, self.ended = 0, False
        self.results: list[Any] = []  # of the last call
        self.feeds: list[int | None] = []  # per argument: the index of the last call's result that it is
        self.names: list[str] = []
        self.read: dict[str, None] | None = {}  # None from the first call on
        sys.addaudithook(self.note_opened)

    def note_opened(self, event: str, arguments: Any) -> None:
        """Note a file that is opened to read."""
        if event != "open" or self.read is None or len(self.read) >= MAX_READ:
            return
        path, mode = arguments[:2]
        is_read = isinstance(path, str) and "r" in (mode or "r") and not path.endswith(NO_DATA)
        if is_read and not path.startswith(ELSEWHERE):
            self.read[os.path.abspath(path)] = None

    def prepare(self, function: Any) -> Any:
        return function

    def wants(self, name: str) -> bool:
        return not self.ended and self.finder.may_be(name)

    def fail(self, name: str, error: Exception) -> None:
        self.finder.others[name] += 1

    def before_compile(self, name: str, closed: Any, lowered: Any) -> None:
        pass

    def replace_arguments(self, name: str, args: Any, kwargs: Any) -> ArgsKwargs | None:
        return None

    def before_other(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        pass

    def after_other(self, name: str, given: Any, results: Any) -> None:
        pass

    def run(self, call: Call, go_on: Callable[..., Any]) -> Any:
        args, kwargs = call.rebuild()
        if not self.finder.accept(call):
            return go_on(*args, **kwargs)
        if self.calls:
            places = {id(result): place for place, result in enumerate(self.results)}
            self.feeds = [places.get(id(leaf)) for leaf in call.leaves]
        self.note(call.arguments, call.leaves)
        if self.settings.states == FIRST:
            sys.stdout.flush()
            ran_lines.write()
            os._exit(0)
        if self.calls == self.settings.end_after:
            self.ended = True
            print_on_stderr(f"ended after {self.calls} calls of {call.name}, as asked")
            raise SystemExit(0)
        self.calls, self.names = self.calls + 1, call.arguments
        results = go_on(*args, **kwargs)
        self.results = jax.tree_util.tree_leaves(results)
        return results

    def note(self, names: list[str], leaves: list[Any]) -> None:
        """Write the notes of the arguments before the call `self.calls`, and of the files read before the first."""
        try:
            if self.read is not None:
                read, self.read = self.read, None
                files.write_json(self.settings.folder / READ, list(read))
            fed = self.feeds or [None] * len(leaves)
            places = meanings_of(names)
            arrays = [
                {"name": name, "role": role, "meaning": meaning, "fed": one is not None, **describe(leaf)}
                for name, (role, meaning), leaf, one in zip(names, places, leaves, fed, strict=True)
            ]
            file = state_file(self.settings.folder, self.calls, jax.process_index())
            with files.atomic_path(file) as path:
                path.write_text(json.dumps({"step": self.finder.name, "call": self.calls, "arrays": arrays}) + "\n")
        except Exception as error:
            self.explain(f"the state of call {self.calls} cannot be noted: {describe_error(error)}")

    def explain(self, problem: str) -> None:
        """Write and print why something is not noted."""
        print_on_stderr(problem)
        files.write_json(self.settings.folder / PROBLEM, problem)

    def finish(self) -> None:
        """Note the state after the last call, at the process's exit; a state is what fed the calls before."""
        if self.finder.name is None:
            shown = ", ".join(list(self.finder.others)[:5])
            found = f"no training step was found among its jitted functions ({shown})" if shown else "no step was found"
            files.write_json(self.settings.folder / PROBLEM, found)  # not printed: the log's last line is the program's
        elif self.finder.claimed and not self.ended and any(place is not None for place in self.feeds):
            kept = [(name, place) for name, place in zip(self.names, self.feeds, strict=True) if place is not None]
            self.feeds = [*range(len(kept))]
            self.note([name for name, _ in kept], [self.results[place] for _, place in kept])


def describe(leaf: Any) -> dict[str, Any]:
    """Return the note of an argument: of the whole array, or of the parts of it that this process holds."""
    array = jax.random.key_data(leaf) if bits.is_key(leaf) else leaf
    if bits.is_in_process(array):
        values = np.asarray(array)
        return {"shape": list(values.shape), **note_array(values)}
    parts = [shard for shard in array.addressable_shards if shard.replica_id == 0]
    boxes = [[[*part.indices(size)[:2]] for part, size in zip(one.index, array.shape, strict=True)] for one in parts]
    noted = [note_array(np.asarray(one.data), is_whole=False) for one in parts]
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "parts": [{"box": box, **note} for box, note in zip(boxes, noted, strict=True)],
    }
