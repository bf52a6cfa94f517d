"""Turns a comparison of the two ends into the metric to bisect, or into the reason why nothing can be bisected."""

from tasks.bisect.questions import Question, worst_question
from tasks.bisect.search import MOST_OF_POINT
from tasks.bisect.terms import Finish, Limits, Train
from tasks.diff.repeat_rule import undecided_rows
from tasks.records import ComparisonRecord


def find_question(
    record: ComparisonRecord, runs: int, last: int, limits: Limits, spent_s: float
) -> Question | Train | Finish:
    """Return the worst row of the ends after `runs` runs of each, or one more run of both if that may decide."""
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
    limited = limits.budget_s is not None or limits.most_runs is not None
    within = (limits.most_runs is None or 2 * runs + 2 <= limits.most_runs) and (
        limits.budget_s is None or spent_s < limits.budget_s
    )
    if rows and within and runs < (MOST_OF_POINT if limited else limits.ends):
        return Train(points=(0, last), why="both ends")
    if not rows:
        improved = [row.title for row in record.rows if row.verdict == "improved"]
        if improved:
            why = f"bad is better than good ({improved[0]}): are --good and --bad swapped?"
        else:
            why = "good and bad are the same: good may be bad itself (name an earlier --good), or bad good"
        return Finish(outcome="no difference", why=why)
    row = max(rows, key=lambda row: row.runs_wanted or 0)
    more = f"; {row.runs_wanted} runs of each would probably decide" if row.runs_wanted else ""
    price = f" ({row.cost_text})" if row.cost_text else ""
    option = f": --max-runs {2 * row.runs_wanted + MOST_OF_POINT}" if row.runs_wanted else ""
    told = f"{row.title} {row.effect_text}".strip()
    why = f"no sure difference between good and bad after {runs} runs of each: {told}{more}{price}{option}"
    return Finish(outcome="no difference", why=why)
