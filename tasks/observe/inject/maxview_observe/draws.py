"""Keeps what an arm's step draws at random, for an arm whose keys have no counterpart in it.

Draws are matched by loop, type and order. Only the evaluation uses them: the trainer's own program draws by itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .meaning import meanings_of

DRAW = "random_bits"  # every function of `jax.random` draws by it
MOST_BYTES = 256 << 20


class Draws:
    """The draws of one evaluation. `given`: those of another arm, which replace its own."""

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
    """Whether an argument with random numbers of one step has a counterpart in another step, or one has none at all."""
    mine, theirs = (
        {meaning for meaning in meanings_of(names) if meaning[0] == "random numbers"} for names in (arguments, others)
    )
    return not mine or not theirs or bool(mine & theirs)
