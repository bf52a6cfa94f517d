"""Golden curves: the losses of two of our own runs on the CPU, digit for digit. To renew both, with a reason:

    python -m tests.golden.curve --reason "JAX 0.12.1 fuses the softmax in another order"

A file holds the arguments of `python -m model.train`, its environment, the CPU, the versions and the reason of every
renewal. `other_cpus` is the largest relative difference on another CPU, which may add in another order.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
NAMES = ("linen-f32", "nnx-int8")
CPU_FACTS = ("vendor_id", "cpu family", "model", "stepping", "cache size")
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "qwix", "numpy")


def read_curve(name: str) -> dict[str, Any]:
    """Return a golden curve: arguments, environment, versions, reasons and losses."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def train_again(curve: dict[str, Any], folder: Path) -> list[float]:
    """Return the loss of every step of the curve's run, trained in a separate process."""
    metrics = folder / "metrics.jsonl"
    places = [f"base_output_directory={folder}", f"metrics_file={metrics}"]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
    subprocess.run(
        [sys.executable, "-m", "model.train", *curve["arguments"], *places],
        cwd=ROOT, env=inherited | curve["environment"], check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]


def describe_cpu() -> dict[str, str]:
    """Return the facts by which XLA and Eigen choose instructions and block sizes; empty if not on Linux."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else ():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    return {name: facts[name] for name in CPU_FACTS if name in facts}


def list_versions() -> dict[str, str]:
    """Return the installed versions of the libraries that influence digits."""
    return {name: version(name) for name in LIBRARIES}


def renew(name: str, reason: str) -> None:
    """Train a curve's run and write its losses, the versions and the reason."""
    curve = read_curve(name)
    with tempfile.TemporaryDirectory() as folder:
        losses = train_again(curve, Path(folder))
    changed = {
        "cpu": describe_cpu(),
        "versions": list_versions(),
        "reasons": [*curve["reasons"], reason],
        "losses": losses,
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(curve | changed, indent=1) + "\n")


def main() -> None:
    """Renew every curve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--reason", required=True, help="why the digits change; kept in the files")
    reason = parser.parse_args().reason
    for name in NAMES:
        renew(name, reason)


if __name__ == "__main__":
    main()
