"""Finds the tensors of one arm's observed step that the other arm lacks, and the operations that cause them.

An arm is one of the two compared versions of a trainer. A row is one tensor: one result of one operation of the step. A
draw is the result of a call of `jax.random`. It counts as different if its key derives from an argument that only one
arm's step has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tasks.extensions.explain.tensor_rows import Leaf, ObservedStep, Origin, TensorRow, leaves
from tasks.records.observation import Observation, ObservedArray, Role

DRAW = "random_bits"  # the primitive of JAX that draws random bits from a key
_RANDOM: Role = "random numbers"
_COUNTER = ".count"  # end of a counter's name; each random stream of NNX has a counter and a key


@dataclass(frozen=True)
class KeyUses:
    """The arguments that an arm's random keys derive from. Rows are indices of `ObservedStep.rows`."""

    derived: dict[int, frozenset[int]]  # row that computes a key → indices of the arguments that the key derives from
    draws: dict[int, frozenset[int]]  # row of a draw with an effect on a result → indices of its key's arguments


@dataclass(frozen=True)
class OwnDraws:
    """The draws of one arm with keys that the other arm does not have."""

    derived: frozenset[int]  # rows that compute these keys
    keys: dict[int, str]  # row of a draw → the arguments of its key, as text for display


def trace_keys(step: ObservedStep, arguments: Sequence[ObservedArray]) -> KeyUses:
    """Follow an arm's random keys from the step's arguments through the step's operations to its draws."""
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


def find_own_draws(arm: "ArmValues", other: "ArmValues") -> OwnDraws:
    """Return the draws whose keys derive from an argument that the other arm lacks.

    An argument is lacking if the other arm has no random argument of that meaning, and no draw there derives from an
    argument with the same bits.
    """
    arguments, others = arm.observation.arguments, other.observation.arguments
    meanings = {argument.meaning for argument in others if argument.role == _RANDOM}
    digests = {others[place].digest for places in other.keys.draws.values() for place in places}
    own = {
        place
        for places in arm.keys.draws.values()
        for place in places
        if arguments[place].meaning not in meanings and arguments[place].digest not in digests
    }
    return OwnDraws(
        frozenset(n for n, places in arm.keys.derived.items() if places & own),
        {n: _in_words(places, arguments) for n, places in arm.keys.draws.items() if places & own},
    )


def _in_words(places: frozenset[int], arguments: Sequence[ObservedArray]) -> str:
    meanings = [arguments[place].meaning for place in sorted(places)]
    return ", ".join([meaning for meaning in meanings if not meaning.endswith(_COUNTER)] or meanings)


TENSORS = ("row", "arg")  # kinds of origins that are tensors; the other kinds are literals and constants


@dataclass(frozen=True)
class ArmValues:
    """The tensors and arguments of one observed step."""

    observation: Observation
    step: ObservedStep

    @property
    def rows(self) -> list[TensorRow]:
        """The step's tensors, in the program's order."""
        return self.step.rows

    @cached_property
    def values(self) -> frozenset[str]:
        """The values of all tensors and arguments of the step."""
        return frozenset({row.value for row in self.rows} | set(self.step.arguments))

    @cached_property
    def keys(self) -> KeyUses:
        """The arguments from which the step's random keys and draws derive."""
        return trace_keys(self.step, self.observation.arguments)

    def value_of(self, leaf: Leaf) -> str:
        """Return the value of a row or of an argument."""
        return self.rows[leaf[1]].value if leaf[0] == "row" else self.step.arguments[leaf[1]]

    def inputs(self, row: TensorRow) -> tuple[str, ...]:
        """Return the values of the tensors that an operation reads, in order, without constants."""
        read = (leaf for origin in row.origins for leaf in leaves(origin) if leaf[0] in TENSORS)
        return tuple(map(self.value_of, read))

    def constants(self, row: TensorRow) -> tuple[str, ...]:
        """Return the constants that an operation reads, in order: literals as text, other constants as digests."""
        return tuple(str(leaf[1]) for origin in row.origins for leaf in leaves(origin) if leaf[0] not in TENSORS)


@dataclass
class Divergence:
    """The tensors of `arm` that differ from the arm `other`. A row is given by its index in `arm.rows`."""

    arm: ArmValues
    other: ArmValues
    # rows that the other arm lacks, and that change a result of the step: a sum in another order has other parts, too
    divergent: frozenset[int] = field(init=False)
    own_draws: OwnDraws = field(init=False)
    # the rows where differences begin: divergent rows whose inputs the other arm has too, and random draws with keys
    # that only this arm has
    frontier: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        rows, known = self.arm.rows, self.other.values
        self.divergent = self.arm.step.reach(lambda n: rows[n].value not in known)
        self.own_draws = find_own_draws(self.arm, self.other)
        self.frontier = tuple(n for n in sorted(self.divergent | self.own_draws.keys.keys()) if self._is_at_front(n))

    @cached_property
    def _seen_forward(self) -> frozenset[int]:
        """The divergent rows that change a result of the step by values, not only by gradients."""
        rows = self.arm.rows
        return self.arm.step.reach(lambda n: n in self.divergent and rows[n].direction == "forward")

    def is_detour(self, n: int) -> bool:
        """Whether a row of the forward pass changes no value beyond the divergent rows, only gradients."""
        return self.arm.rows[n].direction == "forward" and n in self.divergent and n not in self._seen_forward

    def _is_at_front(self, n: int) -> bool:
        if n in self.own_draws.keys or n in self.own_draws.derived:
            return n in self.own_draws.keys  # the rows that compute such a key do not count
        return all(map(self._common, self.arm.rows[n].origins))

    def _common(self, origin: Origin) -> bool:
        return all(
            leaf[1] not in self.divergent if leaf[0] == "row" else self.arm.value_of(leaf) in self.other.values
            for leaf in leaves(origin)
            if leaf[0] in TENSORS
        )
