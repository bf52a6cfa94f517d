"""Reuses the compiled program of an equal step, or compiles the step and keeps the result.

Steps are equal if their keys in JAX's compilation cache are: program without locations, compile options, flags,
devices, jaxlib, libtpu. The cache itself can write executables for devices that this machine lacks, but cannot read
them back (docs/decisions/0037-one-program-is-compiled-once.md).
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

from model.compile_record import OPTIMISED, CompileRecord, say


class _BeforeCompiler(Exception):
    """Stops a compile before the compiler runs."""


def compile_once(
    record: CompileRecord,
    lowered: jax.stages.Lowered,
    compile_lowered: Callable[[], jax.stages.Compiled],
    programs: Path,
) -> None:
    """Run `record.compile`, or reuse the program from the folder `programs`.

    Of several processes with the same program, the first compiles it and the others wait. If it dies, the next does.
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
    """Return JAX's cache key of everything it would pass to the compiler, without running the compiler."""
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
    """Hold an exclusive lock on a file. The kernel releases it when the process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _reuse(record: CompileRecord, stored: Path) -> None:
    found = json.loads((stored / "kept.json").read_text(encoding="utf-8"))
    say(f"not compiled: {found['compiled_as']} has compiled the same program; its result is reused")
    shutil.copyfile(stored / OPTIMISED, record.out / OPTIMISED)
    record.facts |= {"memory": found["memory"], "taken_from": found["compiled_as"]}
    record.facts["fingerprints"]["optimised"] = found["optimised"]


def _store(record: CompileRecord, stored: Path) -> None:
    """Store the program; `kept.json`, which marks it as complete, is written last."""
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
