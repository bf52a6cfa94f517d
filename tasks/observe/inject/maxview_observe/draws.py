"""Stores the random draws of an arm's step, for another arm whose random keys have no counterpart in it.

Draws are matched by loop, type and order. Only the evaluation uses them: the trainer's own program draws by itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .meaning import meanings_of

DRAW = "random_bits"  # all functions of `jax.random` use this primitive
MOST_BYTES = 256 << 20


class Draws:
    """The draws of one evaluation. `given`: the other arm's draws, which replace them."""

    def __init__(self, given: Mapping[str, Any]):
        self.given, self.held, self.bytes = given, dict[str, Any](), 0
        self._counts: Counter[str] = Counter()

    def share(self, path: str, value: Any) -> Any:
        """Return the other arm's draw at this place, or keep and return this arm's."""
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
    """Return whether the random keys of two steps have common arguments; also True if a step has no keys."""
    mine, theirs = (
        {meaning for meaning in meanings_of(names) if meaning[0] == "random numbers"} for names in (arguments, others)
    )
    return not mine or not theirs or bool(mine & theirs)
