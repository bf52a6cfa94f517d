"""Matches arrays that stack layers, such as `layers.mlp.wo`, with the arrays of single ones: `layers_0.mlp.wo`."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

_INDEX = re.compile(r"(?:^|(?<=\.))(?P<name>[A-Za-z]\w*?)[_.](?P<index>\d+)(?=\.|$)")


class NamedShape(NamedTuple):
    """An array's role, canonical path and shape."""

    role: str
    path: str
    shape: tuple[int, ...]


S = TypeVar("S")
W = TypeVar("W")


def find_stacks(singles: Mapping[S, NamedShape], stacked: Mapping[W, NamedShape]) -> dict[W, tuple[int, list[S]]]:
    """Return the key of a stacked array → (axis of the layers, keys of its layers in order).

    A layer's path has an index where the stacked path has none: `layers_0.mlp.wo` and `layers.mlp.wo`. Where several
    axes have as many elements as there are layers, the axis that fits most arrays is chosen.
    """
    wholes = {(one.role, one.path): key for key, one in stacked.items()}
    groups: dict[W, dict[int, S]] = defaultdict(dict)
    for key, one in singles.items():
        for found in _INDEX.finditer(one.path):
            path = one.path[: found.start()] + found["name"] + one.path[found.end() :]
            if (whole := wholes.get((one.role, path))) is not None:
                groups[whole][int(found["index"])] = key
    axes: dict[W, list[int]] = {}
    for whole, parts in groups.items():
        shape, part = stacked[whole].shape, singles[next(iter(parts.values()))].shape
        axes[whole] = [
            axis for axis, size in enumerate(shape) if size == len(parts) and shape[:axis] + shape[axis + 1 :] == part
        ]
    votes = Counter(axis for fitting in axes.values() for axis in fitting)
    return {
        whole: (max(fitting, key=lambda axis: votes[axis]), [groups[whole][index] for index in sorted(groups[whole])])
        for whole, fitting in axes.items()
        if fitting
    }
