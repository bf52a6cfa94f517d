"""Pairs the arrays of two checkpoints by path, also between Linen and NNX trees, and scanned and unrolled layers.

Scanned layers are stacked in one array; unrolled layers have one array each. The compared paths omit the
position in an optax chain; paths that become equal thereby are numbered.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from maxview_probe.observe.meaning import Place, meaning_of_array, number_equal
from tasks.records.compared_checkpoints import ArrayRole
from tasks.verify.array_index import ArraySpec

_LAYER = re.compile(r"(?P<stack>.*[A-Za-z])_(?P<number>\d+)")
_NUMBER = re.compile(r"_(\d+)(?=\.|$)")
_FIRST_AXES = (1, 0)  # layer axes to try first: MaxText's, then maxview's; the other axes follow


class Shaped(Protocol):
    """What pairing reads of an array besides its place."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class ArrayPair[T: Shaped]:
    """Arrays of one meaning: one per side, or a stacked array and the arrays of its layers. A side may be empty."""

    role: ArrayRole
    path: str  # the path without framework-specific parts
    ours: tuple[T, ...]
    theirs: tuple[T, ...]
    layer_axis: int | None = None  # axis of the stacked array; None if neither side is stacked


def pair_arrays(ours: Iterable[ArraySpec], theirs: Iterable[ArraySpec]) -> list[ArrayPair[ArraySpec]]:
    """Return the pairs of all arrays, parameters first; the pair of an array without a match has one empty side."""
    return pair_places(_places(ours), _places(theirs))


def pair_places[T: Shaped](left: Mapping[Place, T], right: Mapping[Place, T]) -> list[ArrayPair[T]]:
    """Return the pairs of arrays with known places, as `pair_arrays` does."""
    left, right = dict(left), dict(right)
    common = left.keys() & right.keys()
    pairs = [ArrayPair(*place, (left.pop(place),), (right.pop(place),)) for place in sorted(common)]
    pairs += _pair_stacks(left, right)
    pairs += [replace(pair, ours=pair.theirs, theirs=pair.ours) for pair in _pair_stacks(right, left)]
    pairs += _pair_spellings(left, right)
    pairs += [ArrayPair(*place, (spec,), ()) for place, spec in left.items()]
    pairs += [ArrayPair(*place, (), (spec,)) for place, spec in right.items()]
    return sorted(pairs, key=lambda pair: (pair.role != "parameter", pair.role, pair.path))


def _places(arrays: Iterable[ArraySpec]) -> dict[Place, ArraySpec]:
    ordered = sorted(arrays, key=lambda spec: _natural(spec.name))
    return dict(zip(number_equal(meaning_of_array(spec.name) for spec in ordered), ordered, strict=True))


def _pair_stacks[T: Shaped](scanned: dict[Place, T], unrolled: dict[Place, T]) -> list[ArrayPair[T]]:
    """Return the pairs of a stacked array and the arrays of its layers, and remove these arrays from the arguments."""
    layers: dict[Place, dict[int, Place]] = {}
    for place in unrolled:
        role, path = place
        for stack, number in _stacks_of(path):
            layers.setdefault((role, stack), {})[number] = place
    pairs = []
    for place in sorted(scanned.keys() & layers.keys()):
        places = layers[place]
        if sorted(places) != list(range(len(places))) or any(one not in unrolled for one in places.values()):
            continue
        specs = tuple(unrolled[places[number]] for number in range(len(places)))
        axis = _layer_axis(scanned[place], specs)
        if axis is None:
            continue
        for one in places.values():
            del unrolled[one]
        pairs.append(ArrayPair(*place, (scanned.pop(place),), specs, axis))
    return pairs


def _pair_spellings[T: Shaped](left: dict[Place, T], right: dict[Place, T]) -> list[ArrayPair[T]]:
    """Return the pairs of a layer's array in Linen (`layers_3.w`) and NNX (`layers.3.w`).

    Removes the paired arrays from the arguments.
    """
    spelt = {(role, _NUMBER.sub(r".\1", path)): (role, path) for role, path in right}
    pairs = []
    for role, path in sorted(left):
        other = spelt.get((role, _NUMBER.sub(r".\1", path)))
        if other in right:
            pairs.append(ArrayPair(role, path, (left.pop((role, path)),), (right.pop(other),)))
    return pairs


def _stacks_of(path: str) -> list[tuple[str, int]]:
    """Return (path of the stacked array, layer number) for each number in a path: `layers.3.w` → (`layers.w`, 3)."""
    parts = path.split(".")
    stacks = []
    for at, part in enumerate(parts):
        if part.isdigit() and at:
            stacks.append((".".join(parts[:at] + parts[at + 1 :]), int(part)))
        elif match := _LAYER.fullmatch(part):
            stacks.append((".".join([*parts[:at], match["stack"], *parts[at + 1 :]]), int(match["number"])))
    return stacks


def _layer_axis(scanned: Shaped, layers: Sequence[Shaped]) -> int | None:
    shapes = {spec.shape for spec in layers}
    if len(shapes) != 1:
        return None
    (one,) = shapes
    shape = scanned.shape
    axes = [k for k in range(len(shape)) if shape[k] == len(layers) and shape[:k] + shape[k + 1 :] == one]
    return next((axis for axis in (*_FIRST_AXES, *axes) if axis in axes), None)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]


def first_difference(pairs: Sequence[ArrayPair[ArraySpec]]) -> str | None:
    """Return a message about the first parameter that one side lacks or whose shapes differ; None if there is none.

    The message also has the number of the other such parameters, if any.
    """
    texts = [text for pair in pairs if pair.role == "parameter" and (text := _describe(pair))]
    if not texts:
        return None
    return texts[0] + (f" (and {len(texts) - 1} more)" if len(texts) > 1 else "")


def _describe(pair: ArrayPair[ArraySpec]) -> str | None:
    sides: Mapping[str, tuple[ArraySpec, ...]] = {"here": pair.ours, "there": pair.theirs}
    for side, specs in sides.items():
        if not specs:
            other = next(iter(pair.ours or pair.theirs))
            return f"{pair.path} {other.shape} is missing {side}"
    if pair.layer_axis is None and pair.ours[0].shape != pair.theirs[0].shape:
        return f"{pair.path} is {pair.ours[0].shape} here and {pair.theirs[0].shape} there"
    return None
