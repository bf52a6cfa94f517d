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
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

import maxview_probe as mv
from benchmarks.machine import describe_machine

ROOT = Path(__file__).parents[1]
ROUNDS = 30.0  # times as far as its formula, at most: between two float32, of which one sums in another order


class Claim(NamedTuple):
    """Two functions that a test says are equal, and their arguments."""

    package: str
    file: str  # of the package's own test
    test: str  # its class and name, as pytest's -k takes them
    left: Callable[..., Any]
    right: Callable[..., Any]
    given: Sequence[Any]
    grad: bool = True


class Fault(NamedTuple):
    """A change of one function of a package: in its source, each old text becomes the new one."""

    name: str
    package: str
    file: str
    function: str
    edits: Sequence[tuple[str, str]]


def floats(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """Return the shape of drawn numbers."""
    return jax.ShapeDtypeStruct(shape, dtype)


def claims_of_optax() -> Iterator[Claim]:
    """Yield claims of its losses, schedules and transformations."""
    classes, mask = "losses/_classification_test.py", np.array([True, False, True, True, False])
    pair, entropy = (floats(4, 5), floats(4, 5)), optax.softmax_cross_entropy
    shares = np.array([0.1, 0.3, 0.2, 0.15, 0.25], np.float32)

    def huber(p: Any, t: Any) -> Any:
        gap = jnp.abs(p - t)
        return jnp.where(gap <= 1, gap**2 / 2, gap - 0.5)

    yield Claim(
        "optax", "losses/_regression_test.py", "HuberLossTest and test_batched",
        lambda p, t: optax.huber_loss(p, t, delta=1.0), huber, pair,
    )  # fmt: skip
    yield Claim(
        "optax", "losses/_regression_test.py", "CosineDistanceTest and test_axis",
        lambda p, t: optax.cosine_similarity(p, t, axis=0), lambda p, t: optax.cosine_similarity(p.T, t.T), pair,
    )  # fmt: skip
    yield Claim(
        "optax", classes, "SoftmaxCrossEntropyTest and test_mask", lambda p: entropy(p, shares, where=mask),
        lambda p: entropy(p[mask], shares[mask]), (floats(5),),
    )  # fmt: skip
    yield Claim(
        "optax", classes, "IntegerLabelsTest and test_consistent_with_softmax_cross_entropy_batched",
        optax.softmax_cross_entropy_with_integer_labels, lambda p, labels: entropy(p, jax.nn.one_hot(labels, 5)),
        (floats(4, 5), jax.ShapeDtypeStruct((4,), jnp.int32)),
    )  # fmt: skip

    def focal(p: Any, t: Any) -> Any:
        right = jax.nn.sigmoid(p) * t + (1 - jax.nn.sigmoid(p)) * (1 - t)
        return optax.sigmoid_binary_cross_entropy(p, t) * (1 - right) ** 2

    hard = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], np.float32)
    yield Claim(
        "optax", classes, "SigmoidFocalLossTest and test_scale", lambda p: optax.sigmoid_focal_loss(p, hard, gamma=2),
        lambda p: focal(p, hard), (floats(2, 3),),
    )  # fmt: skip

    def descend(scaling: Any) -> Callable[..., Any]:
        def run(params: Any) -> Any:
            state = scaling.init(params)
            for _ in range(5):
                updates, state = scaling.update(jax.tree.map(lambda x: 2 * x, params), state)
                params = optax.apply_updates(params, updates)
            return params

        return run

    tree = (floats(2), floats(2))
    yield Claim(
        "optax", "_src/transform_test.py", "test_rms_match_adam", descend(optax.scale_by_adam(b1=0)),
        descend(optax.scale_by_rms(decay=0.999, eps_in_sqrt=False, bias_correction=True)), (tree,), grad=False,
    )  # fmt: skip

    def average(first: Any, second: Any) -> Any:
        mean, state = optax.ema(0.9).update(first, optax.ema(0.9).init(first))
        return mean, optax.ema(0.9).update(second, state)[0]

    yield Claim(
        "optax", "transforms/_accumulation_test.py", "test_ema_debias", average,
        lambda a, b: (a, (0.1 * b + 0.9 * 0.1 * a) / (1 - 0.9**2)), tree, grad=False,
    )  # fmt: skip

    def clip(updates: Any) -> Any:
        size = jnp.sqrt(sum((x**2).sum() for x in updates))
        return jax.tree.map(lambda x: x * jnp.minimum(1, 0.5 / size), updates)

    clipping = optax.clip_by_global_norm(0.5)
    yield Claim(
        "optax", "transforms/_clipping_test.py", "test_clip_by_global_norm",
        lambda updates: clipping.update(updates, optax.EmptyState())[0], clip, (tree,), grad=False,
    )  # fmt: skip
    yield Claim(
        "optax", "schedules/_schedule_test.py", "CosineDecayTest and test_decay_count_greater_count_with_alpha",
        optax.cosine_decay_schedule(0.1, 5, 0.1),
        lambda count: 0.1 * (0.9 * (0.5 + 0.5 * jnp.cos(jnp.pi * jnp.clip(count / 5, 0, 1))) + 0.1),
        (np.arange(12, dtype=np.int32),), grad=False,
    )  # fmt: skip


def claims_of_flax() -> Iterator[Claim]:
    """Yield claims of its normalizations, attention and recurrent layers."""
    file = "tests/linen/linen_test.py"
    plain: dict[str, Any] = {"use_scale": False, "epsilon": 1e-5}

    def centre(x: Any, axes: Any) -> Any:
        return (x - x.mean(axes, keepdims=True)) / jnp.sqrt(x.var(axes, keepdims=True) + 1e-5)

    layer = nn.LayerNorm(use_bias=False, reduction_axes=(1, 2), **plain)
    yield Claim(
        "flax", file, "NormalizationTest and test_layer_norm", lambda x: layer.apply({}, x),
        lambda x: centre(x, (1, 2)), (floats(2, 3, 4),),
    )  # fmt: skip
    rms = nn.RMSNorm(**plain)
    yield Claim(
        "flax", file, "NormalizationTest and test_rms_norm", lambda x: rms.apply({}, x),
        lambda x: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5), (floats(2, 3, 4),),
    )  # fmt: skip
    group = nn.GroupNorm(num_groups=2, use_bias=False, **plain)
    yield Claim(
        "flax", file, "NormalizationTest and test_group_norm", lambda x: group.apply({}, x),
        lambda x: centre(x.reshape(2, 3, 3, 2, 4), (1, 2, 4)).reshape(x.shape), (floats(2, 3, 3, 8),),
    )  # fmt: skip
    mask, batch = np.arange(12).reshape(4, 3, 1) % 5 > 0, nn.BatchNorm(momentum=0.9, use_running_average=False)
    first = batch.init(jax.random.key(0), jnp.ones((4, 3, 2)))

    def normalize(x: Any) -> Any:
        y, state = batch.apply(first, x, mask=mask, mutable=["batch_stats"])
        return y, state["batch_stats"]

    def statistics(x: Any) -> Any:
        mean, var = x.mean((0, 1), where=mask), x.var((0, 1), where=mask)
        return (x - mean) / jnp.sqrt(var + 1e-5), {"mean": 0.1 * mean, "var": 0.9 + 0.1 * var}

    yield Claim(
        "flax", file, "NormalizationTest and test_batch_norm and not complex", normalize, statistics, (floats(4, 3, 2),)
    )
    attention = nn.MultiHeadDotProductAttention(num_heads=3, qkv_features=12)
    decoder, inputs = attention.clone(decode=True), floats(2, 5, 12)
    variables = decoder.init(jax.random.key(0), jnp.ones((2, 5, 12)))

    def decode(params: Any, x: Any) -> Any:
        def step(cache: Any, token: Any) -> Any:
            y, state = decoder.apply({"params": params, "cache": cache}, token[:, None], mutable=["cache"])
            return state["cache"], y[:, 0]

        return jax.lax.scan(step, variables["cache"], x.swapaxes(0, 1))[1].swapaxes(0, 1)

    causal = nn.make_causal_mask(jnp.ones((2, 5)))
    yield Claim(
        "flax", "tests/linen/linen_attention_test.py", "test_decoding", decode,
        lambda params, x: attention.apply({"params": params}, x, mask=causal), (variables["params"], inputs),
    )  # fmt: skip
    cell, recurrent = nn.LSTMCell(6), nn.RNN(nn.LSTMCell(6), return_carry=True)
    weights = recurrent.init(jax.random.key(0), jnp.ones((3, 4, 5)))["params"]

    def unroll(params: Any, x: Any) -> Any:
        carry, found = cell.initialize_carry(jax.random.key(0), x[:, 0].shape), list[Any]()
        for n in range(4):
            carry, y = cell.apply({"params": params["cell"]}, carry, x[:, n])
            found.append(y)
        return carry, jnp.stack(found, 1)

    yield Claim(
        "flax", "tests/linen/linen_recurrent_test.py", "RNNTest and test_numerical_equivalence and not with_mask",
        lambda params, x: recurrent.apply({"params": params}, x), unroll, (weights, floats(3, 4, 5)),
    )  # fmt: skip


def claims_of_jax() -> Iterator[Claim]:
    """Yield claims of `jax.nn` and `jax.scipy.special`."""
    file, bf16 = "tests/nn_test.py", {"dtype": jnp.bfloat16}

    def repeated(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k.repeat(2, 2), v.repeat(2, 2), return_residual=True)

    yield Claim(
        "jax", file, "testDotProductAttention and not Mask and not Bias and not Window",
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, return_residual=True), repeated,
        (floats(2, 6, 4, 8, **bf16), floats(2, 6, 2, 8, **bf16), floats(2, 6, 2, 8, **bf16)),
    )  # fmt: skip
    yield Claim(
        "jax", file, "testGelu and not Int", lambda x: jax.nn.gelu(x, approximate=False),
        lambda x: x * jax.scipy.stats.norm.cdf(x), (floats(32),),
    )  # fmt: skip
    mask = np.arange(15).reshape(3, 5) % 4 > 0
    yield Claim(
        "jax", file, "testLogMeanExp", lambda x: jax.nn.logmeanexp(x, axis=1, where=mask),
        lambda x: jnp.log(jnp.exp(x).mean(1, where=mask)), (floats(3, 5),),
    )  # fmt: skip
    yield Claim(
        "jax", "tests/lax_scipy_test.py", "testLogSumExp and not Where and not Grad",
        lambda x: jax.scipy.special.logsumexp(x, axis=1), lambda x: jnp.log(jnp.exp(x).sum(1)), (floats(3, 5),),
    )  # fmt: skip
    yield Claim(
        "jax", file, "testSoftmaxGrad and not Residuals and not Flag", jax.nn.softmax,
        lambda x: jnp.exp(x) / jnp.exp(x).sum(), (floats(8),),
    )  # fmt: skip


CLAIMS = {"optax": claims_of_optax, "flax": claims_of_flax, "jax": claims_of_jax}
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
