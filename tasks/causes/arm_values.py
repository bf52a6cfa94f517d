"""Divides the values of one arm's observed step: the other arm computes some of them too, and lacks the rest."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tasks.causes.key_draws import KeyUses, OwnDraws, find_own_draws, trace_keys
from tasks.causes.tensor_rows import Leaf, ObservedStep, Origin, TensorRow, leaves
from tasks.records.observation import Observation

MADE = ("row", "arg")  # origins that are tensors; the others are constants of the program


@dataclass(frozen=True)
class ArmValues:
    """The tensors and arguments of one observed step."""

    observation: Observation
    step: ObservedStep
    equal_arguments: Collection[int]  # places of arguments that the other arm has too

    @property
    def rows(self) -> list[TensorRow]:
        """Its tensors, in the program's order."""
        return self.step.rows

    @cached_property
    def digests(self) -> frozenset[str]:
        """The digests of all values that occur, of any origin."""
        given = {argument.digest for argument in self.observation.arguments if argument.digest}
        return frozenset({row.digest for row in self.rows} | given)

    @cached_property
    def keys(self) -> KeyUses:
        """The origins of the keys of its random draws."""
        return trace_keys(self.step, self.observation.arguments)

    def digest_of(self, leaf: Leaf) -> str:
        """Return a text that identifies an operand."""
        if leaf[0] == "row":
            return self.rows[leaf[1]].digest
        if leaf[0] == "arg":
            return self.observation.arguments[leaf[1]].digest or f"argument {leaf[1]}"
        return f"{leaf[0]} {leaf[1]}"

    def inputs(self, row: TensorRow) -> tuple[str, ...]:
        """Return the digests of the tensors that an operation reads, without constants."""
        return tuple(text for origin in row.origins for text in self._made(origin))

    def constants(self, row: TensorRow) -> tuple[str, ...]:
        """Return the constants that an operation reads, in order."""
        return tuple(str(leaf[1]) for origin in row.origins for leaf in leaves(origin) if leaf[0] not in MADE)

    def _made(self, origin: Origin) -> Iterator[str]:
        turn = f" {origin[1]}" if origin[0] == "part" else ""
        yield from (self.digest_of(leaf) + turn for leaf in leaves(origin) if leaf[0] in MADE)


@dataclass
class Parting:
    """The rows of one arm in which it diverges from the other. Rows are identified by their numbers in this arm."""

    arm: ArmValues
    other: ArmValues
    divergent: frozenset[int] = field(init=False)  # live rows whose value does not occur in the other arm
    own_draws: OwnDraws = field(init=False)
    # the first rows that differ: divergent rows whose inputs both arms have; of random draws, those with keys that only
    # this arm has
    frontier: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        rows, known = self.arm.rows, self.other.digests
        self.divergent = frozenset(n for n in self.arm.step.live if rows[n].digest not in known)
        mine, theirs = self.arm.observation.arguments, self.other.observation.arguments
        self.own_draws = find_own_draws(self.arm.keys, self.other.keys, mine, theirs)
        self.frontier = tuple(n for n in sorted(self.divergent | self.own_draws.keys.keys()) if self._is_at_front(n))

    def _is_at_front(self, n: int) -> bool:
        if n in self.own_draws.keys or n in self.own_draws.derived:
            return n in self.own_draws.keys  # a key differs by its derivation; its first effect is a draw
        return all(map(self._common, self.arm.rows[n].origins))

    def _common(self, origin: Origin) -> bool:
        return all(
            leaf[1] not in self.divergent if leaf[0] == "row" else leaf[1] in self.arm.equal_arguments
            for leaf in leaves(origin)
            if leaf[0] in MADE
        )
