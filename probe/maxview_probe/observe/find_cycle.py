"""In: the tape of a recorded loop. Out: its `Cycle`, or the reason why there is none."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from maxview_probe.observe.cycle import Cycle, NoCycle, Place, Slot, Wire
from maxview_probe.observe.meaning import meaning_of
from maxview_probe.observe.tape import Entry, Tape, Value

LONGEST = 64  # calls of the step in a cycle


def find_cycle(tape: Tape, moved: Sequence[bool]) -> Cycle:
    """Return the cycle of a loop. Raises NoCycle.

    moved: whether the weights changed before each call of the step from the second on; may end early if they always do.
    """
    if tape.problem:
        raise NoCycle(tape.problem)
    _follow_first_values(tape)
    live = find_live(tape)
    # what a segment computes for the next one shows only there; the last segment is not complete
    usable = tape.segment - 1
    segments: list[list[Entry]] = [[] for _ in range(max(usable, 0))]
    for n in sorted(live):
        entry = tape.entries[n]
        if 0 <= entry.segment < usable:
            segments[entry.segment].append(entry)
    period = _find_period(segments, moved)
    cycles = [
        [entry for segment in segments[begin : begin + period] for entry in segment]
        for begin in range(0, usable - period + 1, period)
    ]
    if len(cycles[-1]) < len(cycles[0]):  # what it computes for the next cycle does not show yet
        cycles.pop()
    cycle = _wire(tape, period, cycles)
    evaluated = set(cycle.functions)
    others = Counter(one.name for one in tape.entries if not one.is_library and one.name not in evaluated)
    cycle.not_evaluated = list(others)
    return cycle


def find_live(tape: Tape) -> set[int]:
    """Return the entries on which a later state depends: a later call of the step, or an array that is carried on."""
    wanted: list[int] = []
    for entry in tape.entries:
        for number in entry.given:
            value = tape.values[number]
            is_carried = value.maker is not None and value.segment < entry.segment
            is_array = len(value.aval.shape) > 0 and not value.is_key  # a sum of losses is a number
            if entry.is_step or (is_carried and is_array and value.follows):
                wanted.append(number)
    live: set[int] = set()
    seen: set[int] = set()
    while wanted:
        number = wanted.pop()
        value = tape.values[number]
        if number in seen or is_given(value):
            continue
        seen.add(number)
        assert value.maker is not None
        if value.maker not in live:
            live.add(value.maker)
            wanted.extend(tape.entries[value.maker].given)
    return live | {n for n, one in enumerate(tape.entries) if one.is_step}


def _follow_first_values(tape: Tape) -> None:
    """Mark what depends on the state's first values as made from the state, as it is in later cycles.

    The first values are inputs. They are known by the same arguments of the same calls later, which are results.
    """
    keys, seen = _Keys(), Counter[Any]()
    following: dict[Any, set[int]] = {}  # a call by its program and its turn in its segment → arguments that follow
    every = []
    for entry in tape.entries:
        key = keys.of(entry)
        turn = seen[entry.segment, key]
        seen[entry.segment, key] += 1
        every.append((key, turn))
        following.setdefault((key, turn), set()).update(
            n for n, number in enumerate(entry.given)
            if tape.values[number].follows and tape.values[number].segment < entry.segment
        )  # fmt: skip
    for entry, place in zip(tape.entries, every, strict=True):
        for n in following[place]:
            value = tape.values[entry.given[n]]
            if value.maker is None:
                value.follows = True
        if any(tape.values[number].follows for number in entry.given):
            for number in entry.made:
                tape.values[number].follows = True


def is_given(value: Value) -> bool:
    """Whether a value is an argument of the cycle, and no result of the calls before it."""
    return value.maker is None or (value.bits is not None and not value.follows and not value.is_plain)


def _find_period(segments: Sequence[Sequence[Entry]], moved: Sequence[bool]) -> int:
    if len(segments) < 2:
        raise NoCycle(f"{len(segments) + 2} calls of the step were recorded, and a cycle shows from 4 on")
    keys = _Keys()
    shapes = [tuple(keys.of(entry) for entry in segment) for segment in segments]
    for period in range(1, min(len(segments) // 2, LONGEST) + 1):
        pairs = list(zip(shapes, shapes[period:], strict=False))
        whole = len(pairs) - (period - 1)  # later segments lack the entries whose results show in the next cycle only
        is_regular = all(a == b if n < whole else _is_part(b, a) for n, (a, b) in enumerate(pairs))
        if is_regular and _is_moved(moved, period):
            return period
    names = [
        " and ".join(dict.fromkeys(f"`{one.name}`" for one in segment if not one.is_library)) for segment in segments
    ]
    odd = next((n for n, shape in enumerate(shapes[1:], start=1) if shape != shapes[0]), None)
    if odd is None:
        raise NoCycle("the weights do not change in a regular cycle of calls")
    raise NoCycle(f"the loop changes at step {odd}: {names[odd] or 'eager operations'}")


def _is_part(part: Sequence[object], whole: Sequence[object]) -> bool:
    """Whether a sequence is another one without some of its members."""
    rest = iter(whole)
    return all(one in rest for one in part)


def _is_moved(moved: Sequence[bool], period: int) -> bool:
    """Whether the weights change once in each period; a rate of 0 may keep them where they are in the first."""
    if period == 1:
        return all(moved[1:])
    pattern = [number % period == 0 for number in range(1, len(moved) + 1)]
    return sum(moved) > 0 and list(moved) == pattern


class _Keys:
    """Gives equal keys to entries with equal programs."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._held: list[Any] = []

    def of(self, entry: Entry) -> tuple[Any, ...]:
        what = entry.jaxpr if entry.jaxpr is not None else entry.params
        if id(what) not in self._texts:
            self._held.append(what)
            self._texts[id(what)] = str(what)
        return entry.name, entry.is_step, self._texts[id(what)], len(entry.given)


def _wire(tape: Tape, period: int, cycles: list[list[Entry]]) -> Cycle:
    if len(cycles) < 2:
        raise NoCycle("too few calls of the step were recorded to see its cycle twice")
    positions = [{id(entry): n for n, entry in enumerate(cycle)} for cycle in cycles]
    every = [_wires_of(tape, cycles, positions, n) for n in range(len(cycles))]
    wires = every[1]
    for n, other in enumerate(every[2:], start=2):
        for place, wire in wires.items():
            if other[place] != wire:
                raise NoCycle(f"the loop changes in cycle {n}: {_argument(cycles[1], place)} has another origin")
    for place, wire in wires.items():
        if (wire.kind == "inside" or every[0][place].kind == "inside") and every[0][place] != wire:
            raise NoCycle(f"the first cycle differs: {_argument(cycles[1], place)} has another origin")
    grouped: dict[tuple[int, ...], list[Place]] = {}
    for place, wire in wires.items():
        if wire.kind != "inside":
            position, n = place
            grouped.setdefault(tuple(cycle[position].given[n] for cycle in cycles[1:]), []).append(place)
    cycle = Cycle(tape, period, cycles, [], {}, wires, [])
    for places in grouped.values():
        _add_slot(cycle, places)
    _find_unknown_makers(cycle)
    _join_batches(cycle)
    _name_results(cycle)
    return cycle


def _wires_of(
    tape: Tape, cycles: Sequence[Sequence[Entry]], positions: Sequence[dict[int, int]], number: int
) -> dict[Place, Wire]:
    found = {}
    for position, entry in enumerate(cycles[number]):
        for n, given in enumerate(entry.given):
            value = tape.values[given]
            wire = Wire("given")
            if not is_given(value):
                assert value.maker is not None
                maker = tape.entries[value.maker]
                if id(maker) in positions[number]:
                    wire = Wire("inside", (positions[number][id(maker)], value.output))
                elif number and id(maker) in positions[number - 1]:
                    wire = Wire("fed", (positions[number - 1][id(maker)], value.output))
                elif number:
                    raise NoCycle(f"{_argument(cycles[number], (position, n))} is older than a cycle")
            found[position, n] = wire
    return found


def _argument(entries: Sequence[Entry], place: Place) -> str:
    entry = entries[place[0]]
    name = entry.names[place[1]] if entry.names else f"argument {place[1]}"
    return f"{name} of `{entry.name}`"


def _add_slot(cycle: Cycle, places: list[Place]) -> None:
    tape = cycle.tape
    values = [[tape.values[entries[places[0][0]].given[places[0][1]]]] for entries in cycle.cycles]
    first = values[0][0]
    for position, n in places[1:]:
        other = tape.values[cycle.cycles[0][position].given[n]]
        if other is not first and not (first.bits is not None and np.array_equal(first.bits, other.bits)):
            raise NoCycle(f"{_argument(cycle.entries, places[0])} is one array later, and two in the first cycle")
    wire = cycle.wires[places[0]]
    if first.bits is None:
        raise NoCycle(f"the first value of {_argument(cycle.entries, places[0])} was not recorded")
    if wire.kind == "given":
        known = [one.bits for (one,) in values]
        if any(one is None for one in known):
            raise NoCycle(f"the values of {_argument(cycle.entries, places[0])} were not recorded")
        in_library = all(cycle.entries[position].is_library for position, _ in places)
        is_number = first.is_host and in_library and all(np.array_equal(known[0], one) for one in known)
        # zeros that the trainer keeps, to begin a sum with
        is_kept = not first.is_host and all(one is first for (one,) in values) and _is_uniform(first)
        if is_number or is_kept:
            cycle.constants.update(dict.fromkeys(places, first))
            return
    slot = Slot(_name_slot(cycle, places, values), values, wire.place, list(places))
    if wire.kind == "given":
        _find_gap(cycle, slot)
    cycle.slots.append(slot)


def _find_gap(cycle: Cycle, slot: Slot) -> None:
    """Note that the host computes an array of the state, if it does."""
    first, *later = (one for (one,) in slot.values)
    changed = [one.changed for one in later if one.changed]
    is_state = meaning_of(slot.name)[0] not in ("data", "random numbers", "counter")
    varies = any(not np.array_equal(one.bits, first.bits) for one in later)
    if not (is_state and varies) and not changed:
        return
    gap, size = max(changed, default=(0.0, 0.0))
    how = f", by {gap / size:.1g} of its size," if size else ""
    names = [one.name for one in cycle.entries if not one.is_library] or [cycle.entries[0].name]
    cycle.gaps.append(
        f"{slot.name} comes back changed from the host{how} between `{names[-1]}` and "
        f"`{cycle.entries[slot.uses[0][0]].name}`, and that was not evaluated"
    )


def _find_unknown_makers(cycle: Cycle) -> None:
    """Note new arrays of a weight's shape that no recorded operation made, and the host's numbers that vary.

    A program that the recorder cannot see may have made the arrays, as one that was loaded from a file.
    """
    shapes = {(one.values[1][0].aval.shape, one.values[1][0].aval.dtype) for one in cycle.slots if one.fed}
    for slot in cycle.slots:
        values = [one for (one,) in slot.values]
        first = values[0]
        if slot.fed or all(np.array_equal(first.bits, one.bits) for one in values):
            continue
        if not first.aval.shape and first.is_host and jax.numpy.issubdtype(first.aval.dtype, jax.numpy.floating):
            cycle.doubts.append(f"the host gives {slot.name}, whose values after cycle {len(values)} were not seen")
        is_like = (first.aval.shape, first.aval.dtype) in shapes and first.is_floats
        if is_like and any(one.maker is None for one in values):
            cycle.gaps.append(f"{slot.name} has the shape of a weight, and no recorded operation made it")


def _is_uniform(value: Value) -> bool:
    return not value.is_key and value.bits.size > 0 and bool((value.bits == value.bits.flat[0]).all())


def _name_slot(cycle: Cycle, places: Sequence[Place], values: Sequence[Sequence[Value]]) -> str:
    """Return a slot's name: of the step's argument, else a name with a role, else the first one."""
    named: list[tuple[bool, bool, int, str]] = []
    for position, n in places:
        entry = cycle.entries[position]
        if entry.names and not entry.is_library:
            named.append((not entry.is_step, meaning_of(entry.names[n])[0] == "data", len(named), entry.names[n]))
    held = next((cycle.tape.names[one.number] for (one,) in values[1:] if one.number in cycle.tape.names), "")
    name = min(named)[-1] if named else held or f"{cycle.entries[places[0][0]].name}[{places[0][1]}]"
    if held and meaning_of(name)[0] == "data" and meaning_of(held)[0] != "data":
        name = held
    if _is_counter([one for (one,) in values]):
        return f"{name}.step"
    return name


def _is_counter(values: Sequence[Value]) -> bool:
    """Whether values are numbers of the host that grow by one number from cycle to cycle."""
    first = values[0]
    if first.bits is None or first.aval.shape or not jax.numpy.issubdtype(first.aval.dtype, np.integer):
        return False
    if any(not one.is_host for one in values):
        return False
    gaps = {int(b.bits) - int(a.bits) for a, b in pairwise(values)}
    return len(gaps) == 1 and min(gaps) > 0


def _join_batches(cycle: Cycle) -> None:
    """Make one slot of the batches that repeated calls in one cycle take: their rows in the order of the calls."""
    groups: dict[Any, list[Slot]] = {}
    seen: Counter[tuple[int, str]] = Counter()
    turns = []
    for entry in cycle.entries:
        turns.append(seen[entry.segment, entry.name])
        seen[entry.segment, entry.name] += 1
    for slot in cycle.slots:
        position, n = slot.uses[0]
        entry, value = cycle.entries[position], slot.values[0][0]
        if slot.fed is None and value.aval.shape and not value.is_key and meaning_of(slot.name)[0] == "data":
            key = entry.name, turns[position], n, value.aval.shape[1:], str(value.aval.dtype)
            groups.setdefault(key, []).append(slot)
    for slots in groups.values():
        if len(slots) < 2 or len(slots) != cycle.period:
            continue
        values = [[one for slot in slots for one in slot.values[n]] for n in range(len(cycle.cycles))]
        joined = Slot(slots[0].name, values, None, [], [slot.uses for slot in slots])
        at = cycle.slots.index(slots[0])
        cycle.slots = [one for one in cycle.slots if one not in slots]
        cycle.slots.insert(at, joined)


def _name_results(cycle: Cycle) -> None:
    """Name the results that no entry of the cycle takes: the mean over repeated calls, of numbers."""
    used = {wire.place for wire in cycle.wires.values() if wire.place is not None}
    found: dict[tuple[str, int, int], list[Place]] = {}
    seen: Counter[tuple[int, str]] = Counter()
    for position, entry in enumerate(cycle.entries):
        turn = seen[entry.segment, entry.name]
        seen[entry.segment, entry.name] += 1
        if entry.is_library:
            continue
        for n, number in enumerate(entry.made):
            value = cycle.tape.values[number]
            own = cycle.tape.entries[value.maker] is entry if value.maker is not None else False
            if own and (position, n) not in used and not value.is_key:
                found.setdefault((entry.name, turn, n), []).append((position, n))
    for (name, turn, n), places in found.items():
        entry = cycle.entries[places[0][0]]
        value = cycle.tape.values[entry.made[n]]
        is_number = value.aval.shape == () and jax.numpy.issubdtype(value.aval.dtype, jax.numpy.floating)
        if cycle.period > 1 and not is_number:
            continue
        paths = getattr(entry.jaxpr.debug_info, "result_paths", None) or ()
        path = str(paths[n]).removeprefix("result") if len(paths) == len(entry.made) else f"[{n}]"
        more = f"[{turn}]" if turn else ""
        cycle.results[f"['{name}']{more}{path}"] = places
