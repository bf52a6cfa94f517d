"""Records an ahead-of-time compile: `compile.json`, the lowered and the optimised program.

    python -P model/compile_record.py --out DIR --topology NAME --devices N --hbm-bytes N MODULE [WORD…]

runs another trainer's own ahead-of-time compile, such as MaxText's `train_compile`, and records the program. It runs in
that trainer's environment, so of packages it imports only JAX and numpy. With `--stop`, MODULE trains, and the process
exits after its first compile; then `--programs DIR` stores the compiled program there, or reuses the program of an
equal step.
"""

import argparse
import base64
import gzip
import hashlib
import importlib
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
from jax.interpreters.mlir import make_ir_context
from jax.sharding import NamedSharding, Sharding
from jax.stages import Compiled, Lowered
from jaxlib.mlir import ir

VERSION = 1
FILE, LOWERED, OPTIMISED = "compile.json", "lowered.mlir.gz", "optimised.hlo.gz"
PACKAGES = ("jax", "jaxlib", "libtpu", "flax", "optax", "maxtext", "qwix", "aqtp")
MEMORY = (
    "argument", "output", "temp", "alias", "host_argument", "host_output", "host_temp", "generated_code",
)  # fmt: skip
DEVICE_MEMORY = "device"  # JAX's name for a device's own memory, which `describe_input` does not show
# Messages of a program that does not fit into the memory of a device.
OVERFLOW = re.compile(r"HbmOom|memory space hbm|RESOURCE_EXHAUSTED.*\bhbm\b", re.IGNORECASE)
# A kernel in a program's text: MLIR bytecode, which begins with "ML\xefR", in base64 (TPU) or as an MLIR string (GPU).
KERNEL = re.compile(r'(?:(?<=")|(?<=\\22))TUzvU[g-v][\w+/]*={0,2}|(?<=")ML\\EFR(?:[^"\\]|\\.)*')
KERNEL_DIALECTS = ("jaxlib.mosaic.python.tpu", "jaxlib.mosaic.python.mosaic_gpu", "jaxlib.triton.dialect")
KERNEL_LOCATIONS = "tpu.locs"  # the attribute of the module that holds a TPU kernel's locations, apart from the kernel


class NothingCompiled(RuntimeError):
    """The module ended without an error and compiled nothing ahead of time."""


@dataclass
class CompileRecord:
    """One compile: its output folder, its target, and the facts so far. `compile.json` is written at the end."""

    out: Path
    topology: str
    hbm_bytes: int  # memory per device
    devices: int | None = None
    arrays: list[dict[str, Any]] = field(default_factory=list)  # the step's inputs, as `describe_input` returns them
    facts: dict[str, Any] = field(default_factory=dict)  # further keys of compile.json: fingerprints, memory, seconds

    def write_lowered(self, lowered: Lowered, seconds: float | None) -> None:
        """Write the lowered step (StableHLO) and record its fingerprint; `seconds`: lowering time, None if unknown."""
        write_gzip(self.out / LOWERED, lowered.as_text(debug_info=True))
        self.facts["lower_seconds"] = seconds
        self.facts["fingerprints"] = {"lowered": sha256(strip_stablehlo(lowered.as_text())), "optimised": None}

    def compile(self, lowered: Lowered, compile_lowered: Callable[[], Compiled]) -> Compiled:
        """Return `compile_lowered()`; write the program's text and record its fingerprint, memory and compile time."""
        print_progress(f"compiling for {self.topology}, {self.devices} devices")
        with self.timed_compile():
            compiled = compile_lowered()
        text = compiled.as_text() or ""
        write_gzip(self.out / OPTIMISED, text)
        self.facts["fingerprints"]["optimised"] = sha256(strip_hlo(text))
        self.facts["memory"] = measure_memory(compiled)
        return compiled

    @contextmanager
    def timed_compile(self) -> Iterator[None]:
        """Record the wall and processor seconds of the block as the compile time."""
        wall, cpu = time.monotonic(), time.process_time()
        yield
        self.facts["compile_seconds"] = round(time.monotonic() - wall, 3)
        self.facts["compile_cpu_seconds"] = round(time.process_time() - cpu, 3)

    def finish(self, error: BaseException | None) -> None:
        """Write `compile.json` atomically; `error`: why the compile failed, None if it succeeded."""
        failure = None if error is None else {"type": name_error(error), "message": str(error) or repr(error)}
        arrays = sorted(self.arrays, key=lambda array: (-array["bytes_per_device"], array["path"]))
        facts = {"version": VERSION, "topology": self.topology, "devices": self.devices, "hbm_bytes": self.hbm_bytes}
        record = facts | {"ok": error is None, "error": failure} | self.facts
        record |= {"arrays": arrays, "software": package_versions(PACKAGES)}
        unfinished = self.out / f"{FILE}.tmp"
        unfinished.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self.out / FILE)


@contextmanager
def write_at_end(record: CompileRecord) -> Iterator[None]:
    """Write `compile.json` after the block; record an exception in it, and raise the exception again."""
    record.out.mkdir(parents=True, exist_ok=True)
    for name in (FILE, LOWERED, OPTIMISED):  # left by an earlier compile
        (record.out / name).unlink(missing_ok=True)
    try:
        yield
    except Exception as error:
        record.finish(error)
        raise
    record.finish(None)


def print_progress(text: str) -> None:
    """Print one line of progress."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def name_error(error: BaseException) -> str:
    """Return "HbmOverflow" if the program does not fit into the memory of a device, else the error's class."""
    return "HbmOverflow" if OVERFLOW.search(str(error)) else type(error).__name__


def measure_memory(compiled: Compiled) -> dict[str, int]:
    """Return the compiler's estimate of bytes per device by kind; `alias`: outputs in the memory of arguments."""
    stats = compiled.memory_analysis()
    memory = {name: int(getattr(stats, f"{name}_size_in_bytes")) for name in MEMORY}
    return memory | {"total": memory["argument"] + memory["output"] + memory["temp"] - memory["alias"]}


def describe_input(path: str, shape: tuple[int, ...], dtype: np.dtype, sharding: Sharding) -> dict[str, Any]:
    """Describe an input: path, shape, dtype, the mesh axes that split each of its axes, and its bytes on one device."""
    parts, kind = name_axes(sharding, len(shape)), sharding.memory_kind
    return {
        "path": path,
        "shape": list(shape),
        "dtype": str(dtype),
        "sharding": f"({', '.join(parts)})" + (f" {kind}" if kind not in (None, DEVICE_MEMORY) else ""),
        "bytes_per_device": math.prod(sharding.shard_shape(shape)) * dtype.itemsize,
    }


def name_axes(sharding: Sharding, rank: int) -> list[str]:
    """Return, for each axis of an array, the mesh axes that split it, joined by `+`; `-` if it is not split."""
    if not isinstance(sharding, NamedSharding):
        return ["-"] * rank
    spec = [*sharding.spec]
    named = [axes if isinstance(axes, tuple) else (axes,) for axes in spec + [None] * (rank - len(spec))]
    return ["+".join(axis for axis in axes if axis and sharding.mesh.shape[axis] > 1) or "-" for axes in named]


def describe_inputs(lowered: Lowered, compiled: Compiled) -> list[dict[str, Any]]:
    """Describe every input that the compiled step uses, in the order of its arguments."""
    infos, tree = jax.tree_util.tree_flatten_with_path(lowered.args_info)
    shardings = tree.flatten_up_to(compiled.input_shardings)  # type: ignore[attr-defined]
    return [
        describe_input(jax.tree_util.keystr(path), tuple(info.shape), info.dtype, sharding)
        for (path, info), sharding in zip(infos, shardings, strict=True)
        if sharding is not None
    ]


def write_gzip(path: Path, text: str) -> None:
    """Write a text with gzip; equal texts make equal files."""
    path.write_bytes(gzip.compress(text.encode(), compresslevel=6, mtime=0))


def package_versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def sha256(text: str) -> str:
    """Return the hex digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def strip_stablehlo(text: str) -> str:
    """Return a lowered program without locations and result names, its functions numbered by first use."""
    text = strip_kernels(text)
    text = re.sub(r"(?m)^#loc.*\n", "", text)
    text = re.sub(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", "", text)
    text = re.sub(r'jax\.result_info = "[^"]*"', "", text)
    return number_names(text, r"@[\w.$-]+", "@f")


def strip_hlo(text: str) -> str:
    """Return an optimised program without metadata and source tables, its instructions numbered by first use."""
    text = strip_kernels(text)
    # the entry's parameter list; the parameter instructions repeat its types
    text = re.sub(r"(?m)^(ENTRY \S+ )\(.*$", r"\1", text)
    text = re.sub(r",? metadata=\{[^}]*\}", "", text)
    # serialized instructions that the compiler has replaced; they contain metadata
    text = re.sub(r'"original_instruction":"[^"]*"', "", text)
    text = re.sub(r"(?m)^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:.+\n)*", "", text)
    return number_names(text, r"%[\w.$-]+", "%v")


def strip_kernels(text: str) -> str:
    """Return a program's text with a digest of its operations, without source locations, for each Pallas kernel."""
    text = re.sub(r'kernel_hash = "(?:[^"\\]|\\.)*"', "", text)  # JAX's hash of a GPU kernel includes locations
    return KERNEL.sub(lambda found: digest_kernel(found.group()), text)


def digest_kernel(encoded: str) -> str:
    """Return the digest of a kernel's operations. encoded: a match of KERNEL; returned if this JAX cannot parse it."""
    with make_ir_context() as context:
        for name in KERNEL_DIALECTS:
            with suppress(ImportError):
                importlib.import_module(name).register_dialect(context)
        if encoded.startswith("ML"):
            code = ir.StringAttr(ir.Attribute.parse(f'"{encoded}"')).value_bytes
        else:
            code = base64.b64decode(encoded)
        # Mosaic's serialised dialects are never registered. Operations of other unregistered dialects would lose their
        # attributes without an error.
        context.allow_unregistered_dialects = b"stable_mosaic" in code
        try:
            module = ir.Module.parse(code)
        except ir.MLIRError:
            return encoded
        if KERNEL_LOCATIONS in module.operation.attributes:
            del module.operation.attributes[KERNEL_LOCATIONS]
        return f"kernel {sha256(str(module.operation.get_asm(enable_debug_info=False)))}"


def number_names(text: str, pattern: str, prefix: str) -> str:
    """Replace every name that matches `pattern` by `prefix` and a number, in order of first appearance."""
    numbers: dict[str, str] = {}
    return re.sub(pattern, lambda match: numbers.setdefault(match.group(), f"{prefix}{len(numbers)}"), text)


def quiet_libtpu() -> None:
    """Set up libtpu for a machine without a TPU: no query of the metadata server, several processes at once."""
    for name in ("TPU_SKIP_MDS_QUERY", "ALLOW_MULTIPLE_LIBTPU_LOAD"):
        os.environ.setdefault(name, "1")
    jax.config.update("jax_platforms", "cpu")


def record_compiles(record: CompileRecord, *, stop: bool = False, programs: Path | None = None) -> None:
    """Patch `Lowered.compile` to record its program. Calls of jitted functions do not use it and are not recorded.

    stop: exit this process after the first such compile. programs: folder of compiled programs, for reuse with `stop`.
    """
    compile_lowered = jax.stages.Lowered.compile

    def compile_and_record(lowered: Lowered, *words: Any, **named: Any) -> Compiled:
        record.write_lowered(lowered, None)
        stored = programs / record.facts["fingerprints"]["lowered"] if programs else None
        if stop and stored is not None and (stored / FILE).is_file():
            found = json.loads((stored / FILE).read_text(encoding="utf-8"))
            shutil.copyfile(stored / OPTIMISED, record.out / OPTIMISED)
            record.facts |= {"memory": found["memory"], "fingerprints": found["fingerprints"]}
            finish_and_exit(record)
        compiled = record.compile(lowered, lambda: compile_lowered(lowered, *words, **named))
        record.arrays = describe_inputs(lowered, compiled)
        if stop:
            finish_and_exit(record, stored)
        return compiled

    jax.stages.Lowered.compile = compile_and_record  # type: ignore[method-assign, assignment]


def finish_and_exit(record: CompileRecord, stored: Path | None = None) -> NoReturn:
    """Write `compile.json`, copy the program to the folder `stored` for reuse, and exit the process without cleanup."""
    record.finish(None)
    if stored is not None and not stored.exists():
        stored.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=stored.parent))
        for name in (FILE, OPTIMISED):
            shutil.copyfile(record.out / name, unfinished / name)
        with suppress(OSError):  # another process stored it first
            unfinished.rename(stored)
    os._exit(0)


def main(argv: Sequence[str]) -> int:
    """Run the command line. Exit status: 0 compiled, 1 failed."""
    parser = argparse.ArgumentParser(
        prog="compile_record.py", description="Record the program of another trainer's compile."
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--topology", required=True)
    parser.add_argument("--devices", type=int, required=True)
    parser.add_argument("--hbm-bytes", type=int, required=True)
    parser.add_argument("--stop", action="store_true", help="the module trains: end it after its first compile")
    parser.add_argument("--programs", type=Path, help="folder of compiled programs, for --stop")
    parser.add_argument("module")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    given = parser.parse_args(argv)
    if not given.stop:
        quiet_libtpu()
    record = CompileRecord(given.out, given.topology, given.hbm_bytes, given.devices)
    try:
        with write_at_end(record):
            record_compiles(record, stop=given.stop, programs=given.programs)
            print_progress("lowering")
            run_module(given.module, given.words)
            if "memory" not in record.facts:
                raise NothingCompiled(
                    f"{given.module} ended without an ahead-of-time compile; name a module that does one"
                )
    except Exception:
        traceback.print_exc()
        return 1
    print_progress(f"done in {record.facts['compile_seconds']:.0f} s")
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
