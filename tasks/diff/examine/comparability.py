"""Collects the findings on two arms (sides of a comparison), such as undeclared differences, deaths, incomplete logs.

The config gives each kind of finding its effect: it blocks or qualifies the verdict, is only a note, or is ignored.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from configs.findings import Effects, FindingKind
from tasks.diff.examine.arms import Arms
from tasks.diff.examine.contradictions import find_contradictions, find_same_log
from tasks.diff.examine.evaluations import find_lacking_evaluations
from tasks.diff.examine.parity import MetricParity
from tasks.diff.examine.run_events import find_deaths, find_reading_gaps, find_recompiles, find_starts_apart
from tasks.diff.examine.same_code import find_commits, find_other_code, find_other_trainers, find_shared_start
from tasks.diff.examine.settings_without_effect import find_missing_effects, find_variation
from tasks.diff.examine.undeclared_differences import find_environment_differences, find_work_differences
from tasks.records.compared_case import Finding

ORDER = ("blocks", "qualifies", "note")
# The other kinds need a trained run.
KINDS_WITHOUT_RUNS: frozenset[FindingKind] = frozenset({
    "same-commit", "other-trainer", "different-commits", "dirty-checkout",
    "other-source", "jax-version", "jaxlib-version", "libtpu-version", "package-version", "declared-software",
    "config", "inert", "seed",
})  # fmt: skip


def find_findings(
    arms: Arms,
    *,
    declared: frozenset[str],
    effects: Effects,
    aa: bool = False,
    parities: Sequence[MetricParity] = (),
) -> list[Finding]:
    """Return the findings that the config does not ignore, in the order in which they were looked for.

    `declared`: the config keys that are declared to differ; `effects`: kind of finding → effect on the verdict;
    `aa`: the arms should be equal; `parities`: the step-by-step comparisons, the loss first.
    """
    observed = chain(
        find_deaths(arms),
        find_same_log(arms, aa=aa),
        find_commits(arms, declared, aa=aa),
        find_other_trainers(arms),
        find_environment_differences(arms),
        find_other_code(arms),
        find_shared_start(arms),
        find_work_differences(arms, declared),
        find_contradictions(arms, parities),
        find_reading_gaps(arms),
        find_variation(arms, parities),
        find_missing_effects(arms, declared, parities),
        find_recompiles(arms),
        find_lacking_evaluations(arms),
        find_starts_apart(arms),
    )
    return [
        Finding(kind=item.kind, effect=effect, message=item.message, evidence=item.evidence, claim=item.claim)
        for item in observed
        if (effect := effects[item.kind]) != "ignore"
    ]


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, blocking ones first."""
    return sorted(findings, key=lambda finding: ORDER.index(finding.effect))
