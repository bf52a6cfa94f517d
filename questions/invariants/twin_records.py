"""The records of invariants: the answer for one twin in one case, and all answers for one version of a trainer."""

from collections.abc import Iterator
from typing import Literal

from configs.frozen import Frozen
from tasks.records.function import name_result, show_relative
from tasks.records.text import counted

TwinAnswer = Literal["same", "another", "not evaluated", "not applicable"]
MARKS: dict[TwinAnswer, str] = {"same": "✓", "another": "✗", "not evaluated": "–", "not applicable": " "}


class TwinGap(Frozen):
    """How far one result of the right side is from the left side's, in float64."""

    state: str  # "step 0"
    role: str
    meaning: str
    float64: float  # relative to the result's size
    factor: float | None = None  # right = factor · left, exactly; None: no such factor

    @property
    def sentence(self) -> str:
        """The result with its difference, in words."""
        name = name_result(self.role, self.meaning)
        if self.factor is not None:
            return f"{name} is × {self.factor:.4g}, exactly" if self.factor else f"{name} is 0"
        return f"{name} differs by {show_relative(self.float64)}"


class TwinResult(Frozen):
    """The answer for one twin in one case."""

    twin: str
    title: str
    why: str  # why the sides must agree
    case: str
    answer: TwinAnswer
    sentence: str  # the figure; or why it was not evaluated, or does not apply
    is_excused: bool = False  # not evaluated because of a kernel without a float64 form, whatever the version
    gap: float | None = None  # the largest relative difference in float64
    gradients: float | None = None  # of all gradients together, at the first step
    results: int = 0  # number of compared results of a step
    gaps: tuple[TwinGap, ...] = ()  # the largest ones, at the first step that has any
    states: tuple[str, ...] = ()  # the names of the steps at which results differ
    unread: dict[str, str] = {}  # argument → the side whose program does not read it: "left", "right" or "neither"
    # the first tensor that differs, or the function that drops an argument, with file and line; empty: not looked for,
    # or not found
    first: str = ""
    # "key=value" of each side; None: the side is more than settings
    settings: tuple[tuple[str, ...] | None, tuple[str, ...] | None] = (None, None)
    digests: tuple[str, ...] = ()  # of each side's results: one that changed since another version computes other ones
    change: str = ""  # planted into the right side; empty: none
    seconds: float = 0.0


class Planted(Frozen):
    """One change planted into the right side's program, and whether the invariants saw it."""

    twin: str
    case: str
    change: str  # what was changed, and where
    is_fault: bool  # False: a refactoring that computes the same
    is_reported: bool | None  # as another function; None: the changed program cannot be run
    sentence: str


class InvariantsRecord(Frozen):
    """All answers for one version of a trainer."""

    id: str
    trainer: str
    version: str  # for people: "main 7c1d2e3f4", "MaxText 0.2.5"
    commit: str | None = None
    created: str  # ISO 8601
    results: tuple[TwinResult, ...]
    planted: tuple[Planted, ...] = ()
    broke: dict[str, str] = {}  # "twin case" → the first version at which it was found broken, after it had held
    next: str = ""  # the next useful command
    seconds: float = 0.0

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases, in their order."""
        return tuple(dict.fromkeys(one.case for one in self.results))

    @property
    def twins(self) -> tuple[str, ...]:
        """The names of the twins, in their order."""
        return tuple(dict.fromkeys(one.twin for one in self.results))

    def having(self, *answers: TwinAnswer) -> Iterator[TwinResult]:
        """Yield the results with one of the answers."""
        return (one for one in self.results if one.answer in answers)

    @property
    def exit_status(self) -> int:
        """1 if a twin computes another function; else 3 if one could not be evaluated, or none could; else 0.

        A kernel without a float64 form, in one twin, says nothing against a version whose other twins agree.
        """
        if any(self.having("another")):
            return 1
        lost = any(not one.is_excused for one in self.having("not evaluated"))
        return 3 if lost or not any(self.having("same")) else 0

    @property
    def headline(self) -> str:
        """The answer in one line."""
        tried = [*self.having("same", "another", "not evaluated")]
        of = self.cases[0] if len(self.cases) == 1 else counted(len(self.cases), "case")
        name = f"{of} · {self.version}"
        if broken := [*self.having("another")]:
            verb = "computes" if len(broken) == 1 else "compute"
            return f"{len(broken)} of {counted(len(tried), 'twin')} of {name}: {verb} another function"
        same = [*self.having("same")]
        if not tried:
            return f"no twin applies to {name}"
        if not same:
            return f"{counted(len(tried), 'twin')} of {name}: not evaluated"
        if len(same) == len(tried):
            number = {1: "1 twin", 2: "both twins"}.get(len(same), f"all {len(same)} twins")
            return f"{number} of {name}: same function"
        return f"{len(same)} of {counted(len(tried), 'twin')} of {name}: same function, the others not evaluated"
