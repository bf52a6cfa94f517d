"""Compares the facts of both arms, the same for page and terminal, and groups them by their effect on the verdict.

An arm is one of the two compared versions; a fact is a commit, a version, the devices, the completeness of the log, …
"""

from typing import get_args

from configs.frozen import Frozen
from tasks.publish.content.verdict_words import Effect, format_moment, name_side
from tasks.records.compared_case import ArmSummary, ComparisonRecord, Evidence, Finding
from tasks.records.text import visible

# kind of finding -> name of the fact that it is about; other kinds are about no fact
FACTS = {
    "same-commit": "commit", "different-commits": "commit",
    "jax-version": "JAX", "jaxlib-version": "jaxlib", "libtpu-version": "libtpu",
    "device-kind": "devices", "device-count": "devices", "mesh": "mesh", "host-process": "host process",
    "started-apart": "started", "died": "exit code",
    "incomplete-log": "log", "unread-steps": "log", "missing-steps": "log", "lost-lines": "log",
    "restarted": "log",
}  # fmt: skip


class FactRow(Frozen):
    """One finding about the comparability of the arms, with the fact that it is about."""

    name: str  # of the fact, or the finding's kind if the kind has none in FACTS
    baseline: tuple[tuple[str, Evidence | None], ...]  # (value, evidence); evidence is None if the finding has none
    candidate: tuple[tuple[str, Evidence | None], ...]
    meaning: str  # the finding's message
    effect: Effect


class ArmFacts(Frozen):
    """The facts of both arms, by their effect on the verdict."""

    weighing: tuple[FactRow, ...]  # facts with a finding, the most severe effect first
    differing: tuple[tuple[str, str, str], ...]  # name and both values of facts that differ, but have no finding
    equal: tuple[tuple[str, str], ...]  # name and value of equal facts, with or without a finding


def compare_facts(record: ComparisonRecord) -> ArmFacts:
    """Return the facts of both arms. If an arm died, there is no verdict, so only `differing` is filled."""
    left, right = dict(facts_of(record.baseline)), dict(facts_of(record.candidate))
    known = {name: (left.get(name, "—"), right.get(name, "—")) for name in dict.fromkeys([*left, *right])}
    if record.programs is None:  # a compile's log has no steps, so the share of read steps means nothing
        known["log"] = describe_coverage(record.baseline), describe_coverage(record.candidate)
    named = ("branch", "commit")  # the lines of the arms show them
    differing = tuple((name, *both) for name, both in known.items() if both[0] != both[1] and name not in named)
    if record.has_died:
        return ArmFacts(weighing=(), differing=differing, equal=())
    told = {FACTS.get(finding.kind) for finding in record.findings}
    found = [_fact_row(finding, record, known) for finding in record.findings]
    return ArmFacts(
        weighing=tuple(sorted(found, key=lambda row: get_args(Effect).index(row.effect))),
        differing=tuple(row for row in differing if row[0] not in told),
        equal=tuple((name, both[0]) for name, both in known.items() if both[0] == both[1]),
    )


def _fact_row(finding: Finding, record: ComparisonRecord, known: dict[str, tuple[str, str]]) -> FactRow:
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


def facts_of(arm: ArmSummary) -> list[tuple[str, str]]:
    """Return (name, value) of an arm's facts: commit, versions, devices, start, exit code, …; without unknown ones."""
    here = arm.environment
    devices = " × ".join(part for part in (str(here.num_devices or ""), here.device_kind or "") if part)
    mesh = ", ".join(f"{axis} {size}" for axis, size in (here.mesh or {}).items())
    pairs = [
        ("branch", arm.branch),
        ("commit", arm.commit and arm.commit[:9]),
        ("JAX", arm.jax or here.jax),
        ("jaxlib", here.jaxlib if here.jaxlib != (arm.jax or here.jax) else None),
        ("libtpu", here.libtpu),
        ("backend", here.backend),
        ("devices", devices),
        ("mesh", mesh),
        ("attention", arm.attention),
        ("host process", None if here.process_index is None else str(here.process_index)),
        ("ran on", here.place),
        ("exit code", None if arm.exit_code is None else str(arm.exit_code)),
        ("started", format_moment(arm.started)),
    ]
    return [(name, visible(value)) for name, value in pairs if value]


def describe_coverage(arm: ArmSummary) -> str:
    """Return one line about how completely the arm's log was written and read."""
    cover = arm.coverage
    seen = cover.step_lines_seen
    parts = [f"{cover.step_lines_parsed} of {seen} step lines read" if seen else "no step line"]
    parts += [f"steps {first}–{last} missing" for first, last in cover.gaps]
    parts += [f"{cover.rewinds} rewinds"] if cover.rewinds else []
    parts += [f"{cover.glued_lines} glued lines"] if cover.glued_lines else []
    parts += ["cut off"] if cover.truncated else []
    parts += [f"unknown keys: {', '.join(map(visible, cover.unknown_keys))}"] if cover.unknown_keys else []
    return "; ".join([*parts, "complete" if cover.complete else "not complete"])
