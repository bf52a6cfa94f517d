"""Replaces a step's arguments by the other arm's, and draws in an observed step, so that arms differ by fewer causes.

An arm is one of the two compared versions of a trainer. A draw is the result of one `random_bits` operation; draws are
matched by loop, type and order. Only the evaluation operation by operation uses the other arm's draws: the trainer's
compiled step makes its own draws.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maxview_probe.observe import bits
from maxview_probe.observe.meaning import meaning_of, meanings_of, pair_similar
from maxview_probe.observe.observation_files import read_arrays
from maxview_probe.observe.stacked_layers import NamedShape, find_stacks

SIMILAR = ("parameter", "optimizer")  # roles of arguments that two trainers may name in other words
_MAY_DIFFER = ("random numbers", "counter")  # roles of arguments that may differ in an equal start


class Replacement:
    """The first call's arguments after the replacement by the other arm's arguments of the same meaning.

    leaves: the new arguments. replaced: names of replaced arguments. kept: name → why the argument was not replaced.
    own_values: names in `kept` that must be equal for an equal start. unused: names in the other arm only.
    """

    def __init__(self, names: list[str], leaves: list[Any], file: Path):
        """Replace the leaves with these names by the arrays in `file`. Raises OSError, ValueError."""
        stored = read_arrays(file)
        theirs = dict(zip(meanings_of(stored), stored, strict=True))
        self.leaves, self.replaced, self.kept = list(leaves), list[str](), dict[str, str]()
        meanings = meanings_of(names)
        partners = [theirs.pop(meaning, None) for meaning in meanings]
        for place, there in self._similar(meanings, partners, theirs, stored).items():
            partners[place] = theirs.pop(there)
        made = self._from_layers(meanings, partners, theirs, stored)
        for place, (name, meaning, there) in enumerate(zip(names, meanings, partners, strict=True)):
            if place in made:
                values = made[place]
            elif reason := self._reason(leaves[place], meaning[0], there):
                self.kept[name] = reason
                continue
            else:
                values = stored[str(there)]
            if values.shape != bits.to_bits(leaves[place]).shape:
                self.kept[name] = f"shape {tuple(leaves[place].shape)} here, {tuple(values.shape)} there"
                continue
            self.leaves[place] = bits.from_bits(values, leaves[place])
            self.replaced.append(name)
        self.own_values = [name for name in self.kept if meaning_of(name)[0] not in _MAY_DIFFER]
        self.unused = list(theirs.values())

    def _similar(
        self, meanings: list[Any], partners: list[str | None], theirs: Mapping[Any, str], stored: Mapping[str, Any]
    ) -> dict[int, Any]:
        """Return index of an argument without a partner → the meaning of the other arm's array with a similar name."""
        rest = [meaning for meaning in theirs if meaning[0] in SIMILAR]
        left = {n: ((role, stored[theirs[role, path]].shape), path) for n, (role, path) in enumerate(rest)}
        right = {
            n: ((role, bits.to_bits(self.leaves[n]).shape), path)
            for n, (role, path) in enumerate(meanings)
            if partners[n] is None and role in SIMILAR and bits.is_in_process(self.leaves[n])
        }
        return {n: rest[place] for n, place in pair_similar(left, right).items()}

    def _from_layers(
        self, meanings: list[Any], partners: list[str | None], theirs: dict[Any, str], stored: Mapping[str, Any]
    ) -> dict[int, Any]:
        """Return index → values of arguments without a partner that the other arm has by layer, or with all layers.

        Removes the used arrays from `theirs`.
        """
        rest = {
            there: NamedShape(there[0], there[1], stored[name].shape)
            for there, name in theirs.items()
            if there[0] in SIMILAR
        }
        own = {
            n: NamedShape(meaning[0], meaning[1], bits.to_bits(self.leaves[n]).shape)
            for n, meaning in enumerate(meanings)
            if partners[n] is None and meaning[0] in SIMILAR and bits.is_in_process(self.leaves[n])
        }
        found: dict[int, Any] = {}
        used: set[Any] = set()
        for whole, (axis, places) in find_stacks(own, rest).items():
            found |= dict(zip(places, np.moveaxis(stored[theirs[whole]], axis, 0), strict=True))
            used.add(whole)
        for place, (axis, layers) in find_stacks(rest, own).items():
            found[place] = np.stack([stored[theirs[layer]] for layer in layers], axis=axis)
            used |= set(layers)
        for there in used:
            del theirs[there]
        return found

    @staticmethod
    def _reason(leaf: Any, role: str, there: str | None) -> str | None:
        """Return why an argument cannot be replaced, or None; does not check shapes.

        there: the argument's name in the other arm; None if it has no such argument.
        """
        if role == "random numbers":
            return "random numbers stay the arm's own"
        if there is None:
            return "the other arm has none"
        return None if bits.is_in_process(leaf) else "parts of it are held by other processes"


DRAW = "random_bits"  # all functions of `jax.random` use this primitive
MAX_BYTES = 256 << 20  # limit of bytes of stored draws; later draws are not stored


class Draws:
    """The draws of one evaluation. given: name → draw of the other arm, which replaces this arm's draw."""

    def __init__(self, given: Mapping[str, Any]):
        self.given, self.held, self.bytes = given, dict[str, Any](), 0
        self._counts: Counter[str] = Counter()

    def share(self, path: str, value: Any) -> Any:
        """Return the other arm's draw for this loop path, type and order; else this arm's `value`.

        Up to MAX_BYTES, such values are stored in `held`.
        """
        place = f"{path} {value.dtype}{list(value.shape)}"
        self._counts[place] += 1
        name = f"{place} #{self._counts[place]}"
        if name in self.given:
            return self.given[name]
        self.bytes += value.nbytes
        if self.bytes <= MAX_BYTES:
            self.held[name] = value
        return value


def have_common_keys(arguments: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether a random key of one meaning is an argument of both steps; also True if a step has no key."""
    mine, theirs = (
        {meaning for meaning in meanings_of(names) if meaning[0] == "random numbers"} for names in (arguments, others)
    )
    return not mine or not theirs or bool(mine & theirs)
