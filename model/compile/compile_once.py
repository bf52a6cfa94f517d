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

from model.compile_record import OPTIMISED, Stages, say


class _HandedOver(Exception):
    """Stops a compile before the compiler runs."""


def compile_once(
    stages: Stages, lowered: jax.stages.Lowered, compile_lowered: Callable[[], jax.stages.Compiled], programs: Path
) -> None:
    """Run `stages.compile`, or reuse the program from the folder `programs`.

    If processes bring one program at once, the first compiles and the others wait. If it dies, the next compiles.
    """
    with stages.timed():
        key = find_key(compile_lowered)
        stages.record["compiler_key"] = key
        kept = programs / key
        with locked(programs / f"{key}.lock"):
            if (kept / "kept.json").is_file():
                _take(stages, kept)
            else:
                stages.compile(lowered, compile_lowered)
                _keep(stages, kept)


def find_key(compile_lowered: Callable[[], jax.stages.Compiled]) -> str:
    """Return JAX's cache key of everything it would pass to the compiler, without running the compiler."""
    found = []

    def stop(backend: Any, module: Any, devices: Any, options: Any, *_: Any) -> NoReturn:
        found.append(cache_key.get(module, devices, options, backend))
        raise _HandedOver

    compile_or_get_cached = compiler.compile_or_get_cached
    compiler.compile_or_get_cached = stop  # type: ignore[assignment]
    try:
        compile_lowered()
    except _HandedOver:
        return found[0]
    finally:
        compiler.compile_or_get_cached = compile_or_get_cached
    raise RuntimeError("JAX has compiled the step without its own compile_or_get_cached")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file. The kernel releases it when the process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _take(stages: Stages, kept: Path) -> None:
    found = json.loads((kept / "kept.json").read_text(encoding="utf-8"))
    say(f"not compiled: {found['compiled_as']} handed the same program to the compiler, and its result is taken")
    shutil.copyfile(kept / OPTIMISED, stages.out / OPTIMISED)
    stages.record |= {"memory": found["memory"], "taken_from": found["compiled_as"]}
    stages.record["fingerprints"]["optimised"] = found["optimised"]


def _keep(stages: Stages, kept: Path) -> None:
    """Store the program; `kept.json`, which marks it as complete, is written last."""
    kept.mkdir(exist_ok=True)
    shutil.copyfile(stages.out / OPTIMISED, kept / OPTIMISED)
    found = {
        "compiled_as": stages.out.name,
        "memory": stages.record["memory"],
        "optimised": stages.record["fingerprints"]["optimised"],
    }
    unfinished = kept / "kept.json.tmp"
    unfinished.write_text(json.dumps(found) + "\n", encoding="utf-8")
    unfinished.replace(kept / "kept.json")
