"""The cycle of a recorded loop, from one update of the weights to the next, as one function.

The function's arguments are the state and the data at the cycle's begin, its results the state at its end and what its
calls return besides. Calls that no later state depends on, such as evaluations, are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import jax

from maxview_probe.observe import jaxprs
from maxview_probe.observe.tape import Entry, Tape, Value

Place: TypeAlias = tuple[int, int]  # position of an entry in its cycle, and number of its argument or result


class NoCycle(ValueError):
    """The loop has no cycle, or none that can be evaluated; with a sentence."""


class Wire(NamedTuple):
    """Where an argument of an entry comes from."""

    kind: str  # "inside": of this cycle; "fed": of the cycle before; "given": of neither
    place: Place | None = None


@dataclass
class Slot:
    """One argument of the cycle's function."""

    name: str
    values: list[list[Value]]  # per cycle; several are the rows of one batch, from repeated calls
    fed: Place | None  # the result that is this argument of the next cycle
    uses: list[Place]
    parts: list[list[Place]] = field(default_factory=list)  # of a batch that repeated calls share: the uses of each


@dataclass
class Cycle:
    """A period of a loop. entries: of each complete cycle, in order."""

    tape: Tape
    period: int  # calls of the step
    cycles: list[list[Entry]]
    slots: list[Slot]
    constants: dict[Place, Value]  # numbers of the host that are equal in all cycles
    wires: dict[Place, Wire]
    not_evaluated: list[str]  # names of functions without effect on the state
    results: dict[str, list[Place]] = field(default_factory=dict)  # name → places of which it is the mean
    gaps: list[str] = field(default_factory=list)  # arrays that the host computes, a sentence each
    doubts: list[str] = field(default_factory=list)  # what only the recorded cycles show

    @property
    def entries(self) -> list[Entry]:
        """The entries of the cycle whose programs are evaluated."""
        return self.cycles[1]

    @property
    def functions(self) -> dict[str, int]:
        """Function → number of its results in one call; eager operations together."""
        found: dict[str, int] = {}
        for one in self.entries:
            if not one.is_library:
                found.setdefault(one.name, len(one.made))
        return found

    @property
    def eager(self) -> int:
        """The number of operations outside of jitted functions."""
        return sum(one.is_library for one in self.entries)

    @property
    def is_one_call(self) -> bool:
        """Whether the cycle is one call of the step."""
        return len(self.entries) == 1

    @staticmethod
    def fed_name(number: int) -> str:
        """Return the name of the result that is an argument of the next cycle."""
        return f"fed{number:05d}"

    def run_names(self) -> list[str]:
        """Return the names of the results of `run`."""
        return [self.fed_name(n) for n, slot in enumerate(self.slots) if slot.fed] + list(self.results)

    def run(self, *given: Any) -> dict[str, Any]:
        """Return the results by name: the state after the cycle, and the metrics."""
        arguments: dict[Place, Any] = {}
        for slot, value in zip(self.slots, given, strict=True):
            for place in slot.uses:
                arguments[place] = value
            rows = 0
            for n, places in enumerate(slot.parts):
                length = slot.values[1][n].aval.shape[0]
                part = jax.lax.slice_in_dim(value, rows, rows + length, axis=0)
                rows += length
                arguments.update(dict.fromkeys(places, part))
        made: dict[Place, Any] = {}
        for position, entry in enumerate(self.entries):
            operands = []
            for n in range(len(entry.given)):
                place = position, n
                wire = self.wires[place]
                if place in self.constants:
                    operands.append(_constant(self.constants[place]))
                else:
                    operands.append(made[wire.place] if wire.kind == "inside" else arguments[place])  # type: ignore[index]
            made.update({(position, n): one for n, one in enumerate(replay(entry, operands))})
        found = {self.fed_name(n): made[slot.fed] for n, slot in enumerate(self.slots) if slot.fed}
        for name, places in self.results.items():
            values = [made[place] for place in places]
            found[name] = values[0] if len(values) == 1 else sum(values[1:], values[0]) / len(values)
        return found


def _constant(value: Value) -> Any:
    kind = value.aval.dtype
    bits = value.bits if value.bits.dtype == kind else value.bits.view(kind)
    return bits.item() if getattr(value.aval, "weak_type", False) and not value.aval.shape else bits


def replay(entry: Entry, operands: Sequence[Any]) -> list[Any]:
    """Return the results of an entry for other operands, at its place in the trainer's source."""
    from jax._src import core, pjit, source_info_util  # no public way keeps a source line

    with source_info_util.user_context(entry.traceback):
        if entry.jaxpr is None:
            found = entry.primitive.bind(*operands, **entry.params)
            return list(found) if entry.primitive.multiple_results else [found]
        if entry.is_library and entry.params is not None:  # its equations have the lines of its first call
            params = {**entry.params, "donated_invars": (False,) * len(operands)}
            return list(pjit.jit_p.bind(*operands, **params))
    jaxpr, consts = jaxprs.open_body(entry.jaxpr)
    return list(core.eval_jaxpr(jaxpr, consts, *operands))


def structs(cycle: Cycle) -> Iterator[Any]:
    """Yield the type of each argument of the cycle's function."""
    for slot in cycle.slots:
        value = slot.values[1][0] if slot.fed else slot.values[0][0]
        shape = value.aval.shape
        if slot.parts:
            shape = (sum(one.aval.shape[0] for one in slot.values[0]), *shape[1:])
        sharding = value.sharding if isinstance(value.sharding, jax.sharding.NamedSharding) else None
        yield jax.ShapeDtypeStruct(
            shape, value.aval.dtype, sharding=sharding, weak_type=getattr(value.aval, "weak_type", False)
        )
