"""Two lowered programs: one computation in another order, or the differing operation with its line.

Each pair is lowered by JAX itself; the expectation follows from the two Python functions, not from our output.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from model.compile.stablehlo import transcribe
from tasks.programs import compare_lowered as programs
from tasks.programs.compare_lowered import compare_program_files
from tasks.records.explanation import ProgramExplanation

pytestmark = pytest.mark.flows

type Step = Callable[..., Any]

X = jax.ShapeDtypeStruct((4, 8), jnp.float32)
W = jax.ShapeDtypeStruct((8, 8), jnp.float32)


@pytest.fixture(autouse=True)
def _read_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the texts in this process, which has JAX, except for `in_a_process`."""

    def read(_: str, paths: Sequence[Path]) -> list[Any]:
        return [transcribe(path.read_text()) for path in paths]

    if "in_a_process" not in request.fixturenames:
        monkeypatch.setattr(programs, "read_with_jax", read)


@pytest.fixture
def in_a_process() -> None:
    """For tests that read the texts as a flow does: with another process."""


def compare(tmp_path: Path, left: Step, right: Step, *given: Any, other: tuple[Any, ...] = ()) -> ProgramExplanation:
    paths = [tmp_path / "left.mlir", tmp_path / "right.mlir"]
    for path, step, arguments in zip(paths, (left, right), (given, other or given), strict=True):
        path.write_text(jax.jit(step).lower(*arguments).as_text(debug_info=True))
    return compare_program_files(paths[0], paths[1], ("left", "right"))


def line_of(step: Step, text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    start = step.__code__.co_firstlineno
    return next(number for number, line in enumerate(lines[start - 1 :], start) if text in line)


def norm(x: jax.Array, w: jax.Array) -> jax.Array:
    scale = jax.lax.rsqrt(jnp.mean(x * x) + 1e-5)
    return (x * scale) @ w


def norm_renamed(x: jax.Array, w: jax.Array) -> jax.Array:
    def helper(y: jax.Array) -> jax.Array:
        return jnp.mean(y * y)

    factor = jax.lax.rsqrt(1e-5 + helper(x))
    return (factor * x) @ w


def norm_other_epsilon(x: jax.Array, w: jax.Array) -> jax.Array:
    scale = jax.lax.rsqrt(jnp.mean(x * x) + 1e-6)
    return (x * scale) @ w


def norm_swapped(w: jax.Array, x: jax.Array) -> jax.Array:
    return norm(x, w)


@pytest.mark.usefixtures("in_a_process")
def test_the_same_text(tmp_path: Path) -> None:
    assert compare(tmp_path, norm, norm, X, W).answer == "same text"


def test_a_refactored_function_is_the_same_computation(tmp_path: Path) -> None:
    found = compare(tmp_path, norm, norm_renamed, X, W)
    assert found.answer == "same computation in another order"
    assert found.hashes[0] == found.hashes[1]


def test_the_lines_of_a_kernel_do_not_matter_and_its_constants_do(tmp_path: Path) -> None:
    def double(x: Any, made: Any) -> None:
        made[...] = x[...] * 2.0

    def double_below(x: Any, made: Any) -> None:
        made[...] = x[...] * 2.0

    def triple(x: Any, made: Any) -> None:
        made[...] = x[...] * 3.0

    def lower(kernel: Step) -> Path:
        call = pl.pallas_call(kernel, out_shape=X, name="kernel")
        path = tmp_path / f"{kernel.__name__}.mlir"
        traced = jax.jit(lambda x: 1.0 - call(x)).trace(X)
        path.write_text(traced.lower(lowering_platforms=("tpu",)).as_text(debug_info=True))
        return path

    assert compare_program_files(lower(double), lower(double_below)).answer == "same text"
    found = compare_program_files(lower(double), lower(triple))
    assert found.answer == "differs"
    assert "custom_call" in found.sentence


def test_arguments_in_another_order_are_the_same_computation(tmp_path: Path) -> None:
    found = compare(tmp_path, norm, norm_swapped, X, W, other=(W, X))
    assert found.answer == "same computation in another order"


@pytest.mark.usefixtures("in_a_process")
def test_another_constant_is_reported_with_the_line_that_reads_it(tmp_path: Path) -> None:
    found = compare(tmp_path, norm, norm_other_epsilon, X, W)
    assert found.answer == "differs"
    first = found.operations[0]
    assert first.first
    assert first.baseline_line is not None
    assert first.candidate_line is not None
    assert first.baseline_line.line == line_of(norm, "1e-5")
    assert first.candidate_line.line == line_of(norm_other_epsilon, "1e-6")
    assert (first.baseline, first.candidate) == (("1 × add f32[] with 1e-05",), ("1 × add f32[] with 1e-06",))
    assert len(found.operations) == 1  # no consequences of it


def swapped_difference(x: jax.Array, w: jax.Array) -> jax.Array:
    return (x @ w - x) * 2


def difference(x: jax.Array, w: jax.Array) -> jax.Array:
    return (x - x @ w) * 2


def test_an_integer_constant_keeps_its_digits(tmp_path: Path) -> None:
    ids = jax.ShapeDtypeStruct((4,), jnp.int32)
    found = compare(tmp_path, lambda x: x % 123456789, lambda x: x % 123456788, ids)
    row = found.operations[0]
    assert "123456789" in " ".join(row.baseline)
    assert "123456788" in " ".join(row.candidate)


def test_swapped_operands_differ(tmp_path: Path) -> None:
    found = compare(tmp_path, difference, swapped_difference, X, W)
    assert found.answer == "differs"
    assert [(row.baseline, row.candidate) for row in found.operations] == [(("1 × subtract f32[4,8]",),) * 2]


def loop(first: Callable[[Any], Any], step: Callable[[Any, Any], Any], last: Callable[[Any], Any]) -> Step:
    def run(x: jax.Array, w: jax.Array) -> Any:
        carry, _ = jax.lax.scan(lambda carry, _: (step(carry, w), None), first(x), None, length=6)
        return last(carry)

    return run


def test_carries_in_another_order_are_the_same_computation(tmp_path: Path) -> None:
    left = loop(lambda x: (x, 2 * x), lambda c, w: (c[0] @ w, c[1] + c[0]), lambda c: c[1])
    right = loop(lambda x: (2 * x, x), lambda c, w: (c[0] + c[1], c[1] @ w), lambda c: c[0])
    assert compare(tmp_path, left, right, X, W).answer == "same computation in another order"


def test_a_carry_that_differs_only_in_late_rounds_differs(tmp_path: Path) -> None:
    """Five values move on by one place; in one program the last stays: the first value differs after five rounds."""
    left = loop(lambda x: tuple(n * x for n in range(1, 6)), lambda c, w: (*c[1:], c[0]), lambda c: c[0])
    right = loop(lambda x: tuple(n * x for n in range(1, 6)), lambda c, w: (*c[1:], c[4]), lambda c: c[0])
    assert compare(tmp_path, left, right, X, W).answer == "differs"


def test_another_number_of_rounds_differs(tmp_path: Path) -> None:
    def rounds(number: int) -> Step:
        return lambda x, w: jax.lax.scan(lambda c, _: (c @ w, None), x, None, length=number)[0]

    assert compare(tmp_path, rounds(3), rounds(4), X, W).answer == "differs"


def test_operations_in_a_loop_are_multiplied_by_its_trip_count(tmp_path: Path) -> None:
    def layers(dtype: Any) -> Step:
        def layer(c: jax.Array, w: jax.Array) -> jax.Array:
            return jnp.dot(c, w, preferred_element_type=dtype).astype(jnp.bfloat16)

        return lambda x, w: jax.lax.scan(lambda c, _: (layer(c, w), None), x, None, length=6)[0]

    x, w = (jax.ShapeDtypeStruct(one.shape, jnp.bfloat16) for one in (X, W))
    found = compare(tmp_path, layers(jnp.bfloat16), layers(jnp.float32), x, w)
    product = found.operations[0]
    assert product.times == (6, 12)  # a product, and a product with its conversion
    assert product.candidate == ("6 × dot_general bf16 × bf16 → f32[4,8]", "6 × convert f32 → bf16[4,8]")
    assert product.flops_share == pytest.approx(1.0)


def test_a_recomputed_value_is_the_same_value(tmp_path: Path) -> None:
    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(jnp.sin(x @ w) @ w))

    kept, again = jax.value_and_grad(loss, 1), jax.value_and_grad(jax.checkpoint(loss), 1)
    found = compare(tmp_path, kept, again, X, W)
    assert found.answer == "differs"
    assert {row.phase for row in found.operations if row.candidate} >= {"recomputed"}


def test_a_donated_argument_is_a_differing_input(tmp_path: Path) -> None:
    paths = [tmp_path / "left.mlir", tmp_path / "right.mlir"]
    for path, donated in zip(paths, ((), (0,)), strict=True):
        step = jax.jit(lambda x, w: x @ w, donate_argnums=donated)
        path.write_text(step.lower(X, W).as_text(debug_info=True))
    found = compare_program_files(paths[0], paths[1])
    assert found.answer == "differs"
    assert not found.operations
    assert [one.candidate for one in found.inputs] == ["f32[4,8], donated"]


@pytest.mark.usefixtures("in_a_process")
def test_a_text_that_is_not_a_program_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.mlir").write_text("module {")
    with pytest.raises(ValueError, match=r"bad\.mlir"):
        compare_program_files(tmp_path / "bad.mlir", tmp_path / "bad.mlir")
