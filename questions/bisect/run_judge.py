"""Implements `terms.Judge` with run records: the times and failures of points, and comparisons of two points.

A point is a commit or a package version; the first point is good, the last one is bad.
"""

from collections.abc import Callable, Mapping, Sequence

from questions.bisect.bisected_metric import DIED, BisectedMetric
from questions.bisect.terms import HALVES
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.examine.noise import Past
from tasks.diff.judge.judge_case import judge
from tasks.metrics.compute_facts import facts_of_run
from tasks.metrics.result_metrics import CHECKPOINTS
from tasks.records.compared_case import ComparisonRecord, Decision
from tasks.records.run import RunRecord


class RunJudge:
    """Applies the verdict rule to the runs of points; see `terms.Judge`.

    template: the comparison of any two points, without their runs. failures: point → why the point cannot be judged.
    past: name of a time's series → differences of earlier pairs of equal runs. complete: adds the comparisons of
    checkpoints and programs to a comparison's runs.
    """

    def __init__(
        self,
        metric: BisectedMetric,
        template: CaseRuns,
        runs: Mapping[int, Sequence[RunRecord]],
        *,
        failures: Mapping[int, str],
        past: Mapping[str, Past],
        complete: Callable[[CaseRuns], CaseRuns],
    ) -> None:
        assert template.rules is not None
        self._metric, self._template, self._rules, self._past = metric, template, template.rules, past
        self._runs = {point: tuple(records) for point, records in runs.items()}
        self._failures, self._complete = failures, complete
        self._known: dict[tuple[int, int, int | None, int], Decision] = {}

    @property
    def judges_time(self) -> bool:
        return self._metric.is_time

    def runs(self, point: int) -> int:
        return len(self._runs.get(point, ()))

    def failed(self, point: int) -> str:
        """Return why the point cannot be judged; empty if it can.

        A point cannot be judged if a run died, or if a time is bisected and a log has too few steps. If deaths are
        bisected, a death matters only if the bad end died of another cause.
        """
        if why := self._failures.get(point, ""):
            return why
        dead = [run for run in self._runs.get(point, ()) if run.has_died]
        if not dead:
            levels = [facts_of_run(run).levels for run in self._runs.get(point, ())] if self.judges_time else []
            if any(self._metric.name not in known for known in levels):
                return "its log has too few steps"
            return ""
        cause = _cause(dead[0])
        if self._metric == DIED:
            ends = [run for run in self._runs.get(max(self._runs), ()) if run.has_died]
            return f"died of something else: {cause}" if ends and _cause(ends[0]) != cause else ""
        return f"died: {cause}"

    def compare(self, before: int, after: int, *, runs: int | None = None, shares: int = 1) -> Decision:
        key = (before, after, runs, shares)
        if key not in self._known:
            left, right = self._runs[before][:runs], self._runs[after][:runs]
            look = runs or len(left) + len(right) - 1
            self._known[key] = self._judge_pair(left, right, look=look, shares=shares)
        return self._known[key]

    def are_apart(self, before: int, after: int) -> bool:
        left, right = (
            [facts_of_run(run).levels[self._metric.name].middle.seconds for run in self._runs[point]]
            for point in (before, after)
        )
        return max(left) < min(right)

    def compare_ends(self, last: int, *, look: int | None = None) -> ComparisonRecord:
        """Return the full comparison of good and bad at half the false-alarm probability.

        look: number of this comparison among repetitions with more runs, from 1; None: there are no repetitions.
        """
        return self._compare(self._runs[0], self._runs[last], look=look, shares=HALVES, complete=True)

    def _compare(
        self,
        left: Sequence[RunRecord],
        right: Sequence[RunRecord],
        *,
        look: int | None,
        shares: int,
        complete: bool = False,
    ) -> ComparisonRecord:
        arms = self._rules.arms
        sides = (*(_as_arm(run, arms[0]) for run in left), *(_as_arm(run, arms[1]) for run in right))
        case = self._template.replace(runs=sides, look=look, cases=shares)
        if complete or self._metric.name == CHECKPOINTS.name:  # the search asks for many pairs of points
            case = self._complete(case)
        return judge(examine(case, self._past))

    def _judge_pair(self, left: Sequence[RunRecord], right: Sequence[RunRecord], *, look: int, shares: int) -> Decision:
        if self._metric == DIED:
            return _judge_deaths(left, right)
        record = self._compare(left, right, look=look, shares=shares)
        row = next((row for row in record.rows if row.metric == self._metric.name), None)
        if row is None or row.verdict == "not judged":
            return Decision(verdict="unknown", reason="the runs do not tell")
        # a sure verdict needs only the difference, because a comparison of the two points shows the full reason
        text = row.effect_text or (row.reason if row.verdict == "unknown" else row.reason.partition(": ")[0])
        return row.replace(reason=text)


def _as_arm(run: RunRecord, arm: str) -> RunRecord:
    """Return the run with `arm` in place of the arm that it was trained for."""
    plan = run.plan.replace(arm=arm) if run.plan is not None else None
    return run.replace(arm=arm, plan=plan)


def _cause(run: RunRecord) -> str:
    error = run.reading.error
    return f"{error.type}: {error.message}"[:200] if error else f"exit code {run.reading.exit_code}"


def _judge_deaths(left: Sequence[RunRecord], right: Sequence[RunRecord]) -> Decision:
    before, after = ([run for run in side if run.has_died] for side in (left, right))
    if bool(before) == bool(after):
        return Decision(verdict="same", reason="died as well" if before else "runs to its end")
    if after:
        return Decision(verdict="regressed", reason=_cause(after[0]))
    return Decision(verdict="improved", reason="does not die")
