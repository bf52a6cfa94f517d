"""Finds the tensors of one arm's observed step that the other arm lacks, and the operations that cause them.

An arm is one of the two compared versions of a trainer. A row is one tensor: one result of one operation of the step. A
draw is the result of a call of `jax.random`. It counts as different if its key derives from an argument that only one
arm's step has.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isclose

from questions.explain.tensor_rows import Layers, Leaf, ObservedStep, Origin, TensorRow, leaves
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


def name_results(observation: Observation) -> list[tuple[str, str]]:
    """Return role and meaning of each result: those of the argument of the next call that it becomes, if it does.

    Of flat lists, `0.13` tells nothing.
    """
    fed = zip(observation.arguments, observation.feeds or (), strict=False)
    named: dict[int, tuple[str, str]] = {place: (one.role, one.meaning) for one, place in fed if place is not None}
    return [named.get(n, (one.role, one.meaning)) for n, one in enumerate(observation.results)]


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
    def stacks(self) -> list[tuple[str, Layers]]:
        """The shape, and the values of the layers, of each tensor and argument that may stack layers."""
        rows = [(row.shape, row.layers) for row in self.rows if row.layers]
        shapes = [f"[{','.join(map(str, one.shape))}]" for one in self.observation.arguments]
        return rows + [one for one in zip(shapes, self.step.stacked, strict=False) if one[1]]

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The shapes of the arguments, and of the tensors outside of loops."""
        given = (f"[{','.join(map(str, one.shape))}]" for one in self.observation.arguments)
        return frozenset(given) | {row.shape for row in self.rows if not row.path}

    @cached_property
    def forward_results(self) -> dict[tuple[str, str], int]:
        """The results that the forward pass alone makes, such as losses: role and meaning → the row that makes it."""
        listed = self.observation.results
        if len(listed) != len(self.step.results):
            return {}
        found = {
            (made.role, made.meaning): origin[1]
            for made, origin in zip(listed, self.step.results, strict=True)
            if origin[0] == "row" and "float" in self.rows[origin[1]].type
        }
        return {key: n for key, n in found.items() if not self._is_behind_gradients(n)}

    @cached_property
    def returned(self) -> dict[tuple[str, str], Leaf]:
        """The results that are rows or arguments: role and meaning → row or argument."""
        names = name_results(self.observation)
        if len(names) != len(self.step.results):
            return {}
        found = zip(names, self.step.results, strict=True)
        return {name: tuple(origin) for name, origin in found if origin[0] in TENSORS}

    def _is_behind_gradients(self, n: int) -> bool:
        return any(self.rows[one].direction != "forward" for one in self.step.upstream([n]))

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


_TURN = re.compile(r"/scan(\d+)\[(\d+)\]")
CLOSE = 1e-12  # of numbers in float64 that are sums in another order


def find_parts(whole: ArmValues, parts: ArmValues) -> Iterator[tuple[int, list[int]]]:
    """Yield the rows of single numbers of one arm that are the sum, or the mean, of those of the other arm's loop.

    Such as a loss, of a batch and of its parts: they are made alike, and what differs begins behind them.
    """
    wholes = {_describe_number(row, row.path): n for n, row in enumerate(whole.rows) if _is_number(row)}
    turns: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for n, row in enumerate(parts.rows):
        if _is_number(row) and (turn := _TURN.match(row.path)):
            turns[turn[1], *_describe_number(row, row.path[turn.end() :])].append(n)
    for (count, *key), its in turns.items():
        if tuple(key) not in wholes or len(its) != int(str(count)):
            continue
        made, total = wholes[tuple(key)], sum(parts.rows[n].mean for n in its)
        sizes = (total,) if _is_count(whole, made) else (total, total / len(its))
        if any(isclose(whole.rows[made].mean, size, rel_tol=CLOSE) for size in sizes):
            yield made, its


def _is_number(row: TensorRow) -> bool:
    return row.shape == "[]" and "bool" not in row.type and row.direction == "forward" and row.mean != 0


def _is_count(arm: ArmValues, n: int) -> bool:
    """Whether a number is an integer, also as a float: the parts' counts add up, and a mean of them divides each part.

    2 × the count of each of two parts has the mean that is the count of the whole: the total of a mean of means.
    """
    read = (leaf[1] for origin in arm.rows[n].origins for leaf in leaves(origin) if leaf[0] == "row")
    return any("int" in arm.rows[one].type for one in (n, *read))


def _describe_number(row: TensorRow, path: str) -> tuple[object, ...]:
    return row.operation, row.short_file, row.line, row.output, path


@dataclass
class Divergence:
    """The tensors of `arm` that differ from the arm `other`. A row is given by its index in `arm.rows`."""

    arm: ArmValues
    other: ArmValues
    # values of the other arm, and of the layers that only the other arm stacks
    known: frozenset[str] = field(init=False)
    # rows that the other arm lacks, and that change a result of the step: a sum in another order has other parts, too
    divergent: frozenset[int] = field(init=False)
    own_draws: OwnDraws = field(init=False)
    # divergent rows that lead to an equal loss: the arm computes it in another way, such as in parts of the batch
    proved: frozenset[int] = field(init=False)
    # if rows are proved, the order of both programs tells little: rows on which differing results depend that the
    # forward pass makes, such as losses
    of_results: frozenset[int] = field(init=False)
    # the rows where differences begin: divergent rows whose inputs are proved or in the other arm too, and random draws
    # with keys that only this arm has
    frontier: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        rows = self.arm.rows
        stacked = [layers for shape, layers in self.other.stacks if shape not in self.arm.shapes]
        self.known = self.other.values | {name for layers in stacked for axis in layers for name in axis}
        self.divergent = self.arm.step.reach(lambda n: not self._has_row(n))
        self.own_draws = find_own_draws(self.arm, self.other)
        theirs = {key: self.other.rows[n].value for key, n in self.other.forward_results.items()}
        common = {n: rows[n].value == theirs[key] for key, n in self.arm.forward_results.items() if key in theirs}
        equal = [n for n, is_equal in common.items() if is_equal]
        equal += [n for part in find_parts(self.other, self.arm) for n in part[1]]
        equal += [whole for whole, _ in find_parts(self.arm, self.other)]
        self.trust(self.divergent & self.arm.step.upstream(equal))
        differ = [n for n, is_equal in common.items() if not is_equal]
        self.of_results = self.arm.step.upstream(differ) if self.proved else frozenset()

    def trust(self, proved: frozenset[int]) -> None:
        """Search for the frontier behind these rows."""
        self.proved = proved
        self.frontier = tuple(n for n in sorted(self.divergent | self.own_draws.keys.keys()) if self._is_at_front(n))

    @cached_property
    def _seen_forward(self) -> frozenset[int]:
        """The divergent rows that change a result of the step by values, not only by gradients."""
        rows = self.arm.rows
        return self.arm.step.reach(lambda n: n in self.divergent and rows[n].direction == "forward")

    def is_detour(self, n: int) -> bool:
        """Whether a row of the forward pass changes no value beyond the divergent rows, only gradients."""
        return self.arm.rows[n].direction == "forward" and n in self.divergent and n not in self._seen_forward

    def is_behind_other(self, n: int) -> bool:
        """Whether rows are proved, and the other arm's rows of this line and operation differ from what they read on.

        Such as a layer of the whole batch, beside one of a part: the batch was split before.
        """
        return bool(self.proved) and _describe_number(self.arm.rows[n], "") in self._begun_there

    @cached_property
    def _begun_there(self) -> frozenset[tuple[object, ...]]:
        """The operations of the other arm that read a row which this arm lacks."""
        known, rows = self.arm.values, self.other.rows
        lacking = {n for n in self.other.step.live if rows[n].value not in known}
        return frozenset(
            _describe_number(rows[n], "")
            for n in lacking
            if any(leaf[0] == "row" and leaf[1] in lacking for at in rows[n].origins for leaf in leaves(at))
        )

    def _is_at_front(self, n: int) -> bool:
        if n in self.own_draws.keys or n in self.own_draws.derived:
            return n in self.own_draws.keys  # the rows that compute such a key do not count
        return n not in self.proved and all(map(self._common, self.arm.rows[n].origins))

    def _has_row(self, n: int) -> bool:
        """Whether the other arm has a row's value. That of any tensor times 0 tells nothing."""
        row = self.arm.rows[n]
        read = (leaf[1] for origin in row.origins for leaf in leaves(origin) if leaf[0] == "row" and not row.norm)
        if any(not self._is_known(one.value, one.shape, one.layers) for one in map(self.arm.rows.__getitem__, read)):
            return False
        return self._is_known(row.value, row.shape, row.layers)

    def _is_known(self, value: str, shape: str, layers: Layers) -> bool:
        """Whether the other arm has a value, or writes out the layers that are stacked in it."""
        if value in self.known:
            return True
        return shape not in self.other.shapes and any(all(name in self.known for name in axis) for axis in layers)

    def _has_argument(self, n: int) -> bool:
        stacked, argument = self.arm.step.stacked, self.arm.observation.arguments[n]
        shape = f"[{','.join(map(str, argument.shape))}]"
        return self._is_known(self.arm.step.arguments[n], shape, stacked[n] if stacked else ())

    def _common(self, origin: Origin) -> bool:
        return all(
            (leaf[1] not in self.divergent or leaf[1] in self.proved)
            if leaf[0] == "row"
            else self._has_argument(leaf[1])
            for leaf in leaves(origin)
            if leaf[0] in TENSORS
        )
