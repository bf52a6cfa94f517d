"""Writes a loop's cycle as a recorded step: one program, its first arguments, and the data of each cycle."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from maxview_probe.observe import observation_files as files
from maxview_probe.observe.cycle import Cycle, NoCycle, Slot, structs
from maxview_probe.observe.jaxprs import open_body


def write_cycle(folder: Path, cycle: Cycle, surroundings: dict[str, Any], kept: Any) -> Any:
    """Write the cycle's recording into a new folder; return its ClosedJaxpr and first arguments.

    kept: returns the indices of the arguments that a lowered program reads. Raises NoCycle.
    """
    for slot in cycle.slots:
        first, later = slot.values[0], slot.values[1]
        if any((a.aval.shape, a.aval.dtype) != (b.aval.shape, b.aval.dtype) for a, b in zip(first, later, strict=True)):
            raise NoCycle(f"{slot.name} has another type in the first cycle")
    traced = jax.jit(cycle.run).trace(*structs(cycle))
    lowered = traced.lower()
    folder.mkdir(exist_ok=True)
    files.write_packed(folder / files.PROGRAM, lowered.as_text(debug_info=True))
    names = slot_names(cycle)
    files.write_arrays(folder / files.ARGUMENTS, names, [_bits(slot, 0) for slot in cycle.slots])
    given = [(name, slot) for name, slot in zip(names, cycle.slots, strict=True) if slot.fed is None]
    for number in range(1, len(cycle.cycles)):
        arrays = [_bits(slot, number) for _, slot in given]
        files.write_arrays(files.batch_file(folder, number), [name for name, _ in given], arrays)
    record = {
        **surroundings, "step": " and ".join(cycle.functions) or "the loop",
        "feeds": feeds_of(cycle), "kept": kept(lowered),
        "period": cycle.period, "own_counters": _find_own_counters(cycle, traced.jaxpr), "notes": [],
    }  # fmt: skip
    files.write_json(folder / files.OBSERVATION, record)
    return traced


def slot_names(cycle: Cycle) -> list[str]:
    """Return a name per argument of the cycle's function, all different."""
    return _different([slot.name for slot in cycle.slots])


def feeds_of(cycle: Cycle) -> list[int | None]:
    """Return for each argument the index of the result that becomes it; None without one."""
    results = sorted(cycle.run_names())
    return [results.index(cycle.fed_name(n)) if slot.fed else None for n, slot in enumerate(cycle.slots)]


def arguments_of(cycle: Cycle, number: int) -> list[Any]:
    """Return the arguments of the cycle's function in a cycle: the state after the cycles before it."""
    run = jax.jit(cycle.run)
    found = [_array(slot, 0) for slot in cycle.slots]
    for n in range(number):
        made = run(*found)
        found = [
            made[cycle.fed_name(place)] if slot.fed else _array(slot, n + 1) for place, slot in enumerate(cycle.slots)
        ]
    return found


def _array(slot: Slot, number: int) -> Any:
    """Return a slot's value in a cycle as an array of its type."""
    value, held = slot.values[number][0], _bits(slot, number)
    if value.is_key:
        return jax.random.wrap_key_data(held, impl=value.impl)
    return held if held.dtype == value.aval.dtype else held.view(value.aval.dtype)


def _find_own_counters(cycle: Cycle, closed: Any) -> list[int]:
    """Return the arguments that are whole numbers which only their own next values read, as a count of updates."""
    from jax._src.interpreters import partial_eval  # JAX has no public analysis of what a result reads

    jaxpr, results, found = open_body(closed)[0], sorted(cycle.run_names()), []
    for n, slot in enumerate(cycle.slots):
        aval = slot.values[0][0].aval
        if slot.fed and not aval.shape and jax.numpy.issubdtype(aval.dtype, jax.numpy.integer):
            _, read = partial_eval.dce_jaxpr(jaxpr, [name != cycle.fed_name(n) for name in results])
            if not read[n]:
                found.append(n)
    return found


def _bits(slot: Slot, number: int) -> Any:
    """Return the bits of a slot's value in a cycle; of several parts, their rows together."""
    values = [one.bits for one in slot.values[number]]
    return values[0] if len(values) == 1 else np.concatenate(values, axis=0)


def _different(names: Sequence[str]) -> list[str]:
    """Return names that are different, with equal meanings: the second of one name gets a blank behind it."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        found.append(name + " " * seen[name])
        seen[name] += 1
    return found
