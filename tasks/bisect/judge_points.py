"""Implements `terms.Judge` with run records: gives the search each point's times and failures, and compares points."""

from collections.abc import Callable, Mapping, Sequence
from math import log

from configs.comparison import Tolerance
from configs.noise import DeviceKind
from tasks.bisect.posterior import Observation
from tasks.bisect.questions import DIED, Question
from tasks.bisect.terms import Rated
from tasks.diff.arms import ArmRuns
from tasks.diff.compare_case import CaseRuns, compare_case
from tasks.diff.noise import Noise, Past, learn_noise
from tasks.diff.time_rows import kind_of
from tasks.metrics.compute_facts import facts_of
from tasks.metrics.result_metrics import CHECKPOINTS
from tasks.metrics.table import BY_NAME
from tasks.metrics.time_metrics import CPU_TIME
from tasks.records import CheckpointDifference, ComparisonRecord, RunRecord


class RunJudge:
    """The verdict rule applied to the runs of points; see `terms.Judge`.

    like: a template for the comparison of any two points, without runs. failures: point → reason why it cannot be
    judged. past: noise of earlier runs, by metric. compare_checkpoints: compares the checkpoints of a case's runs.
    """

    def __init__(
        self,
        question: Question,
        like: CaseRuns,
        runs: Mapping[int, Sequence[RunRecord]],
        *,
        failures: Mapping[int, str],
        past: Mapping[str, Past],
        compare_checkpoints: Callable[[CaseRuns], CheckpointDifference | None] | None = None,
    ) -> None:
        assert like.rules is not None
        self._question, self._like, self._rules, self._past = question, like, like.rules, past
        self._runs = {point: tuple(records) for point, records in runs.items() if records}
        self._failures, self._compare_checkpoints = failures, compare_checkpoints
        self._known: dict[tuple[int, int, int, int, int, int], Rated] = {}

    @property
    def varies(self) -> bool:
        return self._question.varies

    @property
    def noise(self) -> Noise:
        return learn_noise(self._rules.noises[self._kind], self._past.get(BY_NAME[self._question.metric].quick))

    @property
    def tolerance(self) -> Tolerance:
        """The largest difference of a time that counts as equal."""
        return self._rules.tolerance_of_time(BY_NAME[self._question.metric].tolerance, self._kind)

    @property
    def _kind(self) -> DeviceKind:
        arm = ArmRuns(name="", label="", runs=next(iter(self._runs.values())))
        return "cpu_time" if self._question.metric == CPU_TIME.name else kind_of((arm, arm))

    def runs(self, point: int) -> int:
        return len(self._runs.get(point, ()))

    def failed(self, point: int) -> str:
        """See Judge. If deaths are bisected, a point that died of another cause than the last point is not judged."""
        if why := self._failures.get(point, ""):
            return why
        dead = [run for run in self._runs.get(point, ()) if run.has_died]
        if not dead:
            if self.varies and any(self._level(run) is None for run in self._runs.get(point, ())):
                return "its log has too few steps"
            return ""
        cause = _cause(dead[0])
        if self._question == DIED:
            ends = [run for run in self._runs.get(max(self._runs), ()) if run.has_died]
            return f"died of something else: {cause}" if ends and _cause(ends[0]) != cause else ""
        return f"died: {cause}"

    def observe(self, point: int) -> list[Observation]:
        levels = [self._level(run) for run in self._runs.get(point, ())]
        return [Observation(point=point, value=log(level[0]), error=level[1]) for level in levels if level]

    def _level(self, run: RunRecord) -> tuple[float, float] | None:
        levels = facts_of(run).levels.get(self._question.metric)
        return (levels.quick.seconds, levels.quick.error) if levels else None

    def compare(self, before: int, after: int, *, runs: int | None = None, shares: int = 1) -> Rated:
        left, right = self._runs[before][:runs], self._runs[after][:runs]
        key = (before, after, len(left), len(right), runs or 0, shares)
        if key not in self._known:
            look = runs or len(left) + len(right) - 1
            self._known[key] = self._rate(left, right, look=look, shares=shares)
        return self._known[key]

    def record(self, before: int, after: int, *, shares: int = 1, look: int | None = None) -> ComparisonRecord:
        """Return the full comparison of two points. shares and look: as `cases` and `look` of `CaseRuns`."""
        return self._compare(self._runs[before], self._runs[after], look=look, shares=shares)

    def _compare(
        self, left: Sequence[RunRecord], right: Sequence[RunRecord], *, look: int | None, shares: int
    ) -> ComparisonRecord:
        arms = self._rules.arms
        sides = [*(as_arm(run, arms[0]) for run in left), *(as_arm(run, arms[1]) for run in right)]
        case = self._like.model_copy(update={"runs": tuple(sides), "look": look, "cases": shares})
        if self._question.metric == CHECKPOINTS.name and self._compare_checkpoints:
            case = case.model_copy(update={"checkpoints": self._compare_checkpoints(case)})
        return compare_case(case, past=self._past)

    def _rate(self, left: Sequence[RunRecord], right: Sequence[RunRecord], *, look: int, shares: int) -> Rated:
        if self._question == DIED:
            return _rate_deaths(left, right)
        record = self._compare(left, right, look=look, shares=shares)
        row = next((row for row in record.rows if row.metric == self._question.metric), None)
        if row is None or row.verdict == "not judged":
            return Rated(verdict="unknown", text="the runs do not tell")
        # a sure verdict's text is only the difference: the comparison of the two commits shows the full reason
        text = row.effect_text or (row.reason if row.verdict == "unknown" else row.reason.partition(": ")[0])
        return Rated(
            verdict=row.verdict, text=text, wanted=row.runs_wanted, cost=row.cost_text,
            effect=row.effect, low=row.effect_low, high=row.effect_high,
        )  # fmt: skip


def as_arm(run: RunRecord, arm: str) -> RunRecord:
    """Return the run with `arm` in place of the arm that it was trained for."""
    plan = run.plan.model_copy(update={"arm": arm}) if run.plan is not None else None
    return run.model_copy(update={"arm": arm, "plan": plan})


def _cause(run: RunRecord) -> str:
    error = run.reading.error
    return f"{error.type}: {error.message}"[:200] if error else f"exit code {run.reading.exit_code}"


def _rate_deaths(left: Sequence[RunRecord], right: Sequence[RunRecord]) -> Rated:
    before, after = ([run for run in side if run.has_died] for side in (left, right))
    if bool(before) == bool(after):
        return Rated(verdict="same", text="died as well" if before else "runs to its end")
    return (
        Rated(verdict="regressed", text=_cause(after[0])) if after else Rated(verdict="improved", text="does not die")
    )
