"""A program in float64 gives what NumPy computes in float64, and keeps integers, random bits and explicit rounding."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from maxview_probe.evaluate.recorded_step import mlir_context
from maxview_probe.evaluate.run_program import RunnableProgram
from maxview_probe.evaluate.widen import NoFunction, widen_program

pytestmark = pytest.mark.flows

RANDOM = np.random.default_rng(0)


def evaluate(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Lower a function for arrays, widen it, and run it on the same values in float64."""
    text = jax.jit(function).lower(*arguments).as_text()
    with mlir_context():
        wide = widen_program(text)
    with jax.enable_x64(True):
        given = [np.asarray(one, np.float64) if jnp.issubdtype(one.dtype, jnp.floating) else one for one in arguments]
        return RunnableProgram(wide, 1)(given)


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_a_product_does_not_round(kind: Any) -> None:
    left, right = RANDOM.normal(size=(8, 300)).astype(kind), RANDOM.normal(size=(300, 4)).astype(kind)
    (found,) = evaluate(lambda a, b: jnp.dot(a, b), left, right)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, left.astype(np.float64) @ right.astype(np.float64), rtol=1e-13)


def test_a_named_algorithm_of_a_product_does_not_round() -> None:
    left = RANDOM.normal(size=(8, 8)).astype(np.float32)
    (found,) = evaluate(lambda a: jnp.dot(a, a, precision=jax.lax.DotAlgorithmPreset.BF16_BF16_F32), left)
    np.testing.assert_allclose(found, left.astype(np.float64) @ left.astype(np.float64), rtol=1e-13)


def test_infinities_and_masks_stay() -> None:
    values = RANDOM.normal(size=(4, 4)).astype(ml_dtypes.bfloat16)
    mask = np.tril(np.ones((4, 4), bool))

    def softmax(x: Any) -> Any:
        return jax.nn.softmax(jnp.where(mask, x, -jnp.inf), axis=-1)

    (found,) = evaluate(softmax, values)
    powers = np.where(mask, np.exp(values.astype(np.float64)), 0.0)
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), rtol=1e-13)


def test_a_constant_array_of_bfloat16_keeps_its_values() -> None:
    table = RANDOM.normal(size=(3, 5)).astype(ml_dtypes.bfloat16)
    (found,) = evaluate(lambda x: x * jnp.asarray(table), np.ones((3, 5), ml_dtypes.bfloat16))
    np.testing.assert_array_equal(found, table.astype(np.float64))


@pytest.mark.parametrize("kind", [jnp.float32, jnp.bfloat16])
def test_random_draws_are_those_of_the_program(kind: Any) -> None:
    key = np.array([3, 4], np.uint32)
    function = lambda bits: jax.random.uniform(jax.random.wrap_key_data(bits), (64,), kind)  # noqa: E731
    (found,) = evaluate(function, key)
    np.testing.assert_array_equal(found, np.asarray(function(key), np.float64))


def test_bits_of_a_float_are_read_in_its_own_type() -> None:
    values = np.array([1.0, -2.5, 0.1], np.float32)
    (found,) = evaluate(lambda x: jax.lax.bitcast_convert_type(x, jnp.uint32), values)
    np.testing.assert_array_equal(found, values.view(np.uint32))


def test_rounding_to_a_precision_is_left_out() -> None:
    values = RANDOM.normal(size=16).astype(np.float32)
    (found,) = evaluate(lambda x: jax.lax.reduce_precision(x, 8, 7), values)
    np.testing.assert_array_equal(found, values.astype(np.float64))


def test_explicit_rounding_stays() -> None:
    values = (RANDOM.normal(size=(16, 16)) * 40).astype(np.float32)

    def quantised(x: Any) -> Any:
        scale = jnp.max(jnp.abs(x)) / 127.0
        whole = jnp.round(x / scale).astype(jnp.int8)
        return jax.lax.dot(whole, whole, preferred_element_type=jnp.int32).astype(jnp.float32) * scale * scale

    (found,) = evaluate(quantised, values)
    scale = np.abs(values.astype(np.float64)).max() / 127.0
    whole = np.round(values.astype(np.float64) / scale).astype(np.int64)
    np.testing.assert_allclose(found, (whole @ whole) * scale * scale, rtol=1e-13)


def test_loops_and_branches_are_widened() -> None:
    values = RANDOM.normal(size=(6, 3)).astype(np.float32)

    def looped(x: Any) -> Any:
        total, rows = jax.lax.scan(
            lambda carry, row: (carry + row * 0.1, carry), jnp.zeros(3, jnp.bfloat16), x.astype(jnp.bfloat16)
        )
        return jax.lax.cond(total[0] > 0, lambda a: a * 2, lambda a: a, total), rows

    found, rows = evaluate(looped, values)
    tenth = np.float64(ml_dtypes.bfloat16(0.1))  # a constant stays what the program holds
    total = (values.astype(np.float64) * tenth).sum(0)
    np.testing.assert_allclose(found, total * 2 if total[0] > 0 else total, rtol=1e-13)
    np.testing.assert_allclose(rows, np.cumsum(values.astype(np.float64) * tenth, 0) - values * tenth, atol=1e-13)


def test_a_step_with_a_callback_is_named() -> None:
    def calls(x: Any) -> Any:
        return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((2,), np.float32), x)

    with pytest.raises(NoFunction, match="calls Python"):
        evaluate(calls, np.ones(2, np.float32))


def test_a_kernel_of_another_device_is_named() -> None:
    from jax.experimental import pallas as pl

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] * 2.0

    call = jax.jit(lambda x: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x))
    text = call.trace(jax.ShapeDtypeStruct((8, 128), jnp.float32)).lower(lowering_platforms=("tpu",)).as_text()
    with mlir_context(), pytest.raises(NoFunction, match="tpu_custom_call"):
        widen_program(text)
