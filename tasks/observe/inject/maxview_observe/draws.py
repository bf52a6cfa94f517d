"""Shares the random draws of one arm's evaluated step with another arm whose random keys have no counterpart there.

Draws are matched by loop, type and order. Only the evaluation uses them: the trainer's compiled step makes its own.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .meaning import meanings_of

DRAW = "random_bits"  # all functions of `jax.random` use this primitive
MOST_BYTES = 256 << 20  # later draws are not stored


class Draws:
    """The draws of one evaluation. given: name → draw of the other arm, which replaces this arm's draw."""

    def __init__(self, given: Mapping[str, Any]):
        self.given, self.held, self.bytes = given, dict[str, Any](), 0
        self._counts: Counter[str] = Counter()

    def share(self, path: str, value: Any) -> Any:
        """Return the other arm's draw for this loop path, type and order; else store and return this arm's `value`."""
        place = f"{path} {value.dtype}{list(value.shape)}"
        self._counts[place] += 1
        name = f"{place} #{self._counts[place]}"
        if name in self.given:
            return self.given[name]
        self.bytes += value.nbytes
        if self.bytes <= MOST_BYTES:
            self.held[name] = value
        return value


def have_common_keys(arguments: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether two steps have a random key of the same meaning as argument; also True if a step has no keys."""
    mine, theirs = (
        {meaning for meaning in meanings_of(names) if meaning[0] == "random numbers"} for names in (arguments, others)
    )
    return not mine or not theirs or bool(mine & theirs)
