"""Turns a program into how often each of its computations runs in one step: compilers count a loop's body once."""

from typing import NamedTuple

from tasks.preflight.hlo import Computation, Instruction, Program


class Runs(NamedTuple):
    """How often a computation runs."""

    times: int
    loops: int  # that it stands in
    fused: bool  # a part of one instruction of whoever calls it, which has the cycles of all


def count_runs(program: Program) -> tuple[dict[str, Runs], int]:
    """The runs of every computation that is reached, and the number of loops whose trips could not be read.

    Those count once. Of a conditional every branch counts.
    """
    found: dict[str, Runs] = {}
    unknown = 0
    for computation in reversed(program.computations.values()):  # whoever calls stands behind whom it calls
        if computation.is_entry:
            found[computation.name] = Runs(1, 0, False)
        if computation.name not in found:
            continue
        here = found[computation.name]
        for one in computation.instructions.values():
            trips: int | None = 1
            if one.opcode == "while":
                trips = count_trips(program, computation, one)
                unknown += trips is None
            for name in _called(one):
                before = found.get(name, Runs(0, 0, True))
                found[name] = Runs(
                    times=before.times + here.times * (1 if trips is None else trips),
                    loops=max(before.loops, here.loops + (one.opcode == "while")),
                    fused=before.fused and (here.fused or one.opcode == "fusion"),
                )
    return found, unknown


def _called(one: Instruction) -> tuple[str, ...]:
    """The computations that run as a part of the program; what a reduction applies to its elements is none."""
    calls = one.calls
    match one.opcode:
        case "while":
            return (calls["body"],)
        case "fusion" | "async-start" | "call" | "call-start":
            return tuple(calls[role] for role in ("calls", "to_apply") if role in calls)
        case "conditional":
            return one.branches
        case _:
            return ()


def count_trips(program: Program, computation: Computation, loop: Instruction) -> int | None:
    """How often a loop goes round: what its condition compares a counter with, less where that begins.

    None where the condition is of another form.
    """
    if loop.known_trips is not None:
        return loop.known_trips
    condition = program.computations.get(loop.calls.get("condition", ""))
    if condition is None:
        return None
    compare = _find_compare(program, condition)
    if compare is None:
        return None
    direction, index, limit = compare
    start = _read_start(computation, loop, index)
    if start is None:
        return None
    match direction:
        case "LT":
            return max(limit - start, 0)
        case "LE":
            return max(limit - start + 1, 0)
        case "GT":
            return max(start - limit, 0)
        case "GE":
            return max(start - limit + 1, 0)
        case _:
            return None


def _find_compare(program: Program, condition: Computation) -> tuple[str, int, int] | None:
    """(direction, the counter's place in the loop's state, the limit) of `counter < limit` and its kind."""
    root = list(condition.instructions.values())[-1]
    names = list(root.operands)
    body = condition
    if root.opcode == "fusion":  # its parameters are the operands
        body = program.computations.get(root.calls.get("calls", ""), condition)
        root = list(body.instructions.values())[-1]
    if root.opcode != "compare" or len(root.operands) != 2:
        return None
    direction = root.attributes.partition("direction=")[2][:2]

    def follow(name: str) -> Instruction | None:
        one = body.instructions.get(name)
        if one is not None and one.opcode == "parameter" and body is not condition:
            place = int(one.literal)
            one = condition.instructions.get(names[place]) if place < len(names) else None
        while one is not None and one.opcode in ("copy", "bitcast") and one.operands:
            one = condition.instructions.get(one.operands[0])
        return one

    left, right = map(follow, root.operands)
    if left is None or right is None:
        return None
    if left.opcode == "constant":
        left, right = right, left
        direction = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}.get(direction, direction)
    place = left.attributes.partition("index=")[2].partition(",")[0]
    if left.opcode != "get-tuple-element" or right.opcode != "constant" or not place.isdigit():
        return None
    limit = _integer(right)
    return None if limit is None else (direction, int(place), limit)


def _read_start(computation: Computation, loop: Instruction, index: int) -> int | None:
    """The constant that an element of a loop's state begins with."""
    state = computation.instructions.get(loop.operands[0]) if loop.operands else None
    if state is None or state.opcode != "tuple" or index >= len(state.operands):
        return None
    one = computation.instructions.get(state.operands[index])
    while one is not None and one.opcode in ("copy", "bitcast", "copy-done", "copy-start") and one.operands:
        one = computation.instructions.get(one.operands[0])
    return _integer(one) if one is not None and one.opcode == "constant" else None


def _integer(one: Instruction) -> int | None:
    return int(one.literal) if one.literal.lstrip("-").isdigit() else None
