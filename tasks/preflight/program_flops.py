"""Counts the floating point operations of matrix products in an optimised program; multiply and add count as two."""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import product

from tasks.preflight.hlo import Instruction, Shape

_WINDOW = re.compile(r"window=\{([^}]*)\}")
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_GROUPS = re.compile(r"\b(feature|batch)_group_count=(\d+)")
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")


def count_flops(one: Instruction, shapes: Mapping[str, Shape]) -> int:
    """Return the FLOPs of a `convolution` (the form of matrix products on TPUs) or a `dot`; 0 for other instructions.

    shapes: operand's name → shape. Multiplications with padding and dilation holes do not count, as in XLA
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
    axes = sorted(label for label in labels[1] if label.isdigit())
    windows = _read_windows(one.attributes, len(axes))
    valid = [
        _count_valid(left[axis], right[axis], out[axis], *window) for axis, window in zip(axes, windows, strict=True)
    ]
    inputs, batch = left["f"] // groups.get("feature", 1), left["b"] // groups.get("batch", 1)
    flops: int = 2 * inputs * out["f"] * batch * math.prod(valid)
    return flops


def _read_windows(attributes: str, count: int) -> Iterator[tuple[int, ...]]:
    """Yield for each axis of a window: stride, padding before it, dilation of the input, dilation of the kernel."""
    found = _WINDOW.search(attributes)
    words = dict(word.split("=", 1) for word in found[1].split()) if found else {}
    columns = [
        [int(part.partition("_")[0]) for part in words[key].split("x")] if key in words else [default] * count
        for key, default in (("stride", 1), ("pad", 0), ("lhs_dilate", 1), ("rhs_dilate", 1))
    ]
    return zip(*columns, strict=True)


def _count_valid(size: int, kernel: int, out: int, stride: int, before: int, hole: int, step: int) -> int:
    """Return the number of (output index, kernel index) pairs along one axis that multiply an input value.

    before: padding. hole: dilation of the input. step: dilation of the kernel.
    """
    if out * kernel > 1 << 22:  # too many pairs to list; matrix products have fewer
        return out * kernel
    places = (at * stride + k * step - before for at, k in product(range(out), range(kernel)))
    return sum(place >= 0 and place % hole == 0 and place // hole < size for place in places)
