"""What was noticed about two arms, before config says what it does to the verdict."""

from collections.abc import Iterator
from typing import Any

from configs.findings import Effects, FindingKind
from configs.schema import Frozen
from tasks.diff.arms import ArmRuns
from tasks.diff.metric_row import Arms
from tasks.records import Evidence, Finding, Source

type Observations = Iterator["Observed"]


class Observed(Frozen):
    """A finding without its effect."""

    kind: FindingKind
    message: str
    evidence: tuple[Evidence, ...] = ()


def judge(observed: Iterator[Observed] | list[Observed], effects: Effects) -> list[Finding]:
    """The findings that are not ignored, those that block first."""
    order = ("blocks", "qualifies", "note")
    found = []
    for item in observed:
        effect = effects[item.kind]
        if effect != "ignore":
            found.append(Finding(kind=item.kind, effect=effect, message=item.message, evidence=item.evidence))
    return sorted(found, key=lambda finding: order.index(finding.effect))


def notice(kind: FindingKind, message: str, *shown: tuple[ArmRuns, object, Source | None]) -> Observed:
    """An observation with what arms show for it: a value each, and its place."""
    evidence = tuple(Evidence(arm=arm.name, value=str(value), source=place) for arm, value, place in shown)
    return Observed(kind=kind, message=message, evidence=evidence)


def show_each(arms: Arms, values: tuple[Any, Any], places: tuple[Source | None, Source | None]) -> tuple[Evidence, ...]:
    """The value of each arm that has one, with its place."""
    return tuple(
        Evidence(arm=arm.name, value=str(value), source=place)
        for arm, value, place in zip(arms, values, places, strict=True)
        if value is not None
    )


def compare(
    arms: Arms,
    kind: FindingKind,
    values: tuple[Any, Any],
    message: str,
    places: tuple[Source | None, Source | None] = (None, None),
) -> Observations:
    """An observation if both arms say something and not the same; `message` has a place for each value."""
    if None not in values and values[0] != values[1]:
        yield Observed(kind=kind, message=message.format(*values), evidence=show_each(arms, values, places))


def places_of(arms: Arms, name: str) -> tuple[Source | None, Source | None]:
    """Where the first run of each arm says a value of its environment or config."""
    return arms[0].reading.sources.get(name), arms[1].reading.sources.get(name)
