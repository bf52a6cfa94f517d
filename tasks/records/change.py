"""Records of a change between two checkouts: its statements, the lines that ran, and what a comparison covered."""

from typing import Literal

from configs.frozen import Frozen
from tasks.records.later_steps import LaterSteps

StatementKind = Literal["code", "function", "class", "definition", "import"]
Side = Literal["baseline", "candidate"]


class ChangedStatement(Frozen):
    """A statement that only one of two checkouts has: added or changed in the candidate, removed from the baseline."""

    side: Side
    file: str  # path below the checkout, with slashes
    first: int  # its lines, 1-based
    last: int
    end: int = 0  # the last line of the function or class whose header it is
    count: int = 1  # of its lines that differ, at least 1
    kind: StatementKind  # function, class: its header; definition, import: runs when its module is imported
    function: str = ""  # qualified name of the function or class that contains it, or whose header it is
    entries: int = 0  # of the mapping that a definition makes
    names: tuple[str, ...] = ()  # names that it binds
    own: tuple[str, ...] = ()  # those of them that are its function's own
    guard: int = 0  # line of the innermost condition or loop around it, in its function; 0: none
    lambdas: tuple[int, ...] = ()  # changed lines on which lambdas begin
    prints: bool = False  # whether it prints or logs, and does nothing else
    text: str = ""  # its first line


class ChangedCode(Frozen):
    """The difference of two checkouts, as far as the trainer may read it."""

    statements: tuple[ChangedStatement, ...] = ()  # of Python, without comments, docstrings and layout
    replaced: tuple[ChangedStatement, ...] = ()  # of the baseline, in whose place the candidate has others
    others: tuple[str, ...] = ()  # other files that differ
    unread: str = ""  # why a file cannot be compared, as a sentence

    @property
    def files(self) -> tuple[str, ...]:
        """All files with a difference."""
        return tuple(sorted({one.file for one in self.statements} | set(self.others)))


class RanLines(Frozen):
    """The lines of a checkout that the processes of one arm executed."""

    lines: dict[str, frozenset[int]] = {}  # file -> executed lines
    functions: dict[str, frozenset[tuple[str, int]]] = {}  # file -> (qualified name, first line) of started functions
    ways: dict[str, tuple[tuple[int, frozenset[bool]], ...]] = {}  # file -> (line of a condition, truths that it had)
    host: dict[str, frozenset[int]] = {}  # file -> lines that the host ran after the first recorded step
    opened: frozenset[str] = frozenset()  # changed files other than Python's
    problem: str = ""  # why the lines are not known


class UnseenLines(Frozen):
    """Changed lines that did not run."""

    file: str
    first: int
    last: int
    function: str = ""
    offset: int | None = None  # of the first line to that of its function; None: the function did not start
    case: str = ""  # a case that ran the function lately; empty: none is known


class ListedLine(Frozen):
    """A changed statement as the page lists it."""

    side: Side
    file: str
    line: int
    text: str
    ran: bool


class ChangeCoverage(Frozen):
    """What of a change a comparison covered, and what it did not. Sentences begin with a small letter."""

    lines: int = 0  # changed lines of code
    files: int = 0  # files with such lines
    ran: int = 0  # of the lines
    unseen: tuple[UnseenLines, ...] = ()
    listed: tuple[ListedLine, ...] = ()  # the first ones
    unknown: str = ""  # why the lines that ran are not known
    gaps: tuple[str, ...] = ()  # why "same" cannot be said: each alone makes the word *unknown*
    doubts: tuple[str, ...] = ()  # why "same" is likely and not sure
    on_host: bool = False  # whether the host's loop depends on the change, so that later steps may differ
    later: LaterSteps | None = None  # the host's calls of many steps; None: not compared

    @property
    def sentence(self) -> str:
        """How many of the changed lines ran: `14 changed lines in 3 files: 11 ran`; empty without any."""
        if not self.lines:
            return ""
        where = f"{self.lines:,} changed line{'s' * (self.lines > 1)} in {self.files} file{'s' * (self.files > 1)}"
        ran = "all ran" if self.ran == self.lines else f"{self.ran:,} ran"
        return f"{where}: {'not known which ran' if self.unknown else ran}"
