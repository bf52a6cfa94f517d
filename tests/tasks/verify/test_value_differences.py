"""Distances of values, compared with numpy in float64 on the whole arrays."""

from typing import Any

import numpy as np
import pytest
import tensorstore as ts
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tasks.verify.array_index import ArraySpec
from tasks.verify.value_differences import Job, UnreadableError, compare_arrays

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


class Held:
    """One side with its arrays in memory."""

    def __init__(self, **held: Any) -> None:
        self.held = held

    def open(self, spec: ArraySpec) -> Any:
        return ts.array(self.held[spec.name])


def spec(name: str, values: np.ndarray, chunk: tuple[int, ...] | None = None) -> ArraySpec:
    return ArraySpec(name, values.shape, values.dtype.name, 3, values.shape, chunk or values.shape, "/")


@settings(max_examples=150, deadline=None)
@given(arrays(np.float32, (3, 5), elements=FLOATS), arrays(np.float32, (3, 5), elements=FLOATS), st.booleans())
def test_distances_equal_numpys(a, b, cut):
    (found,) = compare_arrays([Job(Held(w=a), spec("w", a, (2, 3) if cut else None), Held(w=b), (spec("w", b),), None)])
    unequal = a.view("u4") != b.view("u4")
    with np.errstate(invalid="ignore"):
        apart = a.astype(np.float64) - b.astype(np.float64)
    finite = np.where(np.isfinite(apart) & unequal, apart, 0.0)
    assert (found.values, found.differing) == (15, int(unequal.sum()))
    assert found.not_finite == int((unequal & ~np.isfinite(apart)).sum())
    lost = [int((~np.isfinite(one) & np.isfinite(other)).sum()) for one, other in ((a, b), (b, a))]
    assert found.lost == tuple(lost)
    assert found.norm == pytest.approx(float(np.linalg.norm(finite)), rel=1e-6)
    assert found.largest == pytest.approx(float(np.abs(finite).max()), rel=1e-6)
    if found.largest:
        assert abs(finite[found.where]) == pytest.approx(found.largest, rel=1e-6)


def test_a_difference_beyond_float32_is_finite():
    a, b = np.full((4,), 3e38, np.float32), np.full((4,), -3e38, np.float32)
    (found,) = compare_arrays([Job(Held(w=a), spec("w", a), Held(w=b), (spec("w", b),), None)])
    assert (found.not_finite, found.largest) == (0, pytest.approx(6e38, rel=1e-6))


def test_layers_of_one_array_and_arrays_of_several_pieces():
    whole = np.random.default_rng(0).normal(size=(70_000, 3)).astype(np.float32)
    layers = [whole[:, n].copy() for n in range(3)]
    layers[1][65_000] += 2.0
    others = {f"w_{n}": layer for n, layer in enumerate(layers)}
    sides = Held(w=whole), Held(**others)
    job = Job(sides[0], spec("w", whole), sides[1], tuple(spec(name, value) for name, value in others.items()), 1)
    same, found = compare_arrays([Job(sides[0], spec("w", whole), sides[0], (spec("w", whole),), None), job])
    assert (same.values, same.differing) == (210_000, 0)
    assert (found.differing, found.where, found.norm) == (1, (65_000, 1), pytest.approx(2.0, rel=1e-6))


def test_unreadable_arrays_are_named():
    here = np.zeros(3, np.float32)
    with pytest.raises(UnreadableError, match="w cannot be read") as caught:
        compare_arrays([Job(Held(w=here), spec("w", here), Held(), (spec("w", here),), None)])
    assert isinstance(caught.value.__cause__, KeyError)
