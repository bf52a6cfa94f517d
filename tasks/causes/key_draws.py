"""Finds random draws (`jax.random`) whose keys derive from an argument of the step that only one arm has."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.causes.tensor_rows import ObservedStep, leaves
from tasks.records.observation import ObservedArray, Role

DRAW = "random_bits"  # the primitive behind every function of `jax.random`
_RANDOM: Role = "random numbers"
_COUNTER = ".count"  # suffix: each of NNX's random streams has a counter and a key


@dataclass(frozen=True)
class KeyUses:
    """The arguments that an arm's random keys derive from. Rows are indices of `ObservedStep.rows`."""

    derived: dict[int, frozenset[int]]  # row that computes a key → indices of the arguments it derives from
    draws: dict[int, frozenset[int]]  # row of a draw with an effect on a result → indices of its key's arguments


@dataclass(frozen=True)
class OwnDraws:
    """The draws of one arm with keys that the other arm does not have."""

    derived: frozenset[int]  # rows that compute these keys
    keys: dict[int, str]  # row of a draw → the arguments of its key, as text for display


def trace_keys(step: ObservedStep, arguments: Sequence[ObservedArray]) -> KeyUses:
    """Follow an arm's random keys from the step's arguments through its operations to its draws."""
    derived: dict[int, frozenset[int]] = {}
    draws: dict[int, frozenset[int]] = {}
    for n, row in enumerate(step.rows):
        places: set[int] = set()
        for leaf in (leaf for origin in row.origins for leaf in leaves(origin)):
            if leaf[0] == "row":
                places |= derived.get(leaf[1], frozenset())
            elif leaf[0] == "arg" and arguments[leaf[1]].role == _RANDOM:
                places.add(leaf[1])
        if places and row.operation != DRAW:
            derived[n] = frozenset(places)
        elif places and n in step.live:
            draws[n] = frozenset(places)
    return KeyUses(derived, draws)


def find_own_draws(
    mine: KeyUses, theirs: KeyUses, arguments: Sequence[ObservedArray], others: Sequence[ObservedArray]
) -> OwnDraws:
    """Return the draws with a key argument that the other arm lacks: by meaning, and by bits among its draws' keys."""
    meanings = {argument.meaning for argument in others if argument.role == _RANDOM}
    digests = {others[place].digest for places in theirs.draws.values() for place in places}
    own = {
        place
        for places in mine.draws.values()
        for place in places
        if arguments[place].meaning not in meanings and arguments[place].digest not in digests
    }
    return OwnDraws(
        frozenset(n for n, places in mine.derived.items() if places & own),
        {n: _in_words(places, arguments) for n, places in mine.draws.items() if places & own},
    )


def _in_words(places: frozenset[int], arguments: Sequence[ObservedArray]) -> str:
    meanings = [arguments[place].meaning for place in sorted(places)]
    return ", ".join([meaning for meaning in meanings if not meaning.endswith(_COUNTER)] or meanings)
