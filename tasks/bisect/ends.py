"""Chooses the metric to bisect from a comparison of good and bad (the ends), or gives the reason to stop."""

from tasks.bisect.questions import Question, worst_question
from tasks.bisect.terms import MOST_OF_POINT, Finish, Limits, Train
from tasks.diff.repeat_rule import undecided_rows
from tasks.records import ComparisonRecord

SAME = "good and bad are the same: good may be bad itself (name an earlier --good), or bad good"


def find_question(
    record: ComparisonRecord, runs: int, last: int, limits: Limits, spent_s: float
) -> Question | Train | Finish:
    """Return the worst row of the comparison, or one more run of both ends if it may decide, or the reason to stop.

    runs: number of each end's runs in `record`. last: index of the bad end. spent_s: seconds of all runs so far.
    """
    question = worst_question(record)
    if question is not None:
        return question
    if record.baseline.has_died:
        cause = record.baseline.cause_of_death
        told = f": {cause.summary}" if cause else ""
        return Finish(outcome="no difference", why=f"good died itself{told}: name an earlier --good")
    blocking = [finding.message for finding in record.findings if finding.effect == "blocks"]
    if blocking:
        return Finish(outcome="no difference", why=f"good and bad cannot be compared: {blocking[0]}")
    rows = undecided_rows(record)
    if rows and limits.allow(2 * runs + 2, spent_s) and runs < (MOST_OF_POINT if limits.are_given else limits.ends):
        return Train(points=(0, last), why="both ends")
    if rows:
        row = max(rows, key=lambda row: row.runs_wanted or 0)
        why = say_unsure(runs, f"{row.title} {row.effect_text}".strip(), row.runs_wanted, row.cost_text)
        return Finish(outcome="no difference", why=why)
    improved = [row.title for row in record.rows if row.verdict == "improved"]
    return Finish(outcome="no difference", why=say_better(improved[0]) if improved else SAME)


def say_better(text: str) -> str:
    """Return the message for a bad end that is better than good. text: the improved row."""
    return f"bad is better than good ({text}): are --good and --bad swapped?"


def say_unsure(runs: int, text: str, wanted: int | None, cost: str) -> str:
    """Return the message for a difference that is not significant. wanted: runs of each end that would decide."""
    more = f"; {wanted} runs of each would probably decide" if wanted else ""
    price = f" ({cost})" if cost else ""
    option = f" (--max-runs {2 * wanted + MOST_OF_POINT})" if wanted else ""
    return f"no sure difference between good and bad after {runs} runs of each: {text}{more}{price}{option}"
