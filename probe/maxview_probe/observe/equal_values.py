"""Finds tensors with equal values among the tensors of two steps that were evaluated in float64, up to rounding."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

# Two norms or projections are equal if they differ by no more than LIMIT times the norm plus ROUNDINGS times the
# distance by which another rounding of every operation moved the tensor: usually 1e-15 of the norm, but all of it for a
# tensor that is zero up to rounding.
LIMIT, ROUNDINGS = 1e-13, 1000.0

# the digest of integers, or a fingerprint of floats: see `maxview_probe.observe.bits.take_fingerprint`
Measured: TypeAlias = str | Sequence[float]
Bands: TypeAlias = tuple[float, ...]  # twice: norm, two projections, distance moved by rounding


def name_values(tensors: Sequence[Measured]) -> list[str]:
    """Return a name for each tensor, equal for equal values."""
    kinds: dict[tuple[float, ...], set[Bands]] = defaultdict(set)  # (elements, non-finite ones) → fingerprints
    for one in tensors:
        if not isinstance(one, str):
            kinds[tuple(one[:2])].add(tuple(one[2:]))
    names: dict[tuple[float, ...], str] = {}
    for kind, found in kinds.items():
        bands = list(found)
        for one, group in zip(bands, _group(bands), strict=True):
            names[*kind, *one] = f"{kind[0]}/{kind[1]} #{group}"
    return [one if isinstance(one, str) else names[tuple(one)] for one in tensors]


def _group(found: Sequence[Bands]) -> list[int]:
    """Return the number of each fingerprint's group; the fingerprints of a group are equal, or linked by equal ones."""
    groups = list(range(len(found)))

    def leader(n: int) -> int:
        while groups[n] != n:
            groups[n] = groups[groups[n]]
            n = groups[n]
        return n

    reach = [_tolerance(one[0], one[3]) for one in found]
    near: list[int] = []  # fingerprints whose norm may be within reach of the next ones
    for n in sorted(range(len(found)), key=lambda n: found[n][0] - reach[n]):
        near = [other for other in near if found[other][0] + reach[other] >= found[n][0] - reach[n]]
        for other in near:
            if _are_equal(found[n], found[other]):
                groups[leader(n)] = leader(other)
        near.append(n)
    return [leader(n) for n in range(len(found))]


def _are_equal(left: Bands, right: Bands) -> bool:
    for begin in (0, 4):
        a, b = left[begin : begin + 4], right[begin : begin + 4]
        limit = max(_tolerance(a[0], a[3]), _tolerance(b[0], b[3]))
        if any(abs(x - y) > limit for x, y in zip(a[:3], b[:3], strict=True)):
            return False
    return True


def _tolerance(norm: float, moved: float) -> float:
    found = LIMIT * norm + ROUNDINGS * moved
    return found if math.isfinite(found) else 0.0
