"""Pairs of functions that are equal or not by arithmetic: the word, the line and the state that the library names."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import maxview_probe as mv

pytestmark = pytest.mark.flows

RANDOM = np.random.default_rng(0)
EPSILON = 2.0**-20  # the same number in every type
X, W = RANDOM.standard_normal((4, 8)).astype(np.float32), RANDOM.random(8).astype(np.float32) + 0.5


def norm(x: Any, w: Any) -> Any:
    mean_square = (x.astype(jnp.float32) ** 2).mean(-1, keepdims=True)
    return (x * jax.lax.rsqrt(mean_square + EPSILON)).astype(x.dtype) * w


def rewritten_norm(x: Any, w: Any) -> Any:
    size = jnp.sqrt(jnp.einsum("...d,...d->...", x, x)[..., None] / x.shape[-1] + EPSILON)
    return w * (x / size)


def wrong_norm(x: Any, w: Any) -> Any:
    size = jnp.einsum("...d,...d->...", x, x)[..., None] / x.shape[-1]
    size = size + 1e-5
    return w * (x / jnp.sqrt(size))


def line_in(function: Callable[..., Any], text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"test_same_function.py:{first + next(n for n, line in enumerate(lines) if text in line)}"


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("kind", [jnp.float32, jnp.bfloat16])
def test_a_rewrite_is_the_same_function(kind: Any, grad: bool) -> None:
    found = mv.same_function(norm, rewritten_norm, X.astype(kind), W.astype(kind), grad=grad)
    assert found
    assert found.same
    assert found.largest < 1e-14
    assert found.results == (("the result", "d x", "d w") if grad else ("the result",))
    assert 0.1 < found.rounding.ratio < 10
    assert found.rounding.type == ("f32" if kind == jnp.float32 else "bf16")
    assert len(str(found).splitlines()) <= 5


def test_another_constant_is_found_with_its_size_and_its_line() -> None:
    found = mv.same_function(norm, wrong_norm, X, W)
    old, new = (X / np.sqrt((X.astype(np.float64) ** 2).mean(-1, keepdims=True) + add) * W for add in (EPSILON, 1e-5))
    assert not found.same
    assert found.largest == pytest.approx(np.linalg.norm(new - old) / np.linalg.norm(old), rel=1e-3)
    assert found.roots[0].line == line_in(wrong_norm, "+ 1e-5")
    assert [root.line for root in found.roots if not root.is_new] == [line_in(norm, "+ EPSILON")]
    with pytest.raises(AssertionError, match=rf"^the result differs by .* float64, first at {found.roots[0].line}\n"):
        mv.assert_same_function(norm, wrong_norm, X, W)


def test_a_wrong_gradient_of_a_right_function_is_found() -> None:
    @jax.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, g: (1.999 * x * g,))
    assert mv.same_function(lambda x: x**2, square, X)
    found = mv.same_function(lambda x: x**2, square, X, grad=True)
    assert [gap.name for gap in found.gaps] == ["d x"]
    assert found.largest == pytest.approx(0.0005, rel=1e-3)


def test_a_branch_that_the_arguments_do_not_reach_is_found() -> None:
    def clipped(x: Any) -> Any:
        total = (x * x).sum()
        return jnp.where(total > 1e9, x / total, x)

    found = mv.same_function(lambda x: x * 1.0, clipped, jax.ShapeDtypeStruct((8,), jnp.bfloat16))
    assert not found.same
    assert found.gaps[0].state.startswith(("all ×", "x ×"))
    assert {root.line for root in found.roots} & {line_in(clipped, "jnp.where"), line_in(clipped, "total =")}


def test_a_condition_that_no_argument_turns_is_a_warning() -> None:
    def secret(x: Any) -> Any:
        return jnp.where(jnp.abs(x.sum() - 0.123) < 1e-9, 2 * x, x)

    found = mv.same_function(lambda x: x * 1.0, secret, X)
    assert found.same
    assert found.untried[0].endswith(line_in(secret, "0.123"))
    with pytest.warns(mv.UntriedWarning, match="test_same_function"):
        mv.assert_same_function(lambda x: x * 1.0, secret, X)


def test_ties_and_nan_alone_are_notes() -> None:
    found = mv.same_function(lambda x: jnp.maximum(x, 0), lambda x: jnp.where(x > 0, x, 0), X, grad=True)
    assert found.same
    assert found.notes  # at 0, their gradients are 0.5 and 0


def test_a_cancellation_is_rounding() -> None:
    big = (1e4 + X).astype(np.float32)
    variance, shortcut = (lambda x: ((x - x.mean()) ** 2).mean()), (lambda x: (x * x).mean() - x.mean() ** 2)
    found = mv.same_function(variance, shortcut, big)
    assert found.same, found
    assert found.rounding.ratio > 100  # in float32 the shortcut has no digit left


@pytest.mark.parametrize("kind", [jnp.float32, jnp.bfloat16])
def test_a_constant_that_each_function_rounds_is_rounding(kind: Any) -> None:
    x = X.astype(kind)
    found = mv.same_function(lambda x: x * 80**-0.5, lambda x: x / jnp.sqrt(jnp.asarray(80.0, kind)), x, grad=True)
    assert found.same, found
    assert "constant" in found.notes[0]


@pytest.mark.parametrize("factor", [1 + 4 * 2**-23, 1 + 2**-12])
def test_another_constant_of_the_same_type_is_another_function(factor: float) -> None:
    """The two numbers are four units in the last place apart, or more: no number rounds to both."""
    found = mv.same_function(lambda x: jnp.tanh(x * 0.3), lambda x: jnp.tanh(x * (0.3 * factor)), X)
    assert not found.same
    assert found.largest < factor - 1


def test_an_overflow_far_from_the_arguments_is_a_note() -> None:
    found = mv.same_function(jax.nn.logsumexp, lambda x: jnp.log(jnp.exp(x).sum()), X)
    assert found.same
    assert found.notes == ("only one of both is finite at all × 1000",)


def test_equal_programs_are_not_evaluated() -> None:
    found = mv.same_function(norm, lambda a, b: norm(a, b), X, W)
    assert (found.same, found.one_program, found.states) == (True, True, ())
    mv.assert_same_program(norm, lambda a, b: norm(a, b), X, W)
    with pytest.raises(AssertionError, match="the programs differ"):
        mv.assert_same_program(norm, rewritten_norm, X, W)


def test_a_kernel_is_interpreted() -> None:
    def kernel(x: Any, out: Any) -> None:
        out[...] = x[...] * 2.0

    def call(x: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    assert mv.same_function(lambda x: x + x, call, jax.ShapeDtypeStruct((8, 128), jnp.float32))
    assert not mv.same_function(lambda x: x + x * 1.0001, call, jax.ShapeDtypeStruct((8, 128), jnp.float32))


def test_keys_trees_and_constants_are_arguments() -> None:
    def drop(tree: Any, rate: float) -> Any:
        kept = jax.random.bernoulli(tree["key"], 1 - rate, tree["x"].shape)
        return {"out": jnp.where(kept, tree["x"] / (1 - rate), 0), "kept": kept}

    def multiplied(tree: Any, rate: float) -> Any:
        kept = jax.random.bernoulli(tree["key"], 1 - rate, tree["x"].shape)
        return {"out": kept * tree["x"] / (1 - rate), "kept": kept}

    static = jax.jit(multiplied, static_argnums=1)
    found = mv.same_function(drop, static, {"key": jax.random.key(1), "x": X}, 0.25)
    assert found.same
    assert found.results == ("['kept']", "['out']")


def test_a_constant_of_python_is_the_same_argument_for_both() -> None:
    assert not mv.same_function(lambda x, n: x * n, lambda x, n: x * (n + 1), X, 3)


BAD: list[tuple[Any, str]] = [
    (
        lambda x: x if x.sum() > 0 else -x,
        r"new cannot be traced by JAX: it uses the value .* at .*_function.py:\d+",
    ),
    (lambda x: x + float(x[0, 0]), "uses the value of an array in Python"),
    (lambda x: jnp.asarray(np.asarray(x)), "uses the value of an array in Python"),
    (lambda x: x.argmax(), "new returns no floating-point numbers"),
    (lambda x: x * jnp.nan, r"new returns NaN at the given arguments"),
    (lambda x: x[:3], r"the shape \(4, 8\) in old, and \(3, 8\) in new"),
    (lambda x: (x, x), "old returns 1 array, and new 2 arrays"),
    (lambda x: jax.pure_callback(np.sin, x, x), "new calls Python"),
    (lambda x: x / np.linalg.norm(x), r"uses the value of an array in Python at .*_function.py:\d+"),
    (lambda x: jax.device_put(x, jax.devices("gpu")[0]), "new needs other devices than this machine has"),
    (lambda x: None, "new returns nothing"),
    (lambda x: "text", "new returns a str"),
    (lambda x: x.T @ x.T, r"new cannot be traced by JAX at .*test_same_function.py:\d+: TypeError"),
    (3, "new is a int, and no function"),
]


@pytest.mark.parametrize(("function", "sentence"), BAD)
def test_a_function_that_cannot_be_compared_has_a_sentence(function: Any, sentence: str) -> None:
    with pytest.raises(mv.CannotCompare, match=sentence) as refused:
        mv.same_function(lambda x: x * 2, function, X)
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_change_in_place_has_a_sentence() -> None:
    def set_first(x: Any) -> Any:
        x[0] = 1
        return x

    def pop(tree: Any) -> Any:
        return tree.pop("x") * 2

    with pytest.raises(mv.CannotCompare, match="new changes an array"):
        mv.same_function(lambda x: x * 2, set_first, X)
    with pytest.raises(mv.CannotCompare, match="new changes one of its arguments in place"):
        mv.same_function(lambda tree: tree["x"] * 2, pop, {"x": X})
    with pytest.raises(mv.CannotCompare, match=r"no values inside of jax\.jit"):
        jax.jit(lambda x: mv.assert_same_function(jnp.sin, jnp.cos, x))(X)
    with pytest.raises(mv.CannotCompare, match="complex numbers"):
        mv.same_function(jnp.abs, jnp.abs, X.astype(np.complex64))
    with pytest.raises(mv.CannotCompare, match="no argument is an array"):
        mv.same_function(lambda x: x * 2, lambda x: x, 2.0)


def test_two_callbacks_of_python_are_no_one_program() -> None:
    """Their programs are equal: each has the call alone."""
    doubled, halved = (lambda x: jax.pure_callback(lambda x: 2 * x, x, x), lambda x: jax.pure_callback(np.sin, x, x))
    for ask in (mv.same_function, mv.assert_same_program):
        with pytest.raises(mv.CannotCompare, match="calls Python"):
            ask(doubled, halved, X)


def test_an_array_that_is_kept_and_one_that_is_deleted_have_a_sentence() -> None:
    kept: dict[str, Any] = {}

    def keep(x: Any) -> Any:
        before = kept.get("x", 0.0)
        kept["x"] = x.sum()
        return x * 2 + before

    with pytest.raises(mv.CannotCompare, match="new keeps an array in a variable outside"):
        mv.same_function(lambda x: x * 2, keep, X, grad=True)
    donated = jnp.asarray(X)
    donated.delete()
    with pytest.raises(mv.CannotCompare, match="the argument x is deleted"):
        mv.same_function(jnp.sin, lambda x: jnp.sin(x), donated)


@pytest.mark.parametrize("grad", [False, True])
def test_results_of_another_type_are_a_note(grad: bool) -> None:
    found = mv.same_function(lambda x: x * 2, lambda x: (x + x).astype(jnp.bfloat16), X, grad=grad)
    assert found.same
    assert found.notes == ("the result is f32 in old, and bf16 in new",)


def test_a_result_that_is_zero_ends_no_search() -> None:
    """One sum is 0 and the other 1e-17: no reason to look at no other arguments."""

    def ends(x: Any, last: float) -> Any:
        return (x - x.mean()).sum() * 1e-3, jnp.where(x.sum() > 1e4, last * x, x)

    found = mv.same_function(lambda x: ends(x, 1.0), lambda x: (0 * x.sum(), ends(x, 2.0)[1]), X)
    assert not found.same
    assert found.gaps[0].state.startswith(("all ×", "x ×"))


def test_functions_in_float64_are_compared_as_they_are() -> None:
    with jax.enable_x64(True):
        x = X.astype(np.float64)
        assert mv.same_function(lambda x: jnp.tanh(x) ** 2, lambda x: jnp.tanh(x) * jnp.tanh(x), x, grad=True)
        assert not mv.same_function(lambda x: x * 0.1, lambda x: x * (0.1 + 1e-10), x)


def test_the_callers_types_and_settings_stay() -> None:
    before = jax.config.jax_enable_x64
    kept = functools.partial(mv.same_function, norm, rewritten_norm)
    assert kept(jax.ShapeDtypeStruct((4, 8), jnp.bfloat16), jax.ShapeDtypeStruct((8,), jnp.bfloat16))
    assert jax.config.jax_enable_x64 == before
    assert jnp.ones(3).dtype == (jnp.float64 if before else jnp.float32)
