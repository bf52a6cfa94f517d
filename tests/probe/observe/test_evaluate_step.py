"""A step in bfloat16 and float32 is evaluated as the same function in float64, and its rounding is measured."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from maxview_probe.observe import jaxprs
from maxview_probe.observe.equal_values import name_values
from maxview_probe.observe.evaluate_step import StepEvaluation
from maxview_probe.observe.other_arm import Draws
from maxview_probe.observe.places import place_of_equation

pytestmark = pytest.mark.flows

SIDE = 8


def evaluate(function: Callable[..., Any], *values: Any) -> tuple[list[Any], list[dict[str, Any]], list[str]]:
    """Return the results in float64, the lines of the file, and the notes."""
    lines: list[str] = []
    evaluation = StepEvaluation(lines.append, Draws({}))
    results = evaluation.run(jax.jit(function).trace(*values).jaxpr, jax.tree.leaves(values))
    return results, [json.loads(line) for line in lines], evaluation.notes


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def loop(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y) + x, x)


def branch_in_a_loop(x: jax.Array) -> jax.Array:
    def body(n: int, y: jax.Array) -> jax.Array:
        return jax.lax.cond(n % 2 == 0, lambda y: jnp.cos(y), lambda y: y * 0.125 + x, y)

    return jax.lax.while_loop(lambda both: both[0] < 3, lambda both: (both[0] + 1, body(*both)), (0, x))[1]


def search(x: jax.Array) -> jax.Array:
    return jax.lax.while_loop(lambda y: jnp.sum(y) > 1e-3, lambda y: y * 0.25, jnp.abs(x))


def long_scan(x: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda y, _: (0.9990234375 * y + jnp.tanh(x), y[0, 0]), x, None, length=10_001)[0]


def choose(x: jax.Array) -> jax.Array:
    values, places = jax.lax.top_k(x, 3)
    return jnp.sort(x, axis=0) + values.sum() + jnp.take_along_axis(x, places, axis=1).sum() + jnp.argmax(x)


def scatter(x: jax.Array) -> jax.Array:
    return jnp.zeros_like(x).at[jnp.array([1, 1, 3])].add(x[:3] * x[2:5]) + jax.ops.segment_sum(
        x, jnp.arange(8) // 2, 8
    )


def move(x: jax.Array) -> jax.Array:
    y = jnp.pad(x, ((1, 2), (0, 0)))[1:-2, ::-1]
    first, second = jnp.split(y, 2, axis=1)
    return jnp.concatenate([second, jnp.roll(first, 1)], axis=1) + jnp.cumsum(x, axis=0) + jnp.tril(x)


def multiply(x: jax.Array) -> jax.Array:
    cube = jnp.stack([x, x.T])
    return jnp.einsum("bij,bkj->ik", cube, cube) + jax.nn.softmax(x, axis=0) @ x + jax.nn.silu(x) ** 3


def differentiate(x: jax.Array) -> jax.Array:
    return jax.grad(lambda x: jnp.sum(jnp.max(multiply(x), axis=0)) + jnp.sum(jax.checkpoint(loop)(x)))(x)


def convolve(x: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(x[None, None], x[None, None, :3, :3], (1, 1), "SAME")[0, 0]


def attend_in_blocks(x: jax.Array) -> jax.Array:
    """A kernel over four blocks, as for a TPU: each block of queries reads all keys."""

    def kernel(query: Any, keys: Any, o: Any) -> None:
        logits = jnp.dot(query[...], keys[...].T, preferred_element_type=jnp.float32)
        o[...] = jnp.exp(logits - logits.max(axis=1, keepdims=True)) @ keys[...] * (1.0 + pl.program_id(0))

    blocks = pl.BlockSpec((2, SIDE), lambda i: (i, 0))
    whole = pl.BlockSpec((SIDE, SIDE), lambda i: (0, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(kernel, shape, grid=4, in_specs=[blocks, whole], out_specs=blocks)(x, x)


def draw_in_a_loop(x: jax.Array) -> jax.Array:
    def body(n: int, y: jax.Array) -> jax.Array:
        kept = jax.random.bernoulli(jax.random.fold_in(jax.random.key(0), n), 0.5, x.shape)
        return jnp.where(kept, y * 2, y)

    return jax.lax.while_loop(lambda both: both[0] < 3, lambda both: (both[0] + 1, body(*both)), (0, x))[1]


FUNCTIONS = [loop, branch_in_a_loop, search, long_scan, choose, scatter, move, multiply, differentiate, convolve]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_of_float32_has_the_results_of_the_same_function_of_float64(
    function: Callable[[jax.Array], jax.Array],
) -> None:
    x = draw(SIDE, SIDE)
    (found,), rows, notes = evaluate(function, x)
    with jax.enable_x64(True):
        expected = np.asarray(jax.jit(function)(x.astype(np.float64)))
    assert found.dtype == np.float64
    assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max()
    assert [note for note in notes if "is looked at as one" not in note] == []
    assert all(row["v"][4][5] <= 1e-12 * row["v"][4][2] for row in rows[1:-1] if row["type"] == "float32[8,8]")


def test_products_of_bfloat16_do_not_round_and_explicit_rounding_stays() -> None:
    def step(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        half = jnp.einsum("ij,jk->ik", x.astype(jnp.bfloat16), w.astype(jnp.bfloat16))
        whole = jnp.clip(jnp.round(x * 20), -127, 127).astype(jnp.int8)
        return half, jnp.dot(whole, whole, preferred_element_type=jnp.int32)

    x, w = draw(SIDE, SIDE), draw(SIDE, SIDE).T
    (half, whole), _, _ = evaluate(step, x, w)
    assert np.abs(half - x.astype(np.float64) @ w.astype(np.float64)).max() < 1e-13
    quantised = np.clip(np.round(x * 20), -127, 127).astype(np.int32)
    assert whole.dtype == np.int32
    assert (whole == quantised @ quantised).all()


def test_a_constant_keeps_the_value_that_the_program_holds() -> None:
    (found,), _, _ = evaluate(lambda x: x.astype(jnp.bfloat16) + jnp.bfloat16(1e-5), np.zeros((2,), np.float32))
    assert found[0] == float(jnp.bfloat16(1e-5)) != 1e-5


def test_random_bits_become_the_floats_of_the_program() -> None:
    key = jax.random.key(3)
    (uniform, kept), _, _ = evaluate(
        lambda key: (jax.random.uniform(key, (64,)), jax.random.bernoulli(key, 0.9, (64,))), key
    )
    assert (uniform == np.asarray(jax.random.uniform(key, (64,)), np.float64)).all()
    assert (kept == np.asarray(jax.random.bernoulli(key, 0.9, (64,)))).all()


def test_random_bits_inside_of_a_loop_become_the_floats_of_the_program() -> None:
    x = draw(SIDE, SIDE)
    (found,), _, notes = evaluate(draw_in_a_loop, x)
    assert (found == np.asarray(draw_in_a_loop(x))).all()  # doubled once to three times: exact in float32, too
    assert notes == []


def test_a_kernel_is_evaluated_by_its_interpreter() -> None:
    x = draw(SIDE, SIDE)
    (found,), rows, notes = evaluate(attend_in_blocks, x)
    wide = x.astype(np.float64)
    logits = wide @ wide.T
    numbers = np.repeat(np.arange(1.0, 5.0), 2)[:, None]  # of the blocks
    expected = np.exp(logits - logits.max(axis=1, keepdims=True)) @ wide * numbers
    assert np.abs(found - expected).max() <= 1e-13 * np.abs(expected).max()
    assert notes == []
    assert {row["at"][0].rpartition("/")[2] for row in rows[1:-1]} == {"test_evaluate_step.py"}  # the kernel's call


def results_of(rows: list[dict[str, Any]]) -> list[Any]:
    return [rows[1 + origin[1]]["v"][4] for origin in rows[-1]["results"]]


REORDERED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], bool]] = {
    "sum": (lambda x: x.sum(), lambda x: x[::-1].sum(axis=0).sum(), True),
    "root": (lambda x: x / jnp.sqrt(x * x + 1), lambda x: x * jax.lax.rsqrt(x * x + 1), True),
    "zero": (lambda x: x.sum() - x[:4].sum() - x[4:].sum(), lambda x: x.T.sum() - x[4:].sum() - x[:4].sum(), True),
    "behind a mask": (lambda x: jnp.where(x > 0, x, -1e30), lambda x: jnp.where(x > 0, x * (1 + 1e-5), -1e30), False),
    "one value": (lambda x: x * 1, lambda x: x.at[0, 0].mul(1 + 1e-4), False),
    "another order": (lambda x: x * 1, lambda x: x.T * 1, False),
    "tiny": (lambda x: x * 1e-30, lambda x: x * 1.0001e-30, False),
}  # fmt: skip


@pytest.mark.parametrize("pair", REORDERED)
def test_values_are_equal_up_to_rounding(pair: str) -> None:
    left, right, equal = REORDERED[pair]
    x = draw(SIDE, SIDE)
    names = name_values([results_of(evaluate(function, x)[1])[0] for function in (left, right)])
    assert (names[0] == names[1]) is equal


def test_a_result_of_a_shard_map_has_the_collective_that_makes_it() -> None:
    def part(w: jax.Array, x: jax.Array) -> tuple[jax.Array, ...]:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        mean = jax.lax.pmean(loss, "data")
        total = jax.jit(lambda g: jax.lax.psum(g, "data"))(gradient)
        return mean, total, w + total, w

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    whole, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("data")
    parts = jax.shard_map(part, mesh=mesh, in_specs=(whole, split), out_specs=(whole,) * 4, check_vma=False)
    (equation,) = jax.make_jaxpr(parts)(draw(4), draw(2, 4)).eqns
    found = [jaxprs.find_collective(equation, output) for output in range(4)]
    lines = [place_of_equation(one)[1] if one is not None else 0 for one in found]
    source = Path(__file__).read_text().splitlines()
    assert ["pmean(loss" in source[lines[0] - 1], "psum(g" in source[lines[1] - 1], *lines[2:]] == [True, True, 0, 0]
