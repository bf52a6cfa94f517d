"""The conditions that one of two programs lacks, and the ways that they go in a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxview_probe.evaluate.conditions import (
    expose_conditions,
    find_other_sides,
    find_own_conditions,
    list_conditions,
    list_selections,
    read_ways,
)
from maxview_probe.evaluate.recorded_step import mlir_context
from maxview_probe.evaluate.run_program import RunnableProgram

pytestmark = pytest.mark.flows

HERE = __file__


def lower(function: Callable[..., Any], *arguments: Any) -> str:
    return jax.jit(function).lower(*arguments).as_text(debug_info=True)


def ways_of(function: Callable[..., Any], *runs: tuple[Any, ...]) -> list[set[bool]]:
    """Return the ways of all conditions of a function after calls with each of the arguments."""
    text = lower(function, *runs[0])
    with mlir_context():
        conditions = list_conditions(text)
        exposed, watched = expose_conditions(text, conditions)
    assert watched == conditions
    program, seen = RunnableProgram(exposed, 1, quickly=True), dict[int, set[bool]]()
    for given in runs:
        results = program([np.asarray(one) for one in given])
        wanted = jax.tree.leaves(function(*given))
        for got, value in zip(results, wanted, strict=False):
            np.testing.assert_allclose(got, value, rtol=1e-6)
        read_ways(watched, results[len(wanted) :], seen)
    return [seen[one.number] for one in watched]


X = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize(
    ("function", "ways"),
    [
        (lambda x: jnp.where(x > 1, x, 0), [{True, False}]),
        (lambda x: jnp.where(x.sum() > 100, x, 0), [{False}]),
        (lambda x: jnp.minimum(x, 5.0), [{True}]),  # its first operand is the smaller one, everywhere
        (lambda x: jnp.where(jnp.isfinite(x).all(), x, 0), [{True}]),
        (lambda x: jax.lax.clamp(-1.0, x, 2.0), [{False}, {True, False}]),
        (lambda x: jax.lax.cond(x[0] > 1, lambda y: jnp.minimum(y, 2.0), lambda y: y, x), [{False}, set()]),
    ],
)
def test_a_condition_reports_the_ways_that_it_went(function: Callable[..., Any], ways: list[set[bool]]) -> None:
    assert ways_of(function, (X,)) == ways


def test_a_condition_in_a_loop_counts_in_every_iteration() -> None:
    def function(x: Any) -> Any:
        return jax.lax.scan(lambda c, one: (c + one, jnp.where(c > 2.0, one, 0.0)), 0.0, x)

    assert ways_of(function, (X,)) == [{True, False}]
    assert ways_of(function, (0 * X,)) == [{False}]
    assert ways_of(function, (0 * X,), (X,)) == [{True, False}]


def test_a_nested_loop_and_a_function_that_is_called_twice_count_as_well() -> None:
    @jax.jit
    def half(x: Any) -> Any:
        return jnp.where(x > 2.0, x / 2, x)

    def function(x: Any) -> Any:
        def outer(carry: Any, _: None) -> tuple[Any, None]:
            return jax.lax.fori_loop(0, 2, lambda _, c: half(c) + 1.0, carry), None

        return jax.lax.scan(outer, half(x.sum()), None, length=2)[0]

    assert ways_of(function, (0 * X,)) == [{True, False}]
    assert ways_of(function, (0 * X - 9,)) == [{False}]


def test_the_place_of_a_condition_is_its_source_line() -> None:
    with mlir_context():
        (found,) = list_conditions(lower(lambda x: jnp.where(x.sum() > 100, x, 0), X))
    assert found.file == HERE
    assert "x.sum() > 100, x, 0), X" in Path(HERE).read_text(encoding="utf-8").splitlines()[found.line - 1]
    assert found.constants == (100.0,)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.where(jnp.arange(4) > 2, x, 0),  # of constants alone
        lambda x: jnp.take_along_axis(x, x.astype(jnp.int32), 0),  # JAX's check that all indices are inside
        lambda x: x[jnp.argmax(x)],  # JAX's check of an index, and the comparisons of a reduction
        lambda x: jnp.sort(x),
    ],
)
def test_indices_sorts_and_constants_have_no_conditions(function: Callable[..., Any]) -> None:
    with mlir_context():
        assert list_conditions(lower(function, X)) == []


def test_only_conditions_without_a_counterpart_are_the_arms_own() -> None:
    def before(x: Any) -> Any:
        return jnp.where(x > 1, x, 0).sum()

    def after(x: Any) -> Any:
        norm = jnp.sqrt((x * x).sum())
        return jnp.where(norm > 1000, 0, jnp.where(x > 1, x, 0).sum())

    with mlir_context():
        left, right = (list_conditions(lower(one, X)) for one in (before, after))
    assert find_own_conditions(left, right) == []
    (own,) = find_own_conditions(right, left)
    assert own.constants == (1000.0,)


# ---------------------------------------------------------------- a condition that both have, with another side


def halve(x: Any, by: float) -> Any:
    smaller = by * x
    return jnp.where(jnp.linalg.norm(x) > 1000.0, smaller, x)


def branch(x: Any, by: float) -> Any:
    return jax.lax.cond(x.sum() > 1000.0, lambda y: jnp.tanh(y) * by, lambda y: y, x)


def guard(x: Any, by: float) -> Any:
    return jax.lax.scan(lambda c, one: (jnp.where(c < 1000.0, c + one, c * by), c), 0.0, x)


@pytest.mark.parametrize(
    ("function", "side", "taken"), [(halve, "true", 1e4), (branch, "true", 1e4), (guard, "false", 1e4)]
)
def test_a_side_that_only_one_program_has_is_watched(function: Callable[..., Any], side: str, taken: float) -> None:
    before, after = (lower(lambda x, by=by: function(x, by), X) for by in (0.5, 0.4))
    with mlir_context():
        sides = find_other_sides(list_selections(after), list_selections(before))
        assert [one.side for one in sides] == [side]
        exposed, watched = expose_conditions(after, sides)
    assert watched == sides
    assert sides[0].file == HERE
    assert 1000.0 in sides[0].constants
    program, seen = RunnableProgram(exposed, 1, quickly=True), dict[int, set[bool]]()
    for scale, ways in ((1.0, {side != "true"}), (taken, {True, False})):
        given = (scale * X).astype(np.float32)
        results = program([given])
        wanted = jax.tree.leaves(function(given, 0.4))
        for got, value in zip(results, wanted, strict=False):
            np.testing.assert_allclose(got, value, rtol=1e-5)
        read_ways(watched, results[len(wanted) :], seen)
        if function is not guard:
            assert seen[sides[0].number] == ways
    assert sides[0].wanted <= seen[sides[0].number]


@pytest.mark.parametrize(
    "after",
    [
        lambda x: jnp.where(x > 1, jnp.sin(x) / 2, 0.0) * 3,  # behind the selection
        lambda x: jnp.where(x + 1 > 1, jnp.sin(x) / 2, 0.0),  # its condition, which is the arm's own
    ],
)
def test_equal_sides_are_not_watched(after: Callable[..., Any]) -> None:
    with mlir_context():
        mine, other = (
            list_selections(lower(one, X)) for one in (after, lambda x: jnp.where(x > 1, jnp.sin(x) / 2, 0.0))
        )
        assert not find_other_sides(mine, other)
