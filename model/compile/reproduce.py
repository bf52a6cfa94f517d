"""Runs two lowered training steps and prints in which results they differ.

    python reproduce.py

It needs jax, preferably in the version that kit.json names, and these files in its folder: `baseline.mlir` and
`candidate.mlir`, their arguments as `.npz`, and `kit.json`, which pairs the results of both programs.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.backend import get_backend
from jaxlib.xla_client import CompileOptions, DeviceList

SIDES = ("baseline", "candidate")
MAX_SHOWN = 20  # results
# element type in StableHLO -> numpy's name; SHORT and WORDS translate all other integers and floats
TYPES = {"i1": "bool", "bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
SHORT = re.compile(r"(ui|i|f)(\d+)$")
WORDS = {"ui": "uint", "i": "int", "f": "float"}


def main(folder: Path) -> int:
    """Run both programs. Exit status: 0 all results are equal bit for bit, 1 different."""
    kit = json.loads((folder / "kit.json").read_text())
    print_result(f"jax {jax.__version__}; the programs were lowered by {' and '.join(kit['jax'])}")
    results = [run_program(folder, side, kit["arguments"][side]) for side in SIDES]
    rows = []
    for name, left, right in kit["results"]:
        rows.append((*count_unequal(results[0][left], results[1][right]), name))
    different = sorted((row for row in rows if row[0]), reverse=True)
    print_result(f"{len(rows) - len(different)} of {len(rows)} results are equal bit for bit")
    for largest, count, size, name in different[:MAX_SHOWN]:
        print_result(f"  {name}: {count} of {size} values differ, by {largest:.6g} at most")
    for side, alone in kit["alone"].items():
        if alone:
            print_result(f"  only the {side} returns {', '.join(alone[:MAX_SHOWN])}")
    return 1 if different or any(kit["alone"].values()) else 0


def print_result(text: str) -> None:
    """Print one line."""
    sys.stdout.write(text + "\n")


def run_program(folder: Path, side: str, arguments: list[list[str]]) -> list[Any]:
    """Return the results of a program for its recorded arguments; `arguments`: (name in the .npz, element type)."""
    text = (folder / f"{side}.mlir").read_bytes()
    stored = np.load(folder / f"{side}.npz")
    inputs = [jax.device_put(restore_type(stored[name], kind)) for name, kind in arguments]
    executable = get_backend().compile_and_load(text, DeviceList(tuple(jax.devices()[:1])), CompileOptions())
    return [np.asarray(result) for result in executable.execute(inputs)]


def restore_type(bits: Any, kind: str) -> Any:
    """Return stored bits as an array of the element type `kind`."""
    found = SHORT.fullmatch(kind)
    name = TYPES.get(kind) or (f"{WORDS[found[1]]}{found[2]}" if found else kind)
    dtype = jax.numpy.dtype(name)
    return bits if bits.dtype == dtype else bits.view(dtype)


def count_unequal(left: Any, right: Any) -> tuple[float, int, int]:
    """Return (largest difference, number of unequal values, number of values).

    The difference ignores NaN. It is inf if shapes or dtypes differ, if an infinity differs, or if only NaN or the sign
    of 0 differs.
    """
    if left.shape != right.shape or left.dtype != right.dtype:
        return float("inf"), left.size, left.size
    if left.tobytes() == right.tobytes():
        return 0.0, 0, left.size
    values = [np.asarray(side, np.float64) for side in (left, right)]
    gaps = np.abs(values[0] - values[1])
    largest = float(np.nanmax(gaps)) if np.isfinite(gaps).any() else float("inf")
    return largest or float("inf"), int((values[0] != values[1]).sum()), left.size


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
