"""Counts the floating point operations of matrix products in an optimised program; multiply and add count as two."""

import math
import re
from collections.abc import Mapping
from itertools import product

from tasks.preflight.hlo import Instruction, Shape

_WINDOW = re.compile(r"window=\{([^}]*)\}")
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_GROUPS = re.compile(r"\b(feature|batch)_group_count=(\d+)")
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")


def count_flops(one: Instruction, shapes: Mapping[str, Shape]) -> int:
    """Return the FLOPs of a `convolution` (the form of matrix products on TPUs) or a `dot`; 0 for other instructions.

    shapes: of the operands. Leaves out products with padding and dilation holes, like XLA's own count
    (`HloCostAnalysis::HandleConvolution`).
    """
    if one.opcode == "dot":
        found = _CONTRACTED.search(one.attributes)
        sizes = shapes[one.operands[0]].sizes
        contracted = [int(axis) for axis in found[1].split(",") if axis] if found else []
        return 2 * math.prod(one.shapes[0].sizes) * math.prod(sizes[axis] for axis in contracted)
    labels = _LABELS.search(one.attributes) if one.opcode == "convolution" else None
    if labels is None:
        return 0
    left, right, out = (
        dict(zip(names, shape.sizes, strict=True))
        for names, shape in zip(labels.groups(), (*(shapes[name] for name in one.operands), one.shapes[0]), strict=True)
    )
    groups = {kind: int(count) for kind, count in _GROUPS.findall(one.attributes)}
    axes = [label for label in labels[1] if label.isdigit()]
    window = _read_window(one.attributes, [right[axis] for axis in axes])
    valid = [
        _count_valid(left[axis], right[axis], out[axis], {key: values[place] for key, values in window.items()})
        for place, axis in enumerate(sorted(axes))
    ]
    inputs, batch = left["f"] // groups.get("feature", 1), left["b"] // groups.get("batch", 1)
    flops: int = 2 * inputs * out["f"] * batch * math.prod(valid)
    return flops


def _read_window(attributes: str, sizes: list[int]) -> dict[str, list[tuple[int, int]]]:
    """Return a window's values per axis, as pairs: stride, dilation of both sides, padding before and after."""
    found = _WINDOW.search(attributes)
    words = dict(word.split("=", 1) for word in found[1].split()) if found else {}
    count = len(sizes)

    def read(key: str, default: str) -> list[tuple[int, int]]:
        parts = (words[key] if key in words else "x".join([default] * count)).split("x") if count else []
        return [(int(a), int(b or 0)) for a, _, b in (part.partition("_") for part in parts)]

    return {
        "stride": read("stride", "1"),
        "pad": read("pad", "0_0"),
        "lhs_dilate": read("lhs_dilate", "1"),
        "rhs_dilate": read("rhs_dilate", "1"),
    }


def _count_valid(size: int, kernel: int, out: int, window: Mapping[str, tuple[int, int]]) -> int:
    """Return the number of (output index, kernel index) pairs that meet an input value, along one axis."""
    stride, hole, step = window["stride"][0], window["lhs_dilate"][0], window["rhs_dilate"][0]
    before = window["pad"][0]
    if out * kernel > 1 << 22:  # too large to count; never reached by matrix products
        return out * kernel
    places = (at * stride + k * step - before for at, k in product(range(out), range(kernel)))
    return sum(place >= 0 and place % hole == 0 and place // hole < size for place in places)
