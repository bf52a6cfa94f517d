"""Counts the executions of each computation of an HLO program in one step, from the trip counts of its loops."""

from graphlib import TopologicalSorter
from typing import NamedTuple

from tasks.programs.hlo import Computation, Instruction, Program


class Runs(NamedTuple):
    """A computation's executions in one step."""

    times: int  # number of executions
    loops: int  # largest number of nested loops around it
    fused: bool  # only run inside fusions; the fusion instruction has the cycles of its whole computation


def count_runs(program: Program) -> tuple[dict[str, Runs], int]:
    """Return name → executions of every reachable computation, and the number of loops with unknown trip counts.

    Loop conditions and reducers do not count as reachable. An unknown trip count is taken as 1. All branches of a
    conditional count as executed.
    """
    entry = next(one.name for one in program.computations.values() if one.is_entry)
    found = {entry: Runs(1, 0, False)}
    unknown = 0
    for name in filter(found.__contains__, _callers_first(program)):
        computation, here = program.computations[name], found[name]
        for one in computation.instructions.values():
            trips: int | None = 1
            if one.opcode == "while":
                trips = _count_trips(program, computation, one)
                unknown += trips is None
            for callee in _called(one):
                before = found.get(callee, Runs(0, 0, True))
                found[callee] = Runs(
                    times=before.times + here.times * (1 if trips is None else trips),
                    loops=max(before.loops, here.loops + (one.opcode == "while")),
                    fused=before.fused and (here.fused or one.opcode == "fusion"),
                )
    return found, unknown


def _callers_first(program: Program) -> list[str]:
    """Return the names of all computations, callers before callees. The text has them in another order."""
    callees = {
        name: [callee for one in computation.instructions.values() for callee in _called(one)]
        for name, computation in program.computations.items()
    }
    return [*TopologicalSorter(callees).static_order()][::-1]


def _called(one: Instruction) -> tuple[str, ...]:
    """Return the names of the computations that an instruction runs, without loop conditions and reducers."""
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


def _count_trips(program: Program, computation: Computation, loop: Instruction) -> int | None:
    """Return a loop's trip count: from the text or, if missing there, from its counter's start, limit and increment.

    None if one of these is no constant, or if the condition does not compare the counter with a limit.
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
    step = _read_step(program.computations[loop.calls["body"]], index)
    if start is None or not step:
        return None
    way = {"LT": limit - start, "LE": limit - start + 1, "GT": start - limit, "GE": start - limit + 1}.get(direction)
    return None if way is None else max(-(-way // abs(step)), 0)


def _find_compare(program: Program, condition: Computation) -> tuple[str, int, int] | None:
    """Return (direction, counter's index in the loop's state, limit) of a condition like `counter < limit`; else None.

    The direction is HLO's: LT, LE, GT or GE for conditions that `_count_trips` understands.
    """
    root = list(condition.instructions.values())[-1]
    names = list(root.operands)
    body = condition
    if root.opcode == "fusion":  # the comparison is inside; the fusion's operands are its parameters
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
    """Return the initial value of an element of a loop's state; None if it is no constant."""
    state = computation.instructions.get(loop.operands[0]) if loop.operands else None
    if state is None or state.opcode != "tuple" or index >= len(state.operands):
        return None
    one = computation.instructions.get(state.operands[index])
    while one is not None and one.opcode in ("copy", "bitcast", "copy-done", "copy-start") and one.operands:
        one = computation.instructions.get(one.operands[0])
    return _integer(one) if one is not None and one.opcode == "constant" else None


def _read_step(body: Computation, index: int) -> int | None:
    """Return the constant that a loop's body adds to an element of its state; None if it does not do that."""
    root = list(body.instructions.values())[-1]
    if root.opcode != "tuple" or index >= len(root.operands):
        return None
    step, one = 0, body.instructions.get(root.operands[index])
    while one is not None and one.operands:
        if one.opcode == "get-tuple-element":
            return step if one.attributes.partition("index=")[2].partition(",")[0] == str(index) else None
        operands = [body.instructions.get(name) for name in one.operands]
        if one.opcode in ("add", "subtract"):
            added = next((other for other in operands if other is not None and other.opcode == "constant"), None)
            if added is None or (number := _integer(added)) is None:
                return None
            step += number if one.opcode == "add" else -number
            one = next((other for other in operands if other is not None and other is not added), None)
        elif one.opcode in ("copy", "bitcast"):
            one = operands[0]
        else:
            return None
    return None


def _integer(one: Instruction) -> int | None:
    return int(one.literal) if one.literal.lstrip("-").isdigit() else None
