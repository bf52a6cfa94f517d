"""Records of a night, which by default compares every case of the comparisons in configs/nightly.yml.

A cell is one case of one comparison in a night.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from configs.frozen import Frozen
from configs.verdict_rules import VerdictRules
from tasks.records.compared_case import Conclusion, Verdict
from tasks.records.plan import ArmOverrides

COUNTED = ("regressed", "changed", "failed")  # outcomes of a cell that make its night bad
MAX_TWINS = 3  # names in a line


type Outcome = Verdict | Literal["failed", "died"]


def name_cell(comparison: str, case: str, owner: str) -> str:
    """Return the name of a cell: `linen-vs-nnx 01_base (anna)`."""
    return f"{comparison} {case}" + (f" ({owner})" if owner else "")


class NightCell(Frozen):
    """One case of one comparison in a night, with its options and its owner."""

    comparison: str
    case: str
    owner: str = ""
    quarantine: str = ""  # the reason why its outcome is ignored; empty: it is not ignored
    repeats: int | None = None  # number of runs per arm; None: as in the comparison's file
    arms: ArmOverrides = ArmOverrides()  # refs, pinned to commits
    blessed: bool = False  # the runs in configs/baselines replace the first arm

    @property
    def title(self) -> str:
        """The comparison, the case and its owner, if any: `linen-vs-nnx 01_base (anna)`."""
        return name_cell(self.comparison, self.case, self.owner)


class NightPlan(Frozen):
    """A night: its cells in order. `id` is its day, with a number for later nights of a day: "2026-11-24.2"."""

    id: str
    created: str  # ISO 8601
    target: str
    slices: int  # limit of parallel runs
    overrides: tuple[str, ...] = ()  # key=value, for all runs
    request: str  # hash of the options: only a call with equal options resumes the night
    commits: dict[str, str] = {}  # comparison → its branch's commit: the next night's `previous` baseline
    cells: tuple[NightCell, ...] = ()
    comment: str | None = None  # owner/name#12: the pull request or issue to comment on; None: none
    rules: dict[str, VerdictRules] = {}  # comparison → its rules, read when the night was planned
    decide_budget_s: float | None = None  # seconds for the repeats of an undecided cell; None: do not repeat
    bisect_budget_s: float | None = None  # seconds of run time to bisect each new regression; None: do not bisect
    invariants: bool = False  # evaluate the twins of the compared trainers


class CellResult(Frozen):
    """The outcome of a cell. `failed`: the comparison could not be made, and `headline` gives the reason."""

    cell: NightCell
    outcome: Verdict | Literal["failed"]
    headline: str
    died: bool = False  # an arm died
    page: str = ""  # address of the comparison's page
    seconds: float = 0.0  # duration
    conclusion: Conclusion | None = None  # the verdict as fields; None if the comparison could not be made

    @property
    def word(self) -> Outcome:
        """The outcome as pages and messages show it."""
        return "died" if self.died else self.outcome

    @property
    def counts(self) -> bool:
        """Whether this result makes the night bad."""
        return self.outcome in COUNTED and not self.cell.quarantine


class NightTwins(Frozen):
    """The answer of invariants for the trainer of one comparison of a night."""

    comparison: str
    outcome: Literal["same", "another", "unknown", "failed"]  # failed: not published, and `headline` gives the reason
    headline: str
    broken: tuple[str, ...] = ()  # names of the twins that compute another function, with their cases
    page: str = ""  # address
    next: str = ""  # the next useful command

    @property
    def counts(self) -> bool:
        """Whether this answer makes the night bad."""
        return self.outcome in ("another", "failed")

    @property
    def line(self) -> str:
        """The answer in one line: the headline, and the names of the first twins that differ."""
        more = f" and {len(self.broken) - MAX_TWINS} more" if len(self.broken) > MAX_TWINS else ""
        return self.headline + (f": {', '.join(self.broken[:MAX_TWINS])}{more}" if self.broken else "")


class NightChange(Frozen):
    """A change since the previous night: a cell's outcome, a bisection's commit, or twins that differ."""

    kind: Literal["outcome", "bisected", "twins", "as stored"]  # "as stored": a line of an older version
    comparison: str = ""
    case: str = ""
    owner: str = ""
    outcome: Outcome | None = None  # of the cell; None for a bisection
    before: Outcome | None = None  # None: the cell is new
    text: str  # the headline of the comparison or of the bisection

    @property
    def cell(self) -> str:
        """The comparison, the case and its owner, if any: `linen-vs-nnx 01_base (anna)`."""
        return name_cell(self.comparison, self.case, self.owner)

    @property
    def line(self) -> str:
        """The change in one line, for messages."""
        if self.kind == "as stored":
            return self.text
        if self.kind == "bisected":
            return f"{self.cell}: bisected, which commit: {self.text}"
        if self.kind == "twins":
            return f"{self.comparison}: twins: {self.text}"
        return f"{self.cell}: {self.outcome}, {f'was {self.before}' if self.before else 'is new'}: {self.text}"


def read_older_line(value: Any) -> Any:
    """Return a change's data; the lines that older versions stored become changes of the kind `as stored`."""
    return {"kind": "as stored", "text": value} if isinstance(value, str) else value


# a change, also from a record in which it is a line
type StoredChange = Annotated[NightChange, BeforeValidator(read_older_line)]


class NightRecord(Frozen):
    """A finished night: every cell's result, and the changes since the previous night on the same target."""

    plan: NightPlan
    results: tuple[CellResult, ...]
    ended: str  # ISO 8601
    before: str | None = None  # the id of the previous night; None: there was none
    changes: tuple[StoredChange, ...] = ()  # of outcomes, of twins, then the commits that bisections found
    twins: tuple[NightTwins, ...] = ()

    @property
    def bad(self) -> tuple[CellResult, ...]:
        """The results that make the night bad."""
        return tuple(result for result in self.results if result.counts)

    @property
    def is_bad(self) -> bool:
        """Whether a result, or a twin that computes another function, makes the night bad."""
        return bool(self.bad) or any(one.counts for one in self.twins)
