"""Findings, rows and floors of two arms (compared versions) → the overall verdict and the headline."""

from collections.abc import Sequence

from tasks.diff.arms import Arms
from tasks.diff.decide import ONE_RUN
from tasks.diff.metric_rows import NOT_JUDGED
from tasks.diff.next_step import PER_STEP, find_time_row
from tasks.metrics.result_metrics import CHANGE
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import STEP_TIME
from tasks.records.compared_case import Finding, Floor, MetricDiff, Verdict
from tasks.records.plan import CodeVersion
from tasks.records.text import MEGA, show_number

WORDS: tuple[tuple[Verdict, str], ...] = (
    ("regressed", "{} regressed"),
    ("changed", "{} changed"),
    ("unknown", "not enough evidence for {}"),
    ("improved", "{} improved, nothing regressed"),
)
# rows that a headline names before times and memory
COMPUTED = frozenset(metric.name for metric in METRICS if metric.result)
# rows that share the verdict of another row; a headline names only that other row
SHARE_A_VERDICT = frozenset(metric.name for metric in METRICS if metric.verdict_of)


def conclude(
    arms: Arms,
    findings: Sequence[Finding],
    rows: Sequence[MetricDiff],
    floors: Sequence[Floor],
    host: str = "",
) -> tuple[Verdict, str]:
    """Return the overall verdict and the headline. A death decides, else a blocking finding, else the worst row.

    Rows that are not judged or whose change is allowed do not count.

    `host`: the explanation of a time difference between arms that run the same program; empty without one.
    """
    baseline, candidate = arms
    between = f"{candidate.label} against {baseline.label}"
    died = [finding.message for finding in findings if finding.kind == "died"]
    if died:
        return ("regressed" if candidate.dead and not baseline.dead else "unknown"), "; ".join(died)
    blocking = [finding.message for finding in findings if finding.effect == "blocks"]
    if blocking:
        return "unknown", f"not comparable: {blocking[0]}"
    qualifying = [finding.message for finding in findings if finding.effect == "qualifies"]
    more = f", and {len(qualifying) - 1} more" if len(qualifying) > 1 else ""
    qualified = f" (but {qualifying[0]}{more})" if qualifying else ""
    judged = [row for row in rows if row.verdict != NOT_JUDGED and not row.allowed]
    for verdict, words in WORDS:
        if not any(row.verdict == verdict for row in judged):
            continue
        uncovered = next((row for row in judged if row.metric == CHANGE.name and row.verdict == "unknown"), None)
        if verdict == "unknown" and uncovered is not None:
            return verdict, f"{between}: {uncovered.reason}{qualified}"
        together = ("regressed", "changed") if verdict == "regressed" else (verdict,)
        named = [row for row in judged if row.verdict in together]
        time = find_time_row(named, verdict)  # one number tells how long a step takes
        named = [row for row in named if row is time or row.metric not in PER_STEP]
        alone = [row for row in named if row.metric not in SHARE_A_VERDICT] or named
        by = f" (by {ONE_RUN})" if any(row.evidence == ONE_RUN for row in alone) and verdict != "unknown" else ""
        why = f": {host}" if host and any(row.metric == STEP_TIME.name for row in alone) else ""
        said = _worst_kind_first(alone) if verdict == "regressed" else words.format(_listed(list(map(_title, alone))))
        return verdict, f"{between}: {said}{by}{why}{qualified}"
    function = next((floor for floor in floors if floor.name == "same function" and floor.holds), None)
    if function is not None:
        return "same", f"{between}: same up to rounding: {function.evidence}{qualified}"
    held = [floor.name for floor in floors if floor.holds]
    failed = next((floor for floor in floors if floor.holds is False), None)
    proof = f" ({_listed(held)})" if held else ""
    if failed is not None:
        but = f'but the check "{failed.name}" failed: {failed.evidence}'
        return "same", f"{between}: every judged row is the same{proof}, {but}{qualified}"
    return "same", f"{between}: no difference{f': {_listed(held)}' if held else ''}{qualified}"


def _worst_kind_first(rows: Sequence[MetricDiff]) -> str:
    """Return the rows with their verdicts in words, results before costs.

    Example: `Loss, step by step changed; Step time, steady +5.1 % regressed`.
    """
    parts = []
    for computed in (True, False):
        for word in ("regressed", "changed"):
            titles = [_title(row) for row in rows if (row.metric in COMPUTED) == computed and row.verdict == word]
            parts += [f"{_listed(titles)} {word}"] if titles else []
    return "; ".join(parts)


def _title(row: MetricDiff) -> str:
    """Return the row's title with its effect or values: `Step time, steady +5.1 %`, `JAX 0.9.2 → 0.8.1`."""
    effect = row.effect_text.partition(" (")[0] if row.verdict in ("regressed", "improved") else ""
    values = dict.fromkeys((row.baseline_text, row.candidate_text))
    if row.baseline is not None and row.candidate is not None and min(row.baseline, row.candidate) >= MEGA:
        rounded = dict.fromkeys(map(show_number, (row.baseline, row.candidate)))
        values = rounded if len(rounded) == 2 else values
    if row.verdict == "changed" and all(values) and len(values) == 2:
        effect = " → ".join(values)
    return f"{row.title} {effect}".rstrip()


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def add_code_note(headline: str, code: Sequence[CodeVersion]) -> str:
    """Return the headline, with a note if two versions do not differ for the trainer."""
    if len(code) < 2:
        return headline
    left, right = code
    if left.sha == right.sha:
        return f"{headline} ({left.name} and {right.name} are one commit)" if left.name != right.name else headline
    if right.different == ():
        return f"{headline} (no file differs between the two)"
    if right.read == 0:
        return f"{headline} (no file that the trainer reads differs between the two)"
    return headline
