"""The signs, colours and words of verdicts, findings, deaths and metrics, the same on pages, terminal and Prefect.

An arm is one of the two compared versions.
"""

import re
from math import inf
from typing import Literal, NamedTuple

from tasks.diff.judge.metric_rows import ABSENT, DIED, NOT_JUDGED, show_difference
from tasks.diff.phrases.amounts import ONE_PROGRAM, ONE_RUN
from tasks.metrics.maxview_metrics import FINAL_LOSS
from tasks.metrics.memory_metrics import MEMORY_METRICS
from tasks.metrics.result_metrics import (
    DATA,
    EVALUATION,
    FINAL_STATE,
    FIRST_CALL,
    FUNCTION,
    LATER_STEPS,
    LOSS,
    ROUNDING,
    VALUES,
)
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import STEP_TIME, TIME_METRICS
from tasks.publish.content.row_values import show_percent
from tasks.records.compared_case import ArmSummary, ComparisonRecord, MetricDiff, Verdict
from tasks.records.run_end import DeathKind, LogError
from tasks.records.text import show_share, visible

RUN_TIMES = frozenset({"stall_s", "goodput"})  # rows about a run's time that is no step
DIGITS = 6  # significant digits of a decimal number in a difference
MAX_HEADING_LENGTH = 16  # characters of an arm's name in a narrow column
SHORT = 64  # characters of the first clauses of a text, unless the first clause alone is longer
MIN_SAID, MAX_CLAUSE_LENGTH = 24, 100  # characters; see `first_clauses`
MAX_REASON = 240  # characters; see `first_reasons`
SHOWN_ONLY = frozenset(
    metric.name for metric in METRICS if metric.verdict_of == STEP_TIME.name
)  # metrics that are shown without a verdict, because the step time decides for them
Effect = Literal["blocks", "qualifies", "note"]
type Outcome = Verdict | Literal["died", "failed"]  # died: an arm died; failed: the comparison could not be made


class Word(NamedTuple):
    """A sign, and its style in a terminal."""

    sign: str
    style: str


OUTCOMES: dict[Outcome, Word] = {
    "same": Word("=", "bold blue"),
    "improved": Word("✓", "bold green"),
    "regressed": Word("✗", "bold red"),
    "changed": Word("≠", "bold magenta"),
    "unknown": Word("?", "bold yellow"),
    "not judged": Word("·", "dim"),
    "died": Word("†", "bold red"),
    "failed": Word("✗", "bold red"),
}
WORST_FIRST: tuple[Verdict, ...] = ("regressed", "changed", "unknown", "improved", "same", "not judged")

# whether a floor (a level of the equality proof) holds (None: undecided) -> the verdict whose sign and colour it has
HOLDS: dict[bool | None, Verdict] = {True: "improved", False: "regressed", None: "unknown"}

EFFECTS: dict[Effect, Word] = {
    "blocks": Word("✗", "bold red"),
    "qualifies": Word("!", "bold yellow"),
    "note": Word("·", "dim"),
}

EFFECT_WORDS: dict[Effect, str] = {
    "blocks": "blocks the verdict",
    "qualifies": "qualifies the verdict",
    "note": "worth knowing",
}

# kind of death -> answer to "will running it again help?"
AGAIN: dict[DeathKind, str] = {
    "not_implemented": "No, not before it is implemented.",
    "device_oom": "No: it needs more memory than the device has.",
    "host_oom": "Only on a host with more memory.",
    "preempted": "Yes: the machine was taken away.",
    "nan": "No, on the same data and seed: the loss is not finite.",
    "shape_mismatch": "No: shapes or shardings do not fit.",
    "disk_full": "Yes, after you have made room on the disk.",
    "storage": "Perhaps: the storage failed, which may pass.",
    "configuration": "No: the configuration is wrong.",
    "timeout": "Perhaps, if something else kept the machine busy.",
    "killed": "Perhaps: it was killed from outside.",
    "cut_off": "Perhaps: the log ends without a reason.",
    "other": "Not known: the cause is of no known kind.",
}

# exceptions of Python that the program raises whenever it runs
OF_PROGRAM = frozenset(
    {
        "AttributeError",
        "ImportError",
        "IndentationError",
        "ModuleNotFoundError",
        "NameError",
        "SyntaxError",
        "TypeError",
    }
    | {"UnboundLocalError"}
)

INTERVAL = re.compile(r"\S+ % \([^()]+ … [^()]+\)")  # -0.29 % (-2.01 … +1.47)
# heading of a group of rows -> its metrics
FAMILIES: dict[str, frozenset[str]] = {
    "Speed": frozenset(
        {"tflops_per_device", "tokens_per_s", "avg_step_time_s", *(metric.name for metric in TIME_METRICS)} - RUN_TIMES
    ),
    "Numerics": frozenset(
        metric.name
        for metric in (
            DATA,
            FINAL_LOSS,
            LOSS,
            FUNCTION,
            LATER_STEPS,
            FIRST_CALL,
            EVALUATION,
            VALUES,
            ROUNDING,
            FINAL_STATE,
        )
    ),
    "Memory": frozenset({"memory_percent", "program_memory_gb", *(metric.name for metric in MEMORY_METRICS)}),
}
RUN = "Run"  # the group of all other rows


def tell_again(cause: LogError) -> str:
    """Return whether it helps to run the arm again, as a sentence."""
    if cause.kind == "other" and cause.type in OF_PROGRAM:
        return "No: the program itself is wrong."
    return AGAIN[cause.kind]


def without_sides(record: ComparisonRecord) -> ComparisonRecord:
    """Return the record as it is shown: where the two cannot be compared, no row is better or worse; it differs."""
    if record.has_died or not any(finding.effect == "blocks" for finding in record.findings):
        return record
    reason = "the two cannot be compared, so neither side is better"
    rows = (
        row.replace(verdict="changed", reason=f"{reason}; {row.reason}")
        if row.verdict in ("regressed", "improved")
        else row
        for row in record.rows
    )
    return record.replace(rows=tuple(rows))


def list_rows_to_explain(record: ComparisonRecord) -> list[MetricDiff]:
    """Return the rows whose verdict is neither `same` nor `not judged`; these need a reason."""
    return [row for row in record.rows if row.verdict not in ("same", NOT_JUDGED)]


def group_rows(record: ComparisonRecord) -> dict[str, list[MetricDiff]]:
    """Return heading → rows; compiles have one group. In each group, rows that MaxView lacks come first."""
    if record.programs:
        return {"The compiled step": list(record.rows)}
    groups: dict[str, list[MetricDiff]] = {name: [] for name in (*FAMILIES, RUN)}
    for row in sorted(record.rows, key=lambda row: row.group == "maxview"):
        groups[next((name for name, metrics in FAMILIES.items() if row.metric in metrics), RUN)].append(row)
    return {name: rows for name, rows in groups.items() if rows}


def name_row(row: MetricDiff) -> str:
    """Return a row's title, with its unit unless it is a row of MaxView, whose titles contain it."""
    return visible(f"{row.title} ({row.unit})" if row.unit and row.group == "ours" else row.title)


def name_verdict(outcome: Outcome) -> str:
    """Return an outcome with its sign: `✗ regressed`."""
    return f"{OUTCOMES[outcome].sign} {outcome}"


def tell_outcome(record: ComparisonRecord) -> str:
    """Return the outcome in words. If nothing was trained and nothing differs: `same function and time`, as asked."""
    outcome = outcome_of(record)
    return f"{outcome} {' and '.join(record.asked)}" if outcome == "same" and record.asked else outcome


def tell_verdict(record: ComparisonRecord) -> str:
    """Return `tell_outcome` with the outcome's sign: `= same function`."""
    return f"{OUTCOMES[outcome_of(record)].sign} {tell_outcome(record)}"


def outcome_of(record: ComparisonRecord) -> Outcome:
    """Return `died` if an arm died, else the verdict."""
    return "died" if record.has_died else record.verdict


def name_side(record: ComparisonRecord, arm: str) -> Literal["baseline", "candidate"] | None:
    """Return an arm's side; None for an unknown name."""
    if arm == record.baseline.name:
        return "baseline"
    return "candidate" if arm == record.candidate.name else None


def sides_of(record: ComparisonRecord) -> tuple[tuple[str, ArmSummary], tuple[str, ArmSummary]]:
    """Return both arms, each with its side."""
    return ("baseline", record.baseline), ("candidate", record.candidate)


def name_heading(record: ComparisonRecord, arm: str) -> str:
    """Return the name of an arm for a narrow column; its side if the name is long and the side known."""
    return visible(arm) if len(arm) <= MAX_HEADING_LENGTH else (name_side(record, arm) or visible(arm))


def cell_text(text: str, arm: ArmSummary) -> str:
    """Return the text of a value; if it is empty, a text that says that the arm died or has no value."""
    if text.strip():
        return visible(text)
    return DIED if arm.has_died else ABSENT


def show_cells(record: ComparisonRecord, row: MetricDiff) -> list[str]:
    """Return the texts of a row: name with unit, exact value of the baseline and of the candidate, difference."""
    return [
        name_row(row),
        cell_text(row.baseline_text, record.baseline),
        cell_text(row.candidate_text, record.candidate),
        difference_text(row),
    ]


def absent_text(record: ComparisonRecord) -> str:
    """Return a line that names the metrics without a value on either side; empty if there are none."""
    return f"No value on either side: {', '.join(map(visible, record.absent))}." if record.absent else ""


def difference_text(row: MetricDiff) -> str:
    """Return the difference in percent, else in its unit; a note in brackets tells of noise or of one run of each arm.

    A row of MaxView has its difference as MaxView prints it, and the percentage in brackets: `+0.056 (+4.0 %)`. It has
    no interval, because the step time has it.
    """
    percent, difference = show_percent(row), visible(row.difference_text)
    words = percent or _round_difference(row) or "—"
    notes = []
    if row.effect_text and row.group == "ours":
        words = visible(row.effect_text)
        if percent and row.effect_low is not None and row.effect_high is not None and INTERVAL.fullmatch(words):
            words = f"{percent} ({show_share(row.effect_low)} … {show_share(row.effect_high)})"  # as other surfaces
    elif row.group == "maxview" and percent and difference not in ("—", "0"):
        words, notes = difference, [percent]
    if row.metric not in SHOWN_ONLY:
        little = row.evidence == ONE_RUN and row.verdict in ("improved", "regressed", "changed")
        notes += [ONE_RUN] if little else ["noise"] if is_noise(row) else []
    return f"{words} ({'; '.join(notes)})" if notes else words


def is_noise(row: MetricDiff) -> bool:
    """Return whether the row's difference is only noise, because both sides run one program."""
    return row.evidence == ONE_PROGRAM and row.difference not in (None, 0)


def _round_difference(row: MetricDiff) -> str:
    """Return the difference in the metric's unit, with DIGITS significant digits, or whole if it has more."""
    if row.difference is None or row.decimals is None or not 1 <= abs(row.difference) < inf:
        return visible(row.difference_text)
    printed = round(row.difference, row.decimals)
    digits = len(str(int(abs(printed))))
    decimals = min(row.decimals, max(0, DIGITS - digits))
    return show_difference(printed, decimals, thousands="" if row.group == "maxview" else ",")


def threshold_text(row: MetricDiff) -> str:
    """Return the text of the threshold or, without a text, its number with the metric's unit; else empty."""
    if row.threshold_text or row.threshold is None:
        return visible(row.threshold_text)
    return f"±{row.threshold:g} {visible(row.unit)}".rstrip()


def first_clauses(text: str) -> str:
    """Return as many complete clauses as fit into SHORT characters, and at least one, without text in brackets.

    Clauses end at `;` or `:`. If the result would be longer than MAX_CLAUSE_LENGTH, or end at a `;` with fewer than
    MIN_SAID characters, it ends at the last comma between MIN_SAID and SHORT instead, if there is one.
    """
    while (bare := re.sub(r" ?\([^()]*\)", "", text)) != text:
        text = bare
    ends = [end.start() for end in re.finditer(r"[;:] |$", text)]
    commas = [end.start() for end in re.finditer(", ", text) if end.start() <= SHORT]
    best = max((end for end in ends if end <= SHORT), default=ends[0])
    if best > MAX_CLAUSE_LENGTH or (best < MIN_SAID and text[best:].startswith(";")):
        best = max((end for end in commas if end > MIN_SAID), default=best)
    return text[:best]


def first_reasons(text: str) -> str:
    """Return as many complete clauses as fit into MAX_REASON characters, and at least one: of a long list of reasons.

    Clauses end at `;`. Text in brackets stays: it may be a file and line.
    """
    ends = [end.start() for end in re.finditer("; |$", text)]
    return text[: max((end for end in ends if end <= MAX_REASON), default=ends[0])]


def unbroken(text: str, blank: str = "\u00a0") -> str:
    """Return the text with `blank` in place of the spaces around …, ± and ×, and between a number and its unit."""
    return re.sub(r" (?=[%…±×])|(?<=[…±×]) |(?<=\d) (?=(ms|s|[GM]i?B?|billion|steps?|values?)\b)", blank, text)


def format_moment(iso: str | None) -> str | None:
    """Return an ISO 8601 UTC time as `2026-01-31 12:00:00 UTC`, another text unchanged, None if there is no text."""
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)$", r"\1 \2 UTC", iso) if iso else None
