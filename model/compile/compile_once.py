"""Reuses the compiled program of an equal step, or compiles the step and stores the program.

Steps are equal if JAX's compilation cache has the same key for both. The key covers the program without locations,
compile options, flags, devices, jaxlib and libtpu. The cache itself is of no use here: it cannot read back executables
for devices that this machine lacks (docs/decisions/0037-one-program-is-compiled-once.md).
"""

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import jax
from jax._src import cache_key, compiler

from model.compile_record import OPTIMISED, CompileRecord, print_progress


class _BeforeCompiler(Exception):
    """Stops a compile before the compiler runs."""


def compile_once(
    record: CompileRecord,
    lowered: jax.stages.Lowered,
    compile_lowered: Callable[[], jax.stages.Compiled],
    programs: Path,
) -> None:
    """Run `record.compile`, or reuse the program from the folder `programs`.

    If several processes have the same program, one compiles it, and the others wait. If that process dies, the next one
    compiles.
    """
    with record.timed_compile():
        key = find_key(compile_lowered)
        record.facts["compiler_key"] = key
        stored = programs / key
        with locked(programs / f"{key}.lock"):
            if (stored / "kept.json").is_file():
                _reuse(record, stored)
            else:
                record.compile(lowered, compile_lowered)
                _store(record, stored)


def find_key(compile_lowered: Callable[[], jax.stages.Compiled]) -> str:
    """Return the key that JAX's compilation cache has for the step, without running the compiler."""
    found = []

    def stop(backend: Any, module: Any, devices: Any, options: Any, *_: Any) -> NoReturn:
        found.append(cache_key.get(module, devices, options, backend))
        raise _BeforeCompiler

    compile_or_get_cached = compiler.compile_or_get_cached
    compiler.compile_or_get_cached = stop  # type: ignore[assignment]
    try:
        compile_lowered()
    except _BeforeCompiler:
        return found[0]
    finally:
        compiler.compile_or_get_cached = compile_or_get_cached
    raise RuntimeError("this JAX compiles without `compile_or_get_cached`; use the JAX version in uv.lock")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file exclusively during the block. The kernel releases the lock when the process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _reuse(record: CompileRecord, stored: Path) -> None:
    found = json.loads((stored / "kept.json").read_text(encoding="utf-8"))
    print_progress(f"not compiled: {found['compiled_as']} has compiled the same program; its result is reused")
    shutil.copyfile(stored / OPTIMISED, record.out / OPTIMISED)
    record.facts |= {"memory": found["memory"], "taken_from": found["compiled_as"]}
    record.facts["fingerprints"]["optimised"] = found["optimised"]


def _store(record: CompileRecord, stored: Path) -> None:
    """Store the program. `kept.json` is written last and marks the program as complete."""
    stored.mkdir(exist_ok=True)
    shutil.copyfile(record.out / OPTIMISED, stored / OPTIMISED)
    found = {
        "compiled_as": record.out.name,
        "memory": record.facts["memory"],
        "optimised": record.facts["fingerprints"]["optimised"],
    }
    unfinished = stored / "kept.json.tmp"
    unfinished.write_text(json.dumps(found) + "\n", encoding="utf-8")
    unfinished.replace(stored / "kept.json")
