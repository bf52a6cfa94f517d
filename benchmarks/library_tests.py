"""Asks tests of optax, Flax and JAX, and the same claims by the library, about faults in copies of those packages.

    uv run --with scikit-learn python -m benchmarks.library_tests [--tests FOLDER] [NAME]…

FOLDER holds clones of Flax and JAX as `flax/` and `jax/`, for their tests; optax has its tests, which import
scikit-learn, in its package. NAME selects the faults whose name contains it; without one, the packages as they are are
asked, too. A fault is found if one test, or one claim, of its package fails. Exit status: 0 if no claim fails without a
fault, and all but one find theirs.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import maxview_probe as mv
from benchmarks.library_claims import CLAIMS
from benchmarks.machine import describe_machine

ROOT = Path(__file__).parents[1]
ROUNDS = 30.0  # a claim holds if neither side rounds so many times as far as the other; chosen, not fitted


class Fault(NamedTuple):
    """A change of one function of a package: in its source, each old text becomes the new one."""

    name: str
    package: str
    file: str
    function: str
    edits: Sequence[tuple[str, str]]


FAULTS = (
    Fault(
        "Adam's epsilon in the root", "optax", "_src/transform.py", "scale_by_adam",
        [("m / (jnp.sqrt(v + eps_root) + eps)", "m / jnp.sqrt(v + eps)")],
    ),
    Fault(
        "no bias correction", "optax", "_src/transform.py", "scale_by_rms",
        [("nu_hat = optax.tree.bias_correction(nu, decay, count_inc)", "nu_hat = nu")],
    ),
    Fault(
        "an epsilon in the clip's norm", "optax", "transforms/_clipping.py", "clip_by_global_norm",
        [("(t / g_norm.astype(t.dtype))", "(t / (g_norm + 1e-6).astype(t.dtype))")],
    ),
    Fault(
        "a schedule one step ahead", "optax", "schedules/_schedule.py", "cosine_decay_schedule",
        [("jnp.minimum(count,", "jnp.minimum(count + 1,")],
    ),
    Fault(
        "a norm's epsilon outside the root", "flax", "linen/normalization.py", "_normalize",
        [("lax.rsqrt(var + epsilon)", "1 / (jnp.sqrt(var) + epsilon)")],
    ),
    Fault(
        "the variance's momentum swapped", "flax", "linen/normalization.py", "__call__",
        [(
            "self.momentum * ra_var.value + (1 - self.momentum) * var",
            "(1 - self.momentum) * ra_var.value + self.momentum * var",
        )],
    ),
    Fault(
        "masked by -1e4", "flax", "linen/attention.py", "dot_product_attention_weights",
        [("jnp.finfo(dtype).min", "jnp.array(-1e4, dtype)")],
    ),
    Fault(
        "the gradient of logsumexp's maximum", "jax", "_src/ops/special.py", "logsumexp", [
            ("amax = lax.stop_gradient(lax.select(ufuncs.isfinite(amax), amax, lax.full_like(amax, 0)))",
             "amax = lax.select(ufuncs.isfinite(amax), amax, lax.full_like(amax, 0))"),
            ("amax.astype(sumexp.dtype)", "lax.stop_gradient(amax).astype(sumexp.dtype)"),
        ],
    ),
    Fault(
        "softmax's gradient summed in bfloat16", "jax", "_src/nn/functions.py", "_softmax_jvp",
        [("(y * x_dot).sum(", "(y * x_dot).astype(jnp.bfloat16).sum(")],
    ),
    Fault(
        "query heads of other groups", "jax", "_src/nn/functions.py", "_dot_product_attention_xla",
        [("jnp.reshape(query, (B, T, K, G, H))", "jnp.reshape(query, (B, T, G, K, H)).swapaxes(2, 3)")],
    ),
)  # fmt: skip


def plant(fault: Fault, folder: Path) -> list[int]:
    """Copy the package with the fault into `folder`; return the numbers of its changed lines."""
    spec = find_spec(fault.package)
    assert spec
    assert spec.origin
    shutil.copytree(Path(spec.origin).parent, folder / fault.package, ignore=shutil.ignore_patterns("__pycache__"))
    path, lines = folder / fault.package / fault.file, list[int]()
    text = path.read_text(encoding="utf-8")
    for old, new in fault.edits:
        place = text.index(old, text.index(f"def {fault.function}("))
        lines.append(text.count("\n", 0, place) + 1)
        text = f"{text[:place]}{new}{text[place + len(old) :]}"
    path.write_text(text, encoding="utf-8")
    return lines


def check(package: str) -> Iterator[dict[str, Any]]:
    """Yield what the library finds of each claim of a package, as it is on the path."""
    for claim in CLAIMS[package]():
        began = time.monotonic()
        found = mv.same_function(claim.left, claim.right, *claim.given, grad=claim.grad)
        holds = found.same and found.rounding.ratio < ROUNDS > 1 / found.rounding.ratio
        lines = [f"{root.file.partition(f'/{package}/')[2] or root.file}:{root.number}" for root in found.roots]
        yield {
            "test": claim.test, "holds": holds, "seconds": time.monotonic() - began, "lines": lines,
            "sentence": f"{found.explain()}; {found.rounding}" if found.same else found.explain(),
        }  # fmt: skip


def run_ours(package: str, path: Path | None) -> list[dict[str, Any]]:
    """Return what `check` yields in a process of its own. path: a folder with a copy of the package."""
    words = [sys.executable, "-m", "benchmarks.library_tests", "--check", package]
    done = subprocess.run(words, cwd=ROOT, env=_environment(path), stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_theirs(package: str, path: Path | None, tests: Path | None) -> tuple[int, int, float] | None:
    """Return how many of the package's own tests failed, and ran, and their seconds; None without its tests."""
    spec = find_spec(package)
    assert spec
    assert spec.origin
    source = path or Path(spec.origin).parents[1]
    folder = source / "optax" if package == "optax" else tests and tests / package
    if not folder or not folder.is_dir():
        return None
    claims = list(CLAIMS[package]())
    files = [str(folder / name) for name in dict.fromkeys(claim.file for claim in claims)]
    names = " or ".join(f"({claim.test})" for claim in claims)
    with tempfile.TemporaryDirectory() as scratch:
        report = f"{scratch}/report.xml"
        words = ["pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"--junitxml={report}", *files]
        # an empty file of settings: neither ours nor theirs start processes or select tests
        Path(scratch, "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", *words, "-k", names, "-c", f"{scratch}/pytest.ini"], cwd=folder,
            env=_environment(path), stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            raise SystemExit(done.stdout)
        cases = [one for one in ElementTree.parse(report).iter("testcase") if one.find("skipped") is None]
    failed = sum(one.find("failure") is not None or one.find("error") is not None for one in cases)
    return failed, len(cases), sum(float(one.get("time", 0)) for one in cases)


def _environment(path: Path | None) -> dict[str, str]:
    folders = [*([str(path)] if path else []), str(ROOT), str(ROOT / "probe")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(folders),
        "JAX_PLATFORMS": "cpu",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def ask_intact(tests: Path | None) -> int:
    """Print each claim of the packages as they are, and the sums; return how many do not hold."""
    false = 0
    for package in CLAIMS:
        ours, theirs = run_ours(package, None), run_theirs(package, None, tests)
        for one in ours:
            print(
                f"{'holds' if one['holds'] else 'FALSE':6} {one['seconds']:5.1f} s  {package:6}{one['test'][:60]:60} "
            )
            print(f"{'':17}{one['sentence']}", flush=True)
        false += sum(not one["holds"] for one in ours)
        shown = "not asked" if theirs is None else f"{theirs[1]} tests, {theirs[0]} failed, {theirs[2]:.0f} s"
        print(
            f"{package}: {len(ours)} claims {sum(one['seconds'] for one in ours):.0f} s; its own: {shown}", flush=True
        )
    return false


def main(argv: Sequence[str] | None = None) -> int:
    """Print the claims without a fault, then a row for each fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--check", choices=CLAIMS, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    if given.check:
        for one in check(given.check):
            print(json.dumps(one), flush=True)
        return 0
    print(describe_machine())
    tests = given.tests and given.tests.absolute()
    false = 0 if given.names else ask_intact(tests)
    faults = [one for one in FAULTS if not given.names or any(name in one.name for name in given.names)]
    found = at_line = theirs_found = 0
    for fault in faults:
        with tempfile.TemporaryDirectory() as scratch:
            planted = plant(fault, Path(scratch))
            ours, theirs = run_ours(fault.package, Path(scratch)), run_theirs(fault.package, Path(scratch), tests)
        failed = [one for one in ours if not one["holds"]]
        lines = {line for one in failed for line in one["lines"]}
        is_named = any(f"{fault.file}:{number}" in lines for number in planted)
        found, at_line = found + bool(failed), at_line + is_named
        theirs_found += bool(theirs and theirs[0])
        shown = "not asked" if theirs is None else f"{theirs[0]} of {theirs[1]} fail, {theirs[2]:.0f} s"
        print(
            f"{fault.name:40} ours: {len(failed)} of {len(ours)} fail{', its line' * is_named}, "
            f"{sum(one['seconds'] for one in ours):.0f} s; theirs: {shown}"
        )
        for one in failed[:2]:
            print(f"{'':17}{one['sentence']} [{', '.join(one['lines'][:2])}]", flush=True)
    print(f"{false} false; {found} of {len(faults)} faults found, {at_line} at their line; theirs find {theirs_found}")
    return int(bool(false) or found < len(faults) - 1)


if __name__ == "__main__":
    sys.exit(main())
