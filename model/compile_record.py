"""Records an ahead-of-time compile: `compile.json`, the lowered and the optimised program.

    python -P model/compile_record.py --out DIR --topology NAME --hbm-bytes N MODULE [WORD…]

runs another trainer's own compile, such as MaxText's `train_compile`, and keeps what it gives to the compiler. That is
why this file needs nothing but JAX: it runs in that trainer's environment. With `--stop` the module is a training: it
ends with its first program, and `--programs DIR` keeps what equal programs were compiled to.
"""

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import math
import os
import re
import runpy
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding
from jax.stages import Compiled, Lowered

VERSION = 1
FILE, LOWERED, OPTIMISED = "compile.json", "lowered.mlir.gz", "optimised.hlo.gz"
PACKAGES = ("jax", "jaxlib", "libtpu", "flax", "optax", "maxtext", "qwix", "aqtp")
MEMORY = (
    "argument", "output", "temp", "alias", "host_argument", "host_output", "host_temp", "generated_code",
)  # fmt: skip
DEVICE_MEMORY = "device"
OVERFLOW = re.compile(r"HbmOom|memory space hbm|RESOURCE_EXHAUSTED.*\bhbm\b", re.IGNORECASE)


class NothingCompiled(RuntimeError):
    """The module ended well and has compiled nothing ahead of time."""


@dataclass
class Stages:
    """One compile: its output folder, its target, and the facts so far. `compile.json` is written at the end."""

    out: Path
    topology: str
    hbm_bytes: int  # of each device
    devices: int | None = None
    arrays: list[dict[str, Any]] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)

    def lowered(self, lowered: Lowered, seconds: float | None) -> None:
        """Write the step as StableHLO, with its fingerprint."""
        write_packed(self.out / LOWERED, lowered.as_text(debug_info=True))
        self.record["lower_seconds"] = seconds
        self.record["fingerprints"] = {"lowered": sha256(strip_stablehlo(lowered.as_text())), "optimised": None}

    def compile(self, lowered: Lowered, compile_lowered: Callable[[], Compiled]) -> Compiled:
        """Call `compile_lowered` and record the program's text, memory and compile time."""
        say(f"compiling for {self.topology}, {self.devices} devices")
        with self.timed():
            compiled = compile_lowered()
        text = compiled.as_text() or ""
        write_packed(self.out / OPTIMISED, text)
        self.record["fingerprints"]["optimised"] = sha256(strip_hlo(text))
        self.record["memory"] = measure_memory(compiled)
        return compiled

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Record the wall and processor seconds of the block as those of the compile."""
        wall, cpu = time.monotonic(), time.process_time()
        yield
        self.record["compile_seconds"] = round(time.monotonic() - wall, 3)
        self.record["compile_cpu_seconds"] = round(time.process_time() - cpu, 3)

    def finish(self, error: BaseException | None) -> None:
        """Write `compile.json` atomically."""
        stated = None if error is None else {"type": name_error(error), "message": str(error) or repr(error)}
        arrays = sorted(self.arrays, key=lambda array: (-array["bytes_per_device"], array["path"]))
        facts = {"version": VERSION, "topology": self.topology, "devices": self.devices, "hbm_bytes": self.hbm_bytes}
        record = facts | {"ok": error is None, "error": stated} | self.record
        record |= {"arrays": arrays, "software": installed(PACKAGES)}
        unfinished = self.out / f"{FILE}.tmp"
        unfinished.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self.out / FILE)


@contextmanager
def recorded(stages: Stages) -> Iterator[None]:
    """Write `compile.json` however the compile ends; an error is recorded and raised again."""
    stages.out.mkdir(parents=True, exist_ok=True)
    for name in (FILE, LOWERED, OPTIMISED):  # of an earlier compile
        (stages.out / name).unlink(missing_ok=True)
    try:
        yield
    except Exception as error:
        stages.finish(error)
        raise
    stages.finish(None)


def say(text: str) -> None:
    """Print one line of progress."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def name_error(error: BaseException) -> str:
    """Return an error's kind: "HbmOverflow" if the program does not fit into a device, else its class."""
    return "HbmOverflow" if OVERFLOW.search(str(error)) else type(error).__name__


def measure_memory(compiled: Compiled) -> dict[str, int]:
    """Bytes of one device; arguments and outputs share memory where the state is updated in place."""
    stats = compiled.memory_analysis()
    memory = {name: int(getattr(stats, f"{name}_size_in_bytes")) for name in MEMORY}
    return memory | {"total": memory["argument"] + memory["output"] + memory["temp"] - memory["alias"]}


def describe_array(path: str, shape: tuple[int, ...], dtype: np.dtype, sharding: Sharding) -> dict[str, Any]:
    """Describe an input: path, shape, type, the mesh axes that split each of its axes, and its bytes on one device."""
    parts, kind = split_axes(sharding, len(shape)), sharding.memory_kind
    return {
        "path": path,
        "shape": list(shape),
        "dtype": str(dtype),
        "sharding": f"({', '.join(parts)})" + (f" {kind}" if kind not in (None, DEVICE_MEMORY) else ""),
        "bytes_per_device": math.prod(sharding.shard_shape(shape)) * dtype.itemsize,
    }


def split_axes(sharding: Sharding, rank: int) -> list[str]:
    """Return, for each axis of an array, the mesh axes that split it, joined by `+`, or `-`."""
    if not isinstance(sharding, NamedSharding):
        return ["-"] * rank
    spec = [*sharding.spec]
    named = [axes if isinstance(axes, tuple) else (axes,) for axes in spec + [None] * (rank - len(spec))]
    return ["+".join(axis for axis in axes if axis and sharding.mesh.shape[axis] > 1) or "-" for axes in named]


def describe_inputs(lowered: Lowered, compiled: Compiled) -> list[dict[str, Any]]:
    """Describe every input that the compiled step keeps, in the order of its arguments."""
    infos, tree = jax.tree_util.tree_flatten_with_path(lowered.args_info)
    shardings = tree.flatten_up_to(compiled.input_shardings)  # type: ignore[attr-defined]
    return [
        describe_array(jax.tree_util.keystr(path), tuple(info.shape), info.dtype, sharding)
        for (path, info), sharding in zip(infos, shardings, strict=True)
        if sharding is not None
    ]


def write_packed(path: Path, text: str) -> None:
    """Write a text with gzip; equal texts make equal files."""
    path.write_bytes(gzip.compress(text.encode(), compresslevel=6, mtime=0))


def installed(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def sha256(text: str) -> str:
    """Hex digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def strip_stablehlo(text: str) -> str:
    """Return a lowered program without locations, result names and function names, which change no result."""
    text = re.sub(r"(?m)^#loc.*\n", "", text)
    text = re.sub(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", "", text)
    text = re.sub(r'jax\.result_info = "[^"]*"', "", text)
    return number_names(text, r"@[\w.$-]+", "@f")


def strip_hlo(text: str) -> str:
    """Return an optimised program without metadata and source tables, its names numbered by first use."""
    # the entry's argument names; their types are repeated where they are used
    text = re.sub(r"(?m)^(ENTRY \S+ )\(.*$", r"\1", text)
    text = re.sub(r",? metadata=\{[^}]*\}", "", text)
    # packed instructions that the compiler has replaced, with their metadata
    text = re.sub(r'"original_instruction":"[^"]*"', "", text)
    text = re.sub(r"(?m)^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:.+\n)*", "", text)
    return number_names(text, r"%[\w.$-]+", "%v")


def number_names(text: str, pattern: str, prefix: str) -> str:
    """Replace every name that matches by `prefix` and the order in which it first appears."""
    numbers: dict[str, str] = {}
    return re.sub(pattern, lambda match: numbers.setdefault(match.group(), f"{prefix}{len(numbers)}"), text)


def quiet_libtpu() -> None:
    """Set libtpu up for a machine without a TPU: no query of the metadata server, several compiles at once."""
    for name in ("TPU_SKIP_MDS_QUERY", "ALLOW_MULTIPLE_LIBTPU_LOAD"):
        os.environ.setdefault(name, "1")
    jax.config.update("jax_platforms", "cpu")


def keep_compiled(stages: Stages, *, stop: bool = False, programs: Path | None = None) -> None:
    """From now on whatever is lowered and compiled by itself, not by being called, is kept in the folder.

    stop: this process ends with the first such program. programs: a folder that keeps what equal ones were compiled to.
    """
    compile_lowered = jax.stages.Lowered.compile

    def compile_and_keep(lowered: Lowered, *words: Any, **named: Any) -> Compiled:
        stages.lowered(lowered, None)
        kept = programs / stages.record["fingerprints"]["lowered"] if programs else None
        if stop and kept is not None and (kept / FILE).is_file():
            found = json.loads((kept / FILE).read_text(encoding="utf-8"))
            shutil.copyfile(kept / OPTIMISED, stages.out / OPTIMISED)
            stages.record |= {"memory": found["memory"], "fingerprints": found["fingerprints"]}
            end(stages)
        compiled = stages.compile(lowered, lambda: compile_lowered(lowered, *words, **named))
        stages.arrays = describe_inputs(lowered, compiled)
        if stop:
            end(stages, kept)
        return compiled

    jax.stages.Lowered.compile = compile_and_keep  # type: ignore[method-assign, assignment]


def end(stages: Stages, kept: Path | None = None) -> NoReturn:
    """Write `compile.json`, keep a copy for equal programs in the folder `kept`, and end this process at once."""
    stages.finish(None)
    if kept is not None and not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=kept.parent))
        for name in (FILE, OPTIMISED):
            shutil.copyfile(stages.out / name, unfinished / name)
        with suppress(OSError):  # an equal program was quicker
            unfinished.rename(kept)
    os._exit(0)


def main(argv: Sequence[str]) -> int:
    """The command line: 0 compiled, 1 it does not compile."""
    parser = argparse.ArgumentParser(
        prog="compile_record.py", description="Record the program of another trainer's compile."
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--topology", required=True)
    parser.add_argument("--devices", type=int, required=True)
    parser.add_argument("--hbm-bytes", type=int, required=True)
    parser.add_argument("--stop", action="store_true", help="the module trains: end it when it has compiled its step")
    parser.add_argument("--programs", type=Path, help="folder that keeps what programs were compiled to, for --stop")
    parser.add_argument("module")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    given = parser.parse_args(argv)
    if not given.stop:
        quiet_libtpu()
    stages = Stages(given.out, given.topology, given.hbm_bytes, given.devices)
    try:
        with recorded(stages):
            keep_compiled(stages, stop=given.stop, programs=given.programs)
            say("lowering")
            run_module(given.module, given.words)
            if "memory" not in stages.record:
                raise NothingCompiled(f"{given.module} has compiled nothing")
    except Exception:
        traceback.print_exc()
        return 1
    say(f"done in {stages.record['compile_seconds']:.0f} s")
    return 0


def run_module(module: str, words: Sequence[str]) -> None:
    """Run a module as `__main__`. Raises RuntimeError if its exit status is not 0."""
    sys.argv = [module, *words]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise RuntimeError(f"{module} ended with {ended.code}") from ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
