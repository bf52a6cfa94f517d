"""Defines observations about two arms (sides of a comparison).

The effect on the verdict, which the config adds, makes them findings.
"""

from collections.abc import Iterator
from typing import Any

from configs.findings import FindingKind
from configs.frozen import Frozen
from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.records.compared_case import Evidence
from tasks.records.shared_fields import Source

type Observations = Iterator["Observed"]


class Observed(Frozen):
    """A finding without its effect on the verdict."""

    kind: FindingKind
    message: str  # a clause that can stand in a headline
    evidence: tuple[Evidence, ...] = ()  # values of the arms, with their places in the logs
    claim: str = ""  # as in `Finding`


def notice(kind: FindingKind, message: str, *shown: tuple[ArmRuns, object, Source | None]) -> Observed:
    """Return an observation. Each item of its evidence is (arm, value, place in the log or None)."""
    evidence = tuple(Evidence(arm=arm.name, value=str(value), source=place) for arm, value, place in shown)
    return Observed(kind=kind, message=message, evidence=evidence)


def contrast(
    arms: Arms,
    kind: FindingKind,
    message: str,
    values: tuple[Any, Any],
    places: tuple[Source | None, Source | None] = (None, None),
) -> Observed:
    """Return an observation with each arm's value and its place in the log, without arms that have no value."""
    return notice(kind, message, *(shown for shown in zip(arms, values, places, strict=True) if shown[1] is not None))


def compare_values(
    arms: Arms,
    kind: FindingKind,
    values: tuple[Any, Any],
    message: str,
    places: tuple[Source | None, Source | None] = (None, None),
) -> Observations:
    """Yield an observation if both arms have a value and the values differ. `{}` in `message` stands for a value."""
    if None not in values and values[0] != values[1]:
        yield contrast(arms, kind, message.format(*values), values, places)


def places_of(arms: Arms, name: str) -> tuple[Source | None, Source | None]:
    """Return where each arm's first log prints the fact `name` (`jax`, `config.KEY`); None for an arm without it."""
    return arms[0].reading.sources.get(name), arms[1].reading.sources.get(name)
