"""The receipt of a reading, the steps in it that stalled, and the waits beside them."""

from configs.schema import Frozen
from tasks.records.source import run_number


class Stall(Frozen):
    """A step that took far longer than its neighbours, and why, if the log tells."""

    step: int
    seconds: float
    cause: str  # "compile", "restart", "dispatch", "checkpoint", "eval", "profiler" or "unexplained"
    line: int
    offset: int
    run: int = run_number()


class Wait(Frozen):
    """Time that passed beside the steps, in none of their seconds, and what the log calls it."""

    part: str  # as in `TimePart`: "waits for saves", "blocking saves", "wait at the end", "evaluation at the end"
    seconds: float
    line: int
    offset: int


class UnreadLine(Frozen):
    """Something that looks like a step line and was not read, because a number in it may have been cut."""

    line: int
    offset: int
    text: str  # how it begins


class Coverage(Frozen):
    """The receipt of a reading: how much of what looks like data was understood."""

    step_lines_seen: int = 0
    step_lines_parsed: int = 0
    gaps: tuple[tuple[int, int], ...] = ()  # (first, last) missing step
    lost: tuple[str, ...] = ()  # what our launcher noted about lines that it could not read
    rewinds: int = 0
    glued_lines: int = 0
    truncated: bool = False
    unknown_keys: tuple[str, ...] = ()
    complete: bool = False
    unwrapped: tuple[str, ...] = ()  # what was taken off around the text, e.g. "gzip", "kubectl prefixes"
    unread: tuple[UnreadLine, ...] = ()  # the first of the step lines that were seen and not parsed
