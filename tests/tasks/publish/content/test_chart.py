"""Thinning a curve keeps its ends, its extremes and its gaps."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tasks.publish.content.chart import thin_out

VALUES = st.lists(st.one_of(st.none(), st.floats()), max_size=400)


@given(VALUES, st.integers(min_value=2, max_value=60))
def test_the_extremes_and_the_ends_survive(values: list[float | None], limit: int) -> None:
    kept = thin_out(values, limit)
    assert kept == sorted(set(kept))
    assert len(kept) <= max(limit, 2) + 2
    if values:
        assert kept[0] == 0
        assert kept[-1] == len(values) - 1
    finite = [v for v in values if v is not None and math.isfinite(v)]
    shown = [v for i in kept if (v := values[i]) is not None and math.isfinite(v)]
    if finite:
        assert (min(shown), max(shown)) == (min(finite), max(finite))


def test_one_stall_in_a_hundred_thousand_steps_is_kept() -> None:
    values = [0.1] * 100_000
    values[54_321] = 28.0
    assert 54_321 in thin_out(values, 100)


def test_a_short_curve_is_kept_completely() -> None:
    assert thin_out([1.0, math.nan, None], 3) == [0, 1, 2]
