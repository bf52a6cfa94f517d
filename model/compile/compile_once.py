"""Turns a lowered step into what an equal one was compiled to before, or compiles it and keeps that for the next.

Equal is what the compiler cannot tell apart, by JAX's own key of its compilation cache: the program without locations,
compile options, flags, devices, jaxlib, libtpu. The cache itself writes executables for devices that nobody has, but
cannot read them (docs/decisions/0037-one-program-is-compiled-once.md).
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
    """Ends a compile where the compiler would begin."""


def compile_once(
    stages: Stages, lowered: jax.stages.Lowered, compile_lowered: Callable[[], jax.stages.Compiled], programs: Path
) -> None:
    """As `stages.compile`, but a program that is kept in the folder `programs` is not compiled again.

    Of several that come with one program at once, the first compiles and the others wait; if it dies, the next does.
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
    """What names everything that JAX would hand to the compiler; the compiler is not called."""
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
    """Nobody else is in here with the same path. The kernel lets go of it when the process dies, however it does."""
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
    """The file that says it is whole is written last."""
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
