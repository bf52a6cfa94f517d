"""Turns the facts of both arms, and the findings about them, into one table of differences and their effects."""

from collections.abc import Iterator
from typing import get_args

from configs.schema import Frozen
from tasks.publish.content.verdict_words import Effect, describe_coverage, facts_of, format_moment, name_side
from tasks.records import ComparisonRecord, Evidence, Finding
from tasks.records.text import visible

# kind of finding -> name of the fact that it is about
FACTS = {
    "same-commit": "commit", "different-commits": "commit", "different-commits-same-source": "commit",
    "jax-version": "JAX", "jaxlib-version": "jaxlib", "libtpu-version": "libtpu",
    "device-kind": "devices", "device-count": "devices", "mesh": "mesh", "host-process": "host process",
    "started-apart": "started", "died": "exit code",
    "incomplete-log": "log", "no-exit-code": "log", "unread-steps": "log", "missing-steps": "log", "lost-lines": "log",
    "restarted": "log",
}  # fmt: skip


class Shown(Frozen):
    """One arm's value of a fact, and its source."""

    text: str
    evidence: Evidence | None = None


class FactRow(Frozen):
    """A fact that affects the verdict: its value on each side, its meaning, and its effect."""

    name: str
    baseline: tuple[Shown, ...]
    candidate: tuple[Shown, ...]
    meaning: str
    effect: Effect


class Facts(Frozen):
    """The facts of both arms, by their effect on the verdict."""

    weighing: tuple[FactRow, ...]  # those that weigh most first
    differing: tuple[tuple[str, str, str], ...]  # name and both values of what differs and does nothing to the verdict
    equal: tuple[tuple[str, str], ...]


def compare_facts(record: ComparisonRecord) -> Facts:
    """Return the facts that differ and those that are equal; only the former if an arm died: there is no verdict."""
    known = _facts(record)
    if record.has_died:
        return Facts(
            weighing=(), differing=tuple((k, *both) for k, both in known.items() if both[0] != both[1]), equal=()
        )
    found = [_row(finding, record, known) for finding in record.findings]
    told = {FACTS.get(finding.kind) for finding in record.findings}
    return Facts(
        weighing=tuple(row for effect in get_args(Effect) for row in found if row.effect == effect),
        differing=tuple((name, *both) for name, both in known.items() if both[0] != both[1] and name not in told),
        equal=tuple((name, left) for name, (left, right) in known.items() if left == right),
    )


def _facts(record: ComparisonRecord) -> dict[str, tuple[str, str]]:
    left, right = dict(facts_of(record.baseline)), dict(facts_of(record.candidate))
    known = {name: (left.get(name, "—"), right.get(name, "—")) for name in dict.fromkeys([*left, *right])}
    if record.programs is None:  # a compiler's log has no steps
        known["log"] = describe_coverage(record.baseline), describe_coverage(record.candidate)
    return known


def _row(finding: Finding, record: ComparisonRecord, known: dict[str, tuple[str, str]]) -> FactRow:
    fact = FACTS.get(finding.kind)
    both = known.get(fact, ("", "")) if fact else ("", "")
    sides = [
        tuple(_evidence(finding, record, side)) or ((Shown(text=text),) if text else ())
        for side, text in zip(("baseline", "candidate"), both, strict=True)
    ]
    return FactRow(
        name=visible(fact or finding.kind.replace("-", " ")),
        baseline=sides[0],
        candidate=sides[1],
        meaning=visible(finding.message),
        effect=finding.effect,
    )


def _evidence(finding: Finding, record: ComparisonRecord, side: str) -> Iterator[Shown]:
    for item in finding.evidence:
        if name_side(record, item.arm) == side:
            yield Shown(text=visible(format_moment(item.value) or "—"), evidence=item)
