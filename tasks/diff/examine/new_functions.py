"""Finds the lines that jit a new function object in each step of an observed loop: each object is compiled again."""

from tasks.records.explanation import CodeLine
from tasks.records.observation import Observation


def find_jits(observation: Observation) -> dict[CodeLine, int]:
    """Return the lines that jit a new function object in at least every second step, with the number of objects."""
    loop = observation.loop
    if loop is None:
        return {}
    return {
        CodeLine(file=short, line=line, function=function, path=path): count
        for path, line, function, short, count in loop.jits
        if path and 2 * count >= loop.calls
    }


def find_own_jits(observations: tuple[Observation, Observation]) -> tuple[CodeLine | None, CodeLine | None]:
    """Return for each arm the first such line of a function that does not do so in the other arm."""
    left, right = (find_jits(one) for one in observations)
    known = [{(line.file, line.function) for line in found} for found in (left, right)]
    first, second = (
        next((line for line in found if (line.file, line.function) not in known[1 - side]), None)
        for side, found in enumerate((left, right))
    )
    return first, second
