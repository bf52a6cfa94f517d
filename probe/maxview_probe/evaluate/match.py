"""Matches two arms' arrays by meaning: equal and similar names, stacked and single layers, other shapes of a batch."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxview_probe.evaluate.recorded_step import Slot
from maxview_probe.observe.meaning import pair_similar
from maxview_probe.observe.stacked_layers import NamedShape, find_stacks

_STACK = re.compile(r"^(.*?(?:layers?|blocks?))\.")  # path of a module that holds stacked layers
SIMILAR = ("parameter", "optimizer", "metric")  # roles of arrays that two trainers may name in other words


@dataclass(frozen=True)
class ArrayOrigin:
    """How an array of one arm is made from arrays of the other arm: their indices, and the function that makes it."""

    places: tuple[int, ...]
    make: Callable[[Sequence[Any]], Any]

    def take(self, values: Sequence[Any]) -> Any:
        """Return the array, made from the other arm's `values`."""
        return self.make([values[place] for place in self.places])


def match(theirs: Sequence[Slot], ours: Sequence[Slot]) -> list[ArrayOrigin | None]:
    """Return for each of our slots how it is made from their slots; None without a counterpart."""
    # arrays of one meaning, such as weights and their summed gradients in a loop, are matched in their order
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for n, slot in enumerate(theirs):
        places[slot.role, slot.meaning].append(n)
    found: list[ArrayOrigin | None] = [None] * len(ours)
    for n, slot in enumerate(ours):
        waiting = places[slot.role, slot.meaning]
        if waiting and _fits(theirs[waiting[0]], slot):
            found[n] = ArrayOrigin((waiting.pop(0),), _reshaper(slot.shape))
    rest, missing = _left_over(theirs, found)
    for singles, stacked, ours_are_single in ((missing, rest, True), (rest, missing, False)):
        lists = (ours, theirs) if ours_are_single else (theirs, ours)
        named = [{n: NamedShape(slots[n].role, slots[n].meaning, slots[n].shape) for n in its}
                 for its, slots in zip((singles, stacked), lists, strict=True)]  # fmt: skip
        for whole, (axis, parts) in find_stacks(*named).items():
            if ours_are_single:
                for index, part in enumerate(parts):
                    found[part] = ArrayOrigin((whole,), _taker(axis, index))
            else:
                found[whole] = ArrayOrigin(tuple(parts), _stacker(axis))
    rest, missing = _left_over(theirs, found)
    similar = [{n: ((slots[n].role, slots[n].shape), slots[n].meaning) for n in places if slots[n].role in SIMILAR}
               for slots, places in ((theirs, rest), (ours, missing))]  # fmt: skip
    for n, place in pair_similar(*similar).items():
        found[n] = ArrayOrigin((place,), _reshaper(ours[n].shape))
    return found


def _left_over(theirs: Sequence[Slot], found: Sequence[ArrayOrigin | None]) -> tuple[list[int], list[int]]:
    """Return the indices of their and of our slots without a counterpart."""
    used = {place for source in found if source for place in source.places}
    return [n for n in range(len(theirs)) if n not in used], [n for n, source in enumerate(found) if source is None]


def _fits(theirs: Slot, ours: Slot) -> bool:
    if theirs.shape == ours.shape:
        return True
    if ours.role == "data":
        return bool(np.prod(theirs.shape) == np.prod(ours.shape))
    short, long = sorted((theirs.shape, ours.shape), key=len)
    # MaxText's interleaved pipeline stacks its layers by repetition and stage
    return len(long) == len(short) + 1 > 1 and (long[0] * long[1], *long[2:]) == short


def _reshaper(shape: tuple[int, ...]) -> Callable[[Sequence[Any]], Any]:
    return lambda values: values[0].reshape(shape)


def _taker(axis: int, index: int) -> Callable[[Sequence[Any]], Any]:
    return lambda values: np.take(values[0], index, axis=axis)


def _stacker(axis: int) -> Callable[[Sequence[Any]], Any]:
    return lambda values: np.stack(values, axis=axis)


def find_layer_axes(slots: Sequence[Slot]) -> list[int | None]:
    """Return the axis along which the layers of each array are stacked; None for other arrays.

    It is the first axis along which all arrays of one module named `layers` or `blocks` have one size.
    """
    stacks: dict[tuple[str, str], list[int]] = defaultdict(list)
    for n, slot in enumerate(slots):
        if found := _STACK.match(slot.meaning):
            stacks[slot.role, found[1]].append(n)
    axes: list[int | None] = [None] * len(slots)
    for places in stacks.values():
        shapes = [slots[n].shape for n in places]
        sizes = [set(at) for at in zip(*shapes, strict=False)]
        common = next((axis for axis, size in enumerate(sizes) if len(size) == 1), None)
        if len(set(shapes)) > 1:
            for n in places:
                axes[n] = common
    return axes
