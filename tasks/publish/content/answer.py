"""Writes the texts at the top of a comparison's page: title, summary and certainty.

An arm is one of the two compared versions.
"""

import re
from collections.abc import Sequence

from configs.schema import Frozen
from tasks.diff.decide import ONE_PROGRAM, ONE_RUN
from tasks.diff.next_step import find_deciding_row
from tasks.metrics.maxview_metrics import FINAL_LOSS
from tasks.metrics.result_metrics import LOSS
from tasks.metrics.table import METRICS
from tasks.publish.content.verdict_words import first_clauses, threshold_text
from tasks.records import ComparisonRecord, MetricDiff
from tasks.records.text import shorten, visible

MAX_TITLE_LENGTH = 120  # characters: two lines on a screen
NAMED = 4  # largest number of rows, or of metrics, in a list of the summary
FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')  # a stack frame in a traceback
# metric -> the curve that shows it
CURVES = {metric.name: metric.curve for metric in METRICS if metric.curve} | {FINAL_LOSS.name: LOSS.curve}


class Answer(Frozen):
    """The texts at the top of a page."""

    title: str
    sentence: str  # the result of `sum_up`
    sure: str  # how certain the verdict is; may be empty
    row: MetricDiff | None  # the row that decides the verdict; None if an arm died or no row decides
    curve: str  # id of the figure that is drawn first; empty without `row`


def answer_of(record: ComparisonRecord) -> Answer:
    """Return the texts at the top of a comparison's page."""
    row = None if record.has_died else find_deciding_row(record)
    return Answer(
        title=shorten_title(visible(record.headline)),
        sentence=sum_up(record),
        sure=tell_certainty(record, row),
        row=row,
        curve=CURVES.get(row.metric, row.metric) if row else "",
    )


def shorten_title(headline: str) -> str:
    """Return the first clauses of a headline that fit into MAX_TITLE_LENGTH characters; else cut its middle."""
    if len(headline) <= MAX_TITLE_LENGTH:
        return headline
    ends = [
        end.start()
        for end in re.finditer(r"(?:[;:.] | \()", headline)
        if MAX_TITLE_LENGTH // 3 < end.start() <= MAX_TITLE_LENGTH
    ]
    return headline[: max(ends)] if ends else shorten(headline, MAX_TITLE_LENGTH)


def sum_up(record: ComparisonRecord) -> str:
    """Return one sentence: the rows that are the same, and the unknown rows with one reason; empty if there are none.

    If an arm died, the sentence has the steps before the death that agree, and the arm that was measured.
    """
    if record.has_died:
        ended = [arm for arm in (record.baseline, record.candidate) if not arm.has_died]
        measured = f"the table has what {visible(ended[0].label)} measured" if ended else ""
        equal = [parity for parity in record.parities if parity.steps and parity.first is None]
        names = _list([visible(parity.metric) for parity in equal])
        steps = max((parity.steps for parity in equal), default=0)
        common = f"The {steps} steps before agree in {names}" if steps else "Nothing was compared" if ended else ""
        return f"{'; '.join(filter(None, (common, measured)))}." if common else ""
    alike = [visible(row.title) for row in record.rows if row.verdict == "same"]
    open_rows = [row for row in record.rows if row.verdict == "unknown"]
    parts = [f"{_list(alike)} {'is' if len(alike) == 1 else 'are'} the same"] if alike else []
    if open_rows:
        own = next((row for row in open_rows if row.group == "ours"), open_rows[0])
        is_blocked = any(finding.effect == "blocks" for finding in record.findings)  # the title has the reason
        why = "" if is_blocked else first_clauses(visible(own.reason))
        names = _list([visible(row.title) for row in open_rows])
        parts.append(f"{names} {'is' if len(open_rows) == 1 else 'are'} unknown{f': {why}' if why else ''}")
    return "; ".join(parts) + "." if parts else ""


# rows whose verdict comes from both steps in float64, if these could be compared
DECIDED_BY_FUNCTION = frozenset({"loss_per_step", "function", "values_per_step", "evaluations", "final_loss"})


def tell_certainty(record: ComparisonRecord, row: MetricDiff | None) -> str:
    """Return how certain the verdict is, and why; if an arm died, how certain the cause of death is.

    `row`: the deciding row. Unless an arm died, empty without it. Also empty for an unknown row without an interval,
    unless a finding blocks the verdict.
    """
    if record.has_died:
        dead = [arm for arm in (record.baseline, record.candidate) if arm.has_died]
        code = "" if dead[0].exit_code is None else f", and the exit code {dead[0].exit_code}"
        named = all(arm.cause_of_death for arm in dead)
        return (
            f"Certain: the log itself names the error{code}." if named else "Certain that it ended early, but not why."
        )
    if row is None:
        return ""
    if any(finding.effect == "blocks" for finding in record.findings):
        return "Certain that the two cannot be compared; whether the change itself makes a difference is unknown."
    if row.effect is None or row.effect_low is None or row.effect_high is None:
        if row.metric in DECIDED_BY_FUNCTION and record.function is not None:
            if record.function.answer == "another" and row.verdict != "unknown":
                return "Certain: from equal arguments, both steps compute different results in float64."
            if record.function.answer == "same" and row.verdict == "same":
                return "Certain: both steps compute one function in float64, where rounding falls to 1e-15."
        words = {"same": "that they agree", "unknown": ""}.get(row.verdict, "that they differ")
        return words and f"Certain {words}: both values stand in the logs."
    if row.evidence == ONE_PROGRAM:
        return "Certain: both sides run the same program, so any difference in time is noise."
    low, high = sorted((row.effect_low, row.effect_high))
    interval = f"between {100 * low:+.1f} % and {100 * high:+.1f} %"
    allowed = threshold_text(row)
    if row.verdict == "unknown":
        return f"Not sure yet: the difference is somewhere {interval}, and up to {allowed} would count as none."
    if row.verdict == "same":
        return f"Yes, to within {allowed}: the difference is {interval} with 99 % confidence, by {row.evidence}."
    if row.evidence != ONE_RUN:
        return f"Yes: the difference is {interval} with 99 % confidence, by {row.evidence}."
    least = f"{100 * min(low, high, key=abs):+.1f} %"
    return (
        f"Likely: by these two runs the difference is at least {least}, and up to {allowed} would not matter. "
        "One run of each cannot show whether something else disturbed one of them; a repeat can."
    )


def find_frame(lines: Sequence[str]) -> str:
    """Return the last stack frame in lines of a log, such as `utils/train_utils.py:217 in setup`; empty without one."""
    found = [match for line in lines for match in FRAME.finditer(line)]
    if not found:
        return ""
    path, line, function = found[-1].groups()
    return f"{'/'.join(path.split('/')[-3:])}:{line}" + (f" in {function}" if function else "")


def _list(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    listed = ", ".join(name.replace(",", "") for name in names[:NAMED])  # a comma in a name would split the name
    return listed + (f" and {more} more" if more > 0 else "")
