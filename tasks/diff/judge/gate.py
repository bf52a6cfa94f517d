"""Judges comparisons by a policy, the gate: which questions count, and by how much a cost may grow.

Without a gate every judged row counts. A gate names questions: `function`, `time=5%`, `memory`.
"""

import re
from collections.abc import Iterator, Sequence

from configs.errors import suggest
from configs.frozen import Frozen
from tasks.diff.judge.metric_rows import NOT_JUDGED
from tasks.diff.judge.next_step import PER_STEP, find_time_row
from tasks.metrics.memory_metrics import MEMORY_METRICS
from tasks.metrics.program_metrics import MEMORY
from tasks.metrics.result_metrics import CHANGE, DATA, EVALUATION, FIRST_CALL, FUNCTION, LATER_STEPS, LOSS, VALUES
from tasks.records.compared_case import ComparisonRecord, GateResult, MetricDiff
from tasks.records.text import show_share

PASSED, FAILED, OPEN = 0, 1, 3  # exit statuses
# question → its rows
ROWS: dict[str, frozenset[str]] = {
    "function": frozenset(
        one.name for one in (FUNCTION, LATER_STEPS, LOSS, VALUES, EVALUATION, FIRST_CALL, DATA, CHANGE)
    ),
    "time": frozenset(PER_STEP),
    "memory": frozenset(one.name for one in (MEMORY, *MEMORY_METRICS)),
}
COSTS = ("time", "memory")  # questions that may have a limit
LIMIT = re.compile(r"(\d+(?:\.\d+)?) ?%")


class GateRule(Frozen):
    """A question of a gate."""

    question: str  # of ROWS
    limit: float | None = None  # largest allowed increase, as a share; None: the tolerances of the comparison


def read_gate(words: Sequence[str]) -> tuple[GateRule, ...]:
    """Return the rules of `function`, `time=5%`, …; of several with commas, too. Raises ValueError."""
    return tuple(_read_rule(word.strip()) for given in words for word in given.split(",") if word.strip())


def _read_rule(word: str) -> GateRule:
    question, equals, limit = word.partition("=")
    if question not in ROWS:
        hint = suggest(question, list(ROWS))
        raise ValueError(f"--gate: '{word:.40}' is no question{hint}: function, time, time=5%, memory, memory=5%")
    if not equals:
        return GateRule(question=question)
    match = LIMIT.fullmatch(limit)
    if question not in COSTS or match is None:
        raise ValueError(f"--gate: '{word:.40}' has no limit such as 5%, which only {' and '.join(COSTS)} may have")
    return GateRule(question=question, limit=float(match[1]) / 100)


def judge_gate(record: ComparisonRecord, rules: Sequence[GateRule]) -> GateResult | None:
    """Return whether a comparison passes a gate; None without rules. The worst answer counts."""
    if not rules:
        return None
    name = ",".join(one.question + ("" if one.limit is None else f"={100 * one.limit:g}%") for one in rules)
    if record.has_died:
        return GateResult(name=name, status=FAILED, reason="an arm died")
    if any(finding.effect == "blocks" for finding in record.findings):
        return GateResult(name=name, status=OPEN, reason="the two cannot be compared")
    answers = [_answer(record, rule) for rule in rules]
    status = next((one for one in (FAILED, OPEN) if one in {answer for answer, _ in answers}), PASSED)
    return GateResult(name=name, status=status, reason="; ".join(text for _, text in answers))


def _answer(record: ComparisonRecord, rule: GateRule) -> tuple[int, str]:
    rows = [row for row in record.rows if row.metric in ROWS[rule.question] and not row.allowed]
    if rule.question == "time":  # one number answers it
        rows = [row for row in [find_time_row(rows, record.verdict)] if row is not None]
    judged = [row for row in rows if row.verdict != NOT_JUDGED]
    if not judged:
        return OPEN, f"{rule.question}: not measured"
    found = [(_judge(row, rule), row) for row in judged]
    for status in (FAILED, OPEN):
        if worst := [row for answer, row in found if answer == status]:
            return status, f"{rule.question}: {', '.join(_tell(worst, rule))}"
    return PASSED, f"{rule.question}: passed"


def _judge(row: MetricDiff, rule: GateRule) -> int:
    """Return the status of a row: by the limit if it has one, else by its verdict."""
    if rule.limit is None or row.verdict == "same":
        return {"regressed": FAILED, "changed": FAILED, "unknown": OPEN}.get(row.verdict, PASSED)
    low, high = _interval(row)
    if low is None or high is None:
        return OPEN
    return PASSED if high <= rule.limit else FAILED if low > rule.limit else OPEN


def _interval(row: MetricDiff) -> tuple[float | None, float | None]:
    """Return the ends of a row's increase, as a share of the baseline; equal ends if it was read exactly."""
    if row.effect_low is not None and row.effect_high is not None:
        return row.effect_low, row.effect_high
    if row.effect is None and row.verdict != "unknown" and row.baseline and row.candidate is not None:
        change = row.candidate / row.baseline - 1
        return change, change
    return None, None


def _tell(rows: Sequence[MetricDiff], rule: GateRule) -> Iterator[str]:
    for row in rows:
        low, high = _interval(row)
        if rule.limit is None or low is None or high is None:
            yield f"{row.title} {row.verdict}"
        else:
            share = f"{show_share(low)} %" if low == high else f"{show_share(low)} … {show_share(high)} %"
            yield f"{row.title} {share}, {100 * rule.limit:g} % allowed"
