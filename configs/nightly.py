"""Loads and validates configs/nightly.yml: comparisons, limits of parallel runs, owners and quarantined cases."""

from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from configs.comparison import MAX_REPEATS, Count, Name, Named, find_missing, load_comparison
from configs.errors import ConfigError, Problems, suggest
from configs.frozen import Frozen
from configs.load import explain_errors
from configs.names import BLESSED
from configs.read import CONFIG_ROOT, origin_of, read_duration, read_yaml, to_python

FILE = "nightly.yml"
PREVIOUS = "previous"  # value of `baseline`: the commit that the last nightly compared
DEFAULT = "default"  # key in `owners`: the owner of all other cases

Text = Annotated[str, Field(min_length=1)]


def _check_duration(text: str) -> str:
    read_duration(text)
    return text


class NightlyComparison(Frozen):
    """One comparison to run every night.

    `baseline`, `branch`: refs of its two arms (the compared versions). `baseline` may also be PREVIOUS or BLESSED.
    None: the value in the comparison's file.
    """

    name: Name
    branch: Text | None = None
    baseline: Text | None = None
    repository: Text | None = None
    repeats: Annotated[Count, Field(le=MAX_REPEATS)] | None = None


class Quarantine(Frozen):
    """A case known to be broken: it is run and shown, but its outcome is ignored up to and including the day `until`.

    `comparison`: the only comparison in which the case is ignored; None: all.
    """

    case: Name
    comparison: Name | None = None
    why: Text
    until: date


class Nightly(Frozen):
    """The contents of `configs/nightly.yml`."""

    target: Name
    comparisons: Annotated[tuple[NightlyComparison, ...], Field(min_length=1)]
    slices: dict[Name, Count] = {}  # target → limit of parallel runs
    owners: dict[Name, Text] = {}  # case → owner
    quarantine: tuple[Quarantine, ...] = ()
    # a duration: repeat an undecided case, both arms in turns, within this time; None: the comparison's repeats alone
    until_decided: Annotated[str, AfterValidator(_check_duration)] | None = None
    # auto: bisect each case that regressed or died since the previous night, if there are commits in between
    bisect: Literal["auto"] | None = None
    # auto: evaluate the twins of each compared trainer (maxview invariants) in the night's cases
    invariants: Literal["auto"] | None = None
    bisect_budget: Annotated[str, AfterValidator(_check_duration)] = "2h"  # limit of run time for each bisected case
    # owner/name#12: the GitHub pull request or issue with one comment about the last night, updated every night
    comment: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+/[A-Za-z0-9._-]+#[0-9]{1,9}$")] | None = None

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [comparison.name for comparison in self.comparisons]
        if len(set(names)) != len(names):
            raise ValueError("comparisons: each once")
        return self

    def owner(self, case: str) -> str:
        """Return the owner of a case, or the default owner; "" if there is neither."""
        return self.owners.get(case) or self.owners.get(DEFAULT, "")

    def quarantined(self, comparison: str, case: str, day: date) -> Quarantine | None:
        """Return the quarantine of a case on that day; None if it is not quarantined."""
        for item in self.quarantine:
            if item.case == case and item.comparison in (None, comparison) and day <= item.until:
                return item
        return None

    def slices_of(self, target: str) -> int:
        """Return the limit of parallel runs on a target, by default 1."""
        return self.slices.get(target, 1)


def load_nightly(path: Path | None = None, *, root: Path = CONFIG_ROOT) -> Nightly:
    """Return the nightly schedule in a file, by default `nightly.yml`.

    Raises ConfigError. References to missing comparisons, targets and cases are reported only if the types are right.
    """
    path = path or root / FILE
    data = read_yaml(path)
    try:
        nightly = Nightly.model_validate(to_python(data))
    except ValidationError as error:
        known = [*Nightly.model_fields, *NightlyComparison.model_fields, *Quarantine.model_fields]
        raise ConfigError(explain_errors(error, lambda keys: origin_of(data, path, keys), known)) from error
    problems = Problems()
    named: list[Named] = [("targets", nightly.target, ("target",))]
    named += [("targets", target, ("slices", target)) for target in nightly.slices]
    named += [("cases", case, ("owners", case)) for case in nightly.owners if case != DEFAULT]
    named += [("cases", item.case, ("quarantine", number)) for number, item in enumerate(nightly.quarantine)]
    problems.lines += find_missing(named, data, path, root)
    for number, item in enumerate(nightly.comparisons):
        where = origin_of(data, path, ("comparisons", number))
        spec = problems.attempt(partial(load_comparison, item.name, root=root))
        has_ref = item.branch or item.baseline not in (None, BLESSED) or item.repository
        if has_ref and spec is not None and not spec.has_refs:
            problems.lines.append(
                f"{where}: the arms of {item.name} are no refs: leave branch, baseline, repository out"
            )
    names = [item.name for item in nightly.comparisons]
    problems.lines += [
        f"{origin_of(data, path, ('quarantine', number))}: no comparison '{item.comparison}' here"
        f"{suggest(item.comparison, names)}"
        for number, item in enumerate(nightly.quarantine)
        if item.comparison is not None and item.comparison not in names
    ]
    problems.raise_any()
    return nightly
