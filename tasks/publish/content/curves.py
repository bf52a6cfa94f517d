"""Chooses the values of a curve that a chart has room for."""

from collections.abc import Sequence
from math import isfinite


def thin_out(values: Sequence[float | None], limit: int) -> list[int]:
    """Return the indices of about `limit` values that keep the shape of a curve: minimum and maximum of each stretch.

    Every n-th value would not do: a stall is one step in thousands. Both ends are kept. Stretches without a finite
    value keep their first index, so that the gap remains.
    """
    total = len(values)
    if total <= limit:
        return list(range(total))
    kept = {0, total - 1}
    stretches = max(1, limit // 2)
    for number in range(stretches):
        low, high = number * total // stretches, (number + 1) * total // stretches
        finite = [(value, i) for i in range(low, high) if (value := values[i]) is not None and isfinite(value)]
        kept |= {min(finite)[1], max(finite)[1]} if finite else {low}
    return sorted(kept)
