"""Keeps the StableHLO of a run's training step. JAX itself writes the program (JAX_DUMP_IR_TO); nothing is patched."""

import gzip
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from configs.backends import settings_model
from tasks.records.log_reading import StepCompile
from tasks.records.observation import PROGRAM
from tasks.records.plan import RunPlan
from tasks.store.atomic import write_atomically, write_bytes_atomically
from tasks.store.documents import dump_json, load_json, read_document

COMPILES = "compiles.json"  # the argument types of each compile of the step
FOLDER = "lowered"  # subfolder of a run's folder with every program that JAX compiled; removed at the run's end
VARIABLE = "JAX_DUMP_IR_TO"
_MODULE = re.compile(r"jax_ir\d+_(?:jit_)?(?P<name>.+)_compile\.mlir")
_ARGUMENT = re.compile(r"%arg\d+: tensor<([^>]*)>")
_STEP, _PRODUCTS = "train_step", ("stablehlo.dot_general", "stablehlo.convolution")


def program_variables(plan: RunPlan) -> dict[str, str]:
    """Return environment variables that make JAX write a run's programs.

    Empty for plans that only compile, for runs without this machine's files, and if the plan sets the variable itself.
    """
    if not settings_model(plan.backend).shares_files or not plan.work.has_steps or VARIABLE in plan.environment:
        return {}
    return {VARIABLE: str(Path(plan.directory) / FOLDER)}


def keep_step_program(directory: Path) -> Path | None:
    """Keep the step's program in a run's folder, gzipped, with source locations; return its path, or None without one.

    Also writes the argument types of each compile of the step, and removes all other programs. The step is the first
    compile of the function `train_step`, else the largest program with matrix products or convolutions.
    """
    kept, folder = directory / PROGRAM, directory / FOLDER
    if folder.is_dir():
        found = {
            path: match["name"] for path in sorted(folder.glob("*.mlir")) if (match := _MODULE.fullmatch(path.name))
        }
        step = _find_step(found)
        if step is not None:
            write_bytes_atomically(kept, gzip.compress(step.read_bytes(), compresslevel=6, mtime=0))
            compiles = [_signature(path) for path, name in found.items() if name == found[step]]
            write_atomically(directory / COMPILES, dump_json({"signatures": compiles}))
        shutil.rmtree(folder)
    return kept if kept.exists() else None


def read_compiles(directory: Path) -> tuple[StepCompile, ...]:
    """Return the compiles of the step that a run's COMPILES file lists; empty without that file."""
    found = read_document(directory / COMPILES, load_json) or {"signatures": []}
    return tuple(StepCompile(signature=tuple(signature)) for signature in found["signatures"])


def _signature(program: Path) -> list[str]:
    with program.open(encoding="utf-8", errors="replace") as lines:
        main = next((line for line in lines if "func.func public @main(" in line), "")
    return _ARGUMENT.findall(main)


def _find_step(programs: Mapping[Path, str]) -> Path | None:
    """Return the step's program. programs: file → function, in the order of the compiles."""
    steps = (path for path, name in programs.items() if name == _STEP)
    by_size = sorted(programs, key=lambda path: -path.stat().st_size)
    return next(steps, None) or next(filter(_has_products, by_size), None)


def _has_products(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    return any(name in text for name in _PRODUCTS)
