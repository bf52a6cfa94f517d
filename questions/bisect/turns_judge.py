"""Judges the step time of programs in a bisection: each point's program took turns with good's, nothing was trained."""

from datetime import UTC, datetime
from math import inf
from pathlib import Path

from configs.errors import ConfigError
from questions.bisect.posterior import ObservedRun
from questions.bisect.run_judge import RunJudge
from tasks.diff.examine.examine_steps import run_of
from tasks.diff.judge.program_time_rows import STATED, decide_program, tolerance_of_program
from tasks.experiments.interleave import LIMIT_S, interleave, limits_of
from tasks.experiments.recordings import record_arm
from tasks.records.compared_case import Decision
from tasks.records.observation import LOG
from tasks.records.plan import RunPlan
from tasks.records.program_times import ProgramTimes, TimeRatio
from tasks.records.run import RunRecord

KEY = "turns"  # in a run's `program`: its times beside good's
LONGER = 5.0  # × the limit of the turns before, if they did not decide
EQUAL = TimeRatio(effect=0.0, low=0.0, high=0.0)


def time_beside_good(good: RunPlan, plan: RunPlan, folder: Path, *, among: int, number: int) -> RunRecord:
    """Return the record of a program's turns with good's program; good itself takes none.

    folder: for recordings and results. among: the number of points, which share the chance of a false alarm. number: of
    earlier turns of the point, which did not decide. Raises ConfigError if the plan runs on another machine.
    """
    if plan.backend != "local":
        remedy = "bisect the runs: --metric 'Step time, steady'"
        raise ConfigError([f"--metric time: {plan.target} is not this machine; {remedy}"])
    began = datetime.now(UTC)
    recordings = folder / good.identity, folder / plan.identity
    if plan.identity == good.identity:
        observation, times = record_arm(plan, recordings[1]), ProgramTimes(wall=EQUAL)
    else:
        limits = limits_of(good.rules, cases=among, limit_s=LIMIT_S * LONGER**number)
        place = folder / f"{good.identity}-{plan.identity}"
        place.mkdir(parents=True, exist_ok=True)
        times = interleave((good, plan), ("good", "this commit"), place, limits, recordings=recordings)
        observation = record_arm(plan, recordings[1])
    record = run_of(plan, observation, str(recordings[1] / LOG))
    dates = {"started": began.isoformat(timespec="seconds"), "ended": datetime.now(UTC).isoformat(timespec="seconds")}
    return record.replace(reading=record.reading.replace(**dates), program={KEY: times.model_dump(mode="json")})


class TurnsJudge(RunJudge):
    """See `terms.Judge`. A point's intervals hold for all points together, so they may be subtracted."""

    @property
    def judges_time(self) -> bool:
        return False  # one measurement of a point decides, as with a value that equal runs share

    def failed(self, point: int) -> str:
        if why := self._failures.get(point, ""):
            return why
        times = self._times(point)
        return times.problem if times else ""

    def observe(self, point: int) -> list[ObservedRun]:
        return []

    def compare(self, before: int, after: int, *, runs: int | None = None, shares: int = 1) -> Decision:
        pair = self._times(before), self._times(after)
        if pair[0] is None or pair[1] is None or pair[0].wall is None or pair[1].wall is None:
            return Decision(verdict="unknown", reason="not measured")
        wall = _subtract(pair[0].wall, pair[1].wall)
        tolerance = tolerance_of_program(self._rules) if self._rules else STATED
        decision = decide_program(pair[1].replace(wall=wall), tolerance)
        return decision.replace(reason=decision.effect_text)

    def _times(self, point: int) -> ProgramTimes | None:
        """Return the longest turns of a point, which were the last."""
        known = self._runs.get(point, ())
        return ProgramTimes.model_validate(known[-1].program[KEY]) if known else None


def _subtract(before: TimeRatio, after: TimeRatio) -> TimeRatio:
    """Return the difference of two points from their differences to good; its interval holds where both hold."""
    low = (1 + after.low) / (1 + before.high) - 1 if before.high < inf else -1.0
    high = (1 + after.high) / (1 + before.low) - 1 if before.low > -1 else inf
    return TimeRatio(effect=(1 + after.effect) / (1 + before.effect) - 1, low=low, high=high)
