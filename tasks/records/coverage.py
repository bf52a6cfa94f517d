"""The receipt of a reading, its stalled steps, and waits outside the steps."""

from configs.schema import Frozen
from tasks.records.source import run_number


class Stall(Frozen):
    """A step that took far longer than its neighbours, with the cause, if the log shows it."""

    step: int
    seconds: float
    cause: str  # "compile", "restart", "dispatch", "checkpoint", "eval", "profiler" or "unexplained"
    line: int
    offset: int
    run: int = run_number()


class Wait(Frozen):
    """Time outside the steps' seconds, with its name in the log."""

    part: str  # as in `TimePart`: "waits for saves", "blocking saves", "wait at the end", "evaluation at the end"
    seconds: float
    line: int
    offset: int


class UnreadLine(Frozen):
    """A line like a step line that was not read, because a number in it may be cut."""

    line: int
    offset: int
    text: str  # its beginning


class Coverage(Frozen):
    """The receipt of a reading: the lines that look like data, and how many were understood."""

    step_lines_seen: int = 0
    step_lines_parsed: int = 0
    gaps: tuple[tuple[int, int], ...] = ()  # (first, last) missing step
    lost: tuple[str, ...] = ()  # our launcher's notes about lines that it could not read
    rewinds: int = 0
    glued_lines: int = 0
    truncated: bool = False
    unknown_keys: tuple[str, ...] = ()
    complete: bool = False
    unwrapped: tuple[str, ...] = ()  # removed wrappings, e.g. "gzip", "kubectl prefixes"
    unread: tuple[UnreadLine, ...] = ()  # the first unparsed step lines
