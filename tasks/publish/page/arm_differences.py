"""Sorts the facts of both arms (commit, versions, devices, log, …) by their effect on the verdict, for the page."""

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


class FactRow(Frozen):
    """A fact that affects the verdict, from one finding."""

    name: str  # of the fact, or the finding's kind if the kind has none in FACTS
    baseline: tuple[tuple[str, Evidence | None], ...]  # values with their evidence; None: not from the finding
    candidate: tuple[tuple[str, Evidence | None], ...]
    meaning: str  # the finding's message
    effect: Effect


class Facts(Frozen):
    """The facts of both arms, by their effect on the verdict."""

    weighing: tuple[FactRow, ...]  # with an effect, the most severe first
    differing: tuple[tuple[str, str, str], ...]  # name and both values; different, but without an effect
    equal: tuple[tuple[str, str], ...]  # name and value


def compare_facts(record: ComparisonRecord) -> Facts:
    """Return the facts of both arms. If an arm died, there is no verdict: only `differing` is filled."""
    left, right = dict(facts_of(record.baseline)), dict(facts_of(record.candidate))
    known = {name: (left.get(name, "—"), right.get(name, "—")) for name in dict.fromkeys([*left, *right])}
    if record.programs is None:  # a compile's log has no steps, so the share of read steps means nothing
        known["log"] = describe_coverage(record.baseline), describe_coverage(record.candidate)
    differing = tuple((name, *both) for name, both in known.items() if both[0] != both[1])
    if record.has_died:
        return Facts(weighing=(), differing=differing, equal=())
    told = {FACTS.get(finding.kind) for finding in record.findings}
    found = [_row(finding, record, known) for finding in record.findings]
    return Facts(
        weighing=tuple(sorted(found, key=lambda row: get_args(Effect).index(row.effect))),
        differing=tuple(row for row in differing if row[0] not in told),
        equal=tuple((name, both[0]) for name, both in known.items() if both[0] == both[1]),
    )


def _row(finding: Finding, record: ComparisonRecord, known: dict[str, tuple[str, str]]) -> FactRow:
    fact = FACTS.get(finding.kind, "")

    def show(side: str, text: str) -> tuple[tuple[str, Evidence | None], ...]:
        found = [item for item in finding.evidence if name_side(record, item.arm) == side]
        shown = tuple((visible(format_moment(item.value) or "—"), item) for item in found)
        return shown or (((text, None),) if text else ())

    baseline, candidate = known.get(fact, ("", ""))
    return FactRow(
        name=visible(fact or finding.kind.replace("-", " ")),
        baseline=show("baseline", baseline),
        candidate=show("candidate", candidate),
        meaning=visible(finding.message),
        effect=finding.effect,
    )
