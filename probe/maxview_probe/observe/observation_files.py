"""Reads the recorder's settings, and writes and reads the files of an observation or a shared start, atomically.

An observation is the record of one training step, in a folder of its own.
"""

import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Names of the files. CLAIM is made by the process that records the step, START is the report of a shared start.
OBSERVATION, CLAIM = "observation.json", "claim"
PROGRAM, OPTIMISED = "step.mlir.gz", "step.hlo.gz"
ARGUMENTS, TENSORS, DRAWS, START = "arguments.npz", "tensors.jsonl.gz", "draws.npz", "start.json"
LOOP = "loop.json"  # when the calls of a step returned whose program was emptied
LATER = "later-steps.json"  # what the host gives each call in many steps
CALLS = "calls.jsonl"  # time and scalars of each call of a run's step
CYCLE = "cycle"  # subfolder with the recording of the loop's cycle, if that is more than one call of the step
EVALUATED = "evaluated.npz"  # the arguments of the call whose operations are evaluated, if it is not the first call
BATCHES_END = "batches-end.json"  # the first step without a stored batch; only if the run stopped storing batches
BUFFERS, INSTRUCTIONS = "step.buffers.pb", "step.hlo.pb"  # xla.BufferAssignmentProto, xla.HloModuleProto


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it to `path` if the block succeeds."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON."""
    with atomic_path(path) as file:
        file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def write_packed(path: Path, text: str) -> None:
    """Write a text with gzip. Equal texts give equal files."""
    with atomic_path(path) as file:
        file.write_bytes(gzip.compress(text.encode(), compresslevel=6, mtime=0))


def write_memory(folder: Path, compiled: Any) -> None:
    """Write the compiler's buffer assignment of a step, and its HLO module with the instructions that make buffers.

    Compilers report buffers since jaxlib 0.7. Without a report nothing is written.
    """
    assignment = getattr(compiled.memory_analysis(), "serialized_buffer_assignment_proto", None)
    if not assignment:
        return
    (module,) = compiled.runtime_executable().hlo_modules()
    for name, message in ((BUFFERS, assignment), (INSTRUCTIONS, module.as_serialized_hlo_module_proto())):
        with atomic_path(folder / name) as file:
            file.write_bytes(message)


@contextmanager
def packed_lines(path: Path) -> Iterator[Callable[[str], Any]]:
    """Yield a function that writes a line into a new gzipped file."""
    with atomic_path(path) as file, gzip.open(file, "wt", compresslevel=3, encoding="utf-8") as packed:
        yield lambda line: packed.write(line + "\n")


def write_arrays(path: Path, names: list[str], arrays: list[Any]) -> None:
    """Write the bits of arrays into an `.npz` file with keys `0000|name`."""
    with atomic_path(path) as file, file.open("wb") as opened:
        np.savez(opened, **{f"{n:04d}|{name}": bits for n, (name, bits) in enumerate(zip(names, arrays, strict=True))})


def batch_file(folder: Path, number: int) -> Path:
    """Return the path of the file with a batch. number: of the step (shared start), or of the call (observation)."""
    return folder / f"batch-{number:08d}.npz"


def read_arrays(path: Path) -> dict[str, Any]:
    """Return name → bits of the arrays in a file. `[name]` reads an array from disk; `values()` does not."""
    return _Arrays(np.load(path, allow_pickle=False))


class _Arrays(dict[str, Any]):
    def __init__(self, stored: Any):
        super().__init__({key.partition("|")[2]: key for key in stored.files})
        self._stored = stored

    def __getitem__(self, name: str) -> Any:
        return self._stored[super().__getitem__(name)]


def claim(folder: Path) -> bool:
    """Return whether this process is the trainer's first to claim the step; only the first one records the step."""
    try:
        os.close(os.open(folder / CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True)
class RecorderSettings:
    """The settings of the recorder in this process. An arm is one of the two compared versions of a trainer."""

    folder: Path  # existing folder of the settings file, for everything that the recorder writes
    observe: bool = False  # True: record the step, then end the process; False: share the run's start
    lines_only: bool = False  # True: only note which lines run
    meter: bool = False  # True: note the time and the scalars of each call of the step, which runs as it is
    states: str = ""  # "first": note the state that the step's first call is given, and end; "every": of each call
    end_after: int | None = None  # calls of a noted step after which the program is ended; None: it ends itself
    loop_calls: int = 0  # calls of an emptied step to stamp, which end the process; 0: the step runs
    turns: bool = False  # the loop takes turns with another one, see loop_turns.py
    later_steps: int = 0  # steps with emptied programs of which the host's calls are recorded, which end the process
    root: str = ""  # the trainer's checkout, whose executed lines are noted; "": none (see ran_lines.py)
    changed: tuple[str, ...] = ()  # files below `root` whose conditions are watched, too
    evaluated: int | None = None  # the call to evaluate operation by operation, counted from 0
    start: Path | None = None  # the other arm's `folder`: the arguments in it replace this arm's arguments
    profile: tuple[int, int] | None = None  # first and last call to profile, counted from 0; None: no profile
    batches: int = 1  # number of calls whose batches are stored; the first call's is in ARGUMENTS
    skipped: int = 0  # calls of the step before the first one that counts
    timed: bool = True  # time the step's trace and lowering
    runs: bool = True  # False: the step's program returns zeros, which spares its compile
    function: str = ""  # name of the function to record in place of the step; "": the step
    others: tuple[str, ...] = ()  # further functions of the step: without one of them there is no cycle
    tree_mode: bool = False  # Flax NNX walks modules as trees, not as graphs
    cycles: bool = False  # evaluate the loop's cycle operation by operation, if it is more than the step's call
    platform: str = ""  # of the runs that a recording on processors stands for, as JAX names it
    automatic_gradients: bool = False  # differentiate functions with `jax.custom_vjp` as if they had none


def read_settings(file: str) -> RecorderSettings:
    """Return the settings in a file."""
    path = Path(file)
    given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    start = given.pop("start", None)
    return RecorderSettings(folder=path.parent, start=Path(start) if start else None, **given)
