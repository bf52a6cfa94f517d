"""Records of the completeness of a log reading, of stalled steps, and of waits outside the steps."""

from configs.schema import Frozen
from tasks.records.source import run_number


class Stall(Frozen):
    """A training step that took far longer than its neighbours, and the cause."""

    step: int
    seconds: float  # of the whole step
    cause: str  # "compile", "restart", "dispatch", "checkpoint", "eval", "profiler" or "unexplained"
    line: int  # of the step's line in the log
    offset: int  # byte offset of that line
    run: int = run_number()


class Wait(Frozen):
    """One wait in a log that the printed seconds of the steps do not contain."""

    part: str  # one of "waits for saves", "blocking saves", "wait at the end", "evaluation at the end"
    seconds: float
    line: int  # of the message with the wait
    offset: int  # byte offset of that line


class UnreadLine(Frozen):
    """A line that looks like a step line but was not parsed, because a number in it may be cut off."""

    line: int  # 1-based
    offset: int  # byte offset
    text: str  # beginning of the line


class Coverage(Frozen):
    """The completeness of a log reading: the lines that look like data, and how many of them were parsed."""

    step_lines_seen: int = 0  # number of lines that look like step lines
    step_lines_parsed: int = 0  # number of them that were parsed
    gaps: tuple[tuple[int, int], ...] = ()  # ranges (first, last) of missing steps
    lost: tuple[str, ...] = ()  # notes of maxview's launcher in the log about lines that it could not read
    rewinds: int = 0  # number of step lines whose step is not larger than the step before
    glued_lines: int = 0  # number of lines that contain several records, e.g. from two processes
    truncated: bool = False  # the log ends within a line, without the run's end
    unknown_keys: tuple[str, ...] = ()  # keys in step lines that the parser does not know
    complete: bool = False  # the log shows the run's end, is not truncated, and every step line was parsed
    unwrapped: tuple[str, ...] = ()  # formats that were removed from around the log, e.g. "gzip", "kubectl prefixes"
    unread: tuple[UnreadLine, ...] = ()  # the first few unparsed step lines
