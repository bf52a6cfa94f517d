"""Judges the function of programs in a bisection: each point's step beside good's in float64, nothing was trained."""

from datetime import UTC, datetime
from pathlib import Path

from questions.bisect.posterior import ObservedRun
from questions.bisect.run_judge import RunJudge
from tasks.diff.examine.examine_steps import run_of
from tasks.experiments.recordings import record_arm
from tasks.experiments.same_function import compare_functions
from tasks.records.compared_case import Decision
from tasks.records.function import FunctionComparison
from tasks.records.observation import LOG
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord

KEY = "function"  # in a run's `program`: its step beside good's
GOOD = FunctionComparison(answer="same", sentence="good itself")


def compare_with_good(good: RunPlan, plan: RunPlan, folder: Path) -> RunRecord:
    """Return the record of a step compared with good's in float64. folder: for recordings and results."""
    began = datetime.now(UTC)
    recordings = folder / good.identity, folder / plan.identity
    found = GOOD
    if plan.identity != good.identity:
        place = folder / f"{good.identity}-{plan.identity}"
        found = compare_functions((good, plan), ("good", "this commit"), place, recordings)
    record = run_of(plan, record_arm(plan, recordings[1]), str(recordings[1] / LOG))
    dates = {"started": began.isoformat(timespec="seconds"), "ended": datetime.now(UTC).isoformat(timespec="seconds")}
    return record.replace(reading=record.reading.replace(**dates), program={KEY: found.model_dump(mode="json")})


class FunctionJudge(RunJudge):
    """See `terms.Judge`. A point computes good's function or another one; two other functions count as one."""

    @property
    def judges_time(self) -> bool:
        return False

    def failed(self, point: int) -> str:
        if why := self._failures.get(point, ""):
            return why
        found = self._function(point)
        return found.sentence if found is not None and found.answer == "not evaluated" else ""

    def observe(self, point: int) -> list[ObservedRun]:
        return []

    def compare(self, before: int, after: int, *, runs: int | None = None, shares: int = 1) -> Decision:
        pair = self._function(before), self._function(after)
        if pair[0] is None or pair[1] is None or "not evaluated" in (pair[0].answer, pair[1].answer):
            return Decision(verdict="unknown", reason="not evaluated")
        if pair[0].answer == pair[1].answer:
            return Decision(verdict="same", reason="the same function")
        return Decision(verdict="changed", reason=pair[1].sentence if pair[0].answer == "same" else pair[0].sentence)

    def _function(self, point: int) -> FunctionComparison | None:
        known = self._runs.get(point, ())
        return FunctionComparison.model_validate(known[-1].program[KEY]) if known else None
