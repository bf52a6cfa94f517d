"""The flow `bisect`: list commits → compile each → train both ends → train the most informative points → publish.

A point is a commit or a package version; package versions are not compiled. The ends are the first point (good) and the
last one (bad). The culprit is the point that changed the metric. The results of the compiles are the compile ledger.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

from configs.comparison import load_comparison, load_target
from flows.compare import CASE_STEPS, run_one
from questions.bisect.bisected_metric import DIED, PROGRAM, TIME, BisectedMetric, choose_metric, read_metric
from questions.bisect.corners import blame_packages, measure_corners
from questions.bisect.describe_bisection import describe_points, describe_progress, spent_seconds, write_record
from questions.bisect.function_judge import FunctionJudge
from questions.bisect.ledger import ledger_key, read_entry, search_ledger, weigh_commits
from questions.bisect.points import Span, corner_span, list_cases, plan_point, span_after_corners, spans_inside
from questions.bisect.run_judge import RunJudge
from questions.bisect.steps import (
    SearchProgress,
    choose_step,
    compare_culprit_step,
    compare_with_good_step,
    find_span_step,
    probe_step,
    publish_bisection_step,
    time_beside_good_step,
)
from questions.bisect.terms import Finish, Line, SearchLimits, Train
from questions.bisect.turns_judge import TurnsJudge
from tasks.diff.examine.assemble_case import complete_case
from tasks.diff.examine.examine_case import CaseRuns, read_past_noise
from tasks.diff.examine.noise import Past
from tasks.launch.owners import forget
from tasks.metrics.result_metrics import FUNCTION
from tasks.metrics.time_metrics import PROGRAM_TIME
from tasks.programs.compile_lanes import count_lanes
from tasks.publish.content.page_address import PublishedPage
from tasks.records.bisection import BisectedPoint, Bisection, FactorEffect, LedgerEntry
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.resolve.options import BisectOptions
from tasks.resolve.plans import CompileRequest, Request
from tasks.services.events import EVENTS, Bisected, Planned, Replanned
from tasks.services.flow_names import show_name, unless_named
from tasks.services.flow_runs import job_flow
from tasks.services.prefect_ui import CHANGED, REGRESSED, log_result, with_parameters_of
from tasks.services.running_jobs import Jobs, Stopped, in_lanes
from tasks.services.slices import slice_of
from tasks.store.store import Store, open_store


@unless_named
def name_run() -> str:
    """Return the flow run's name: comparison, good and bad."""
    given = flow_run.parameters
    return show_name(f"{given['comparison']}: {given['good']} … {given['bad']}")


@job_flow(
    name="bisect",
    flow_run_name=name_run,
    description="Find the commit, or the version of a package, between good and bad that changed a metric.",
)
@with_parameters_of(BisectOptions)
def bisect(options: BisectOptions) -> State[Any]:
    """Find, for every case, the point that changed the metric. The final state is Failed if one was found.

    Its name is the worst verdict on a found point.
    """
    store, jobs = open_store(options.out), Jobs()
    metric = read_metric(options.metric) if options.metric else None
    span = find_span_step(options)
    bisections: list[tuple[Bisection, PublishedPage]] = []
    try:
        for case in list_cases(options):
            good_plan = plan_point(options, span, 0, case, store.path, repeats=1)[0]
            record = Search(options, span, case, store, jobs, good_plan, metric).find()
            page = publish_bisection_step(record, store)
            EVENTS.put(Bisected(record, page))
            bisections.append((record, page))
    except Stopped as stopped:
        return Cancelled(message=str(stopped))
    forget([flow_run.id], store)
    log_result((record.headline, page.shown) for record, page in bisections)
    message = " · ".join(record.headline for record, _ in bisections)[:1000]
    if any(record.outcome == "found" for record, _ in bisections):
        worse = any(record.verdict == "regressed" for record, _ in bisections)
        return Failed(name=REGRESSED if worse else CHANGED, message=message)
    ledger_alone = all(record.outcome == "ledger" for record, _ in bisections)
    return Completed(name="Ledger" if ledger_alone else "Unknown", message=message)


@dataclass
class Search:
    """The search for one case on one line of points. Points are identified by their index in `span.points`."""

    request: BisectOptions
    span: Span
    case: str
    store: Store
    jobs: Jobs
    good_plan: RunPlan  # the plan of good's first run
    metric: BisectedMetric | None  # None until a comparison of good and bad chooses it
    runs: dict[int, list[RunRecord]] = field(default_factory=dict, init=False)  # point → its runs that finished or died
    failures: dict[int, str] = field(default_factory=dict, init=False)  # point → why it cannot be judged

    def find(self) -> Bisection:
        """Search and return the case's record. If the culprit is a merge, also search inside it: see `find_inside`."""
        corners: tuple[FactorEffect, ...] = ()
        if self.request.more.packages and not (self.span.points[0].version or self.span.software):
            corners = self.run_corners()
            self.span = span_after_corners(self.request, self.span, packages=blame_packages(corners))
            self.good_plan = self.plan(0, repeats=1)[0]  # the span now holds a version: the ledger's keys need it
        points = self.compile_points()
        if self.request.more.free:
            self.metric = self.metric or BisectedMetric(name=PROGRAM, title=PROGRAM)
            known = search_ledger(points, self.metric) or Finish(outcome="ledger", why="")
            why = f"the compile ledger of {len(points)} commits: nothing was trained"
            finish = Finish(outcome="ledger", why=why, suspects=known.suspects, notes=known.notes)
            return self.record(finish, weigh_commits(points, self.metric), points)
        finish, line = self.search(points)
        record = self.record(finish, line, points, corners)
        if finish.culprit is not None and self.span.is_merge(finish.culprit):
            return self.find_inside(record, finish.culprit)
        return record

    def search(self, points: tuple[BisectedPoint, ...]) -> tuple[Finish, Line]:
        """Train points until there is a result; return the result, and the line with the points' prior weights."""
        limits = SearchLimits(
            max_end_runs=load_comparison(self.request.comparison).repeats, budget_s=self.request.read_budget(),
            most_runs=self.request.more.max_runs,
        )  # fmt: skip
        progress = SearchProgress(self.case)
        if self.metric is None or not self.metric.is_of_program:
            self.recall_ends(limits.max_end_runs)
        if self.metric is None:
            chosen = self.compare_ends(limits)
            if isinstance(chosen, Finish):
                return chosen, weigh_commits(points, TIME)
            self.metric = chosen
            EVENTS.put(Replanned((), f"{self.case}: {chosen.title} of bad differs from good's"))
        line = weigh_commits(points, self.metric)
        known = search_ledger(points, self.metric)
        if known is not None:
            return known, line
        if self.metric != DIED:
            errors = {number: point.ledger.error for number, point in enumerate(points)}
            self.failures |= {number: f"does not compile: {error}" for number, error in errors.items() if error}
        while True:
            judge = self.judge
            action = choose_step(line, judge, limits, self.spent_s)
            if told := describe_progress(points, line, judge):
                progress.show(*told)
            if isinstance(action, Finish):
                progress.show(1.0, action.why or "found")
                return action, line
            EVENTS.put(Replanned((), f"{action.why}: {', '.join(points[point].name for point in action.points)}"))
            for point in action.points:
                self.train(point)

    def compare_ends(self, limits: SearchLimits) -> BisectedMetric | Finish:
        """Train the ends until their comparison decides; return the metric of the worst row, or a result.

        A result ends the search, for example because no row is worse, a limit is reached, or an end cannot be run.
        """
        last = len(self.span.points) - 1
        action: BisectedMetric | Train | Finish = Train(points=(0, last), why="both ends")
        while True:
            if runs := len(self.runs.get(0, ())):
                record = self.judge.compare_ends(last, look=runs)
                action = choose_metric(record, runs, last, limits, self.spent_s)
            if not isinstance(action, Train):
                return action
            for point in action.points:
                self.train(point)
            if failed := [self.failures[point] for point in action.points if point in self.failures]:
                return Finish(outcome="no difference", why=f"an end cannot be run: {failed[0]}")

    def recall_ends(self, most: int) -> None:
        """Reuse stored runs of both ends that finished or died, up to `most` of each, e.g. of a nightly comparison."""
        ends = (0, len(self.span.points) - 1)
        try:
            plans = [self.plan(end, repeats=most) for end in ends]
        except ValueError:  # `train` reports it
            return
        for pair in zip(*plans, strict=True):
            records = [record for plan in pair if (record := self.read_finished(plan))]
            if len(records) < len(ends):
                return
            for end, record in zip(ends, records, strict=True):
                self.runs.setdefault(end, []).append(record)

    def train(self, point: int) -> None:
        """Train a point once more, or reuse a stored run. Adds to `failures` if its trainer cannot be prepared."""
        number = len(self.runs.get(point, ()))
        try:
            of_program = self.metric is not None and self.metric.is_of_program
            plan = self.plan(point, repeats=1)[0] if of_program else self.plan(point, repeats=number + 1)[number]
        except ValueError as error:
            get_run_logger().warning("%s is skipped: %s", self.span.points[point].name, error)
            self.failures[point] = _shorten(error)
            return
        if self.metric is not None and self.metric.is_of_program:
            with slice_of(plan.target):
                if self.metric.is_function:
                    record = compare_with_good_step(self.good_plan, plan, self.store)
                else:
                    record = time_beside_good_step(
                        self.good_plan, plan, self.store, among=len(self.span.points), number=number
                    )
            self.runs.setdefault(point, []).append(record)
            return
        EVENTS.put(Planned([plan]))
        finished = self.read_finished(plan)
        if finished is None:
            with slice_of(plan.target):
                finished = run_one(plan, self.store, self.jobs, among=[plan])
        self.runs.setdefault(point, []).append(finished)

    def plan(self, point: int, *, repeats: int, kind: type[Request] = Request) -> list[RunPlan]:
        """Return the plans of a point's runs. Raises ValueError if the commit's trainer cannot be prepared."""
        return plan_point(self.request, self.span, point, self.case, self.store.path, repeats=repeats, kind=kind)

    def read_finished(self, plan: RunPlan) -> RunRecord | None:
        """Return the record of a run that has finished or died, else None."""
        record = self.store.run(plan.run_name).read_record()
        return record if record is not None and (record.is_finished or record.has_died) else None

    @property
    def judge(self) -> RunJudge:
        """The judge of the runs so far, which judges the step time until the metric is known."""
        judges: dict[str, type[RunJudge]] = {PROGRAM_TIME.name: TurnsJudge, FUNCTION.name: FunctionJudge}
        return judges.get(self.metric.name if self.metric else "", RunJudge)(
            self.metric or TIME, self.template, self.runs, failures=self.failures, past=self.past,
            complete=self.complete,
        )  # fmt: skip

    @property
    def template(self) -> CaseRuns:
        """The comparison of any two points, without their runs."""
        plan = self.good_plan
        return CaseRuns(
            comparison=self.request.comparison, case=self.case, target=plan.target, runs=(), rules=plan.rules
        )

    @cached_property
    def past(self) -> dict[str, Past]:
        """The noise of earlier runs, by metric."""
        return read_past_noise(self.template, self.store)

    def complete(self, runs: CaseRuns) -> CaseRuns:
        """Return the comparison of two points with the comparisons of their checkpoints and programs."""
        return complete_case(runs, self.store, CASE_STEPS)

    @property
    def spent_s(self) -> float:
        """The total seconds of all runs."""
        return spent_seconds([run for runs in self.runs.values() for run in runs])

    def compile_points(self) -> tuple[BisectedPoint, ...]:
        """Return the points with their ledger entries; compile missing ones in parallel. Versions have no entries."""
        points = self.span.points
        if points[0].version:
            return points
        keys = [ledger_key(point.source, self.good_plan) for point in points]
        entries = {key: entry for key in dict.fromkeys(keys) if (entry := read_entry(self.store, key)) is not None}
        missing = {key: number for number, key in reversed(list(enumerate(keys))) if key not in entries}
        if missing:
            EVENTS.put(
                Replanned((), f"compiling {len(missing)} of {len(points)} commits; the others have their source")
            )
            calls = [partial(self.compile_point, number, key) for key, number in missing.items()]
            entries |= dict(zip(missing, in_lanes(calls, count_lanes(len(missing)), self.jobs), strict=True))
        return tuple(point.replace(ledger=entries[key]) for point, key in zip(points, keys, strict=True))

    def compile_point(self, number: int, key: str) -> LedgerEntry:
        """Compile a point's training step; return its ledger entry, which has the error if there was one."""
        target = load_target(self.good_plan.target)
        try:
            kind = CompileRequest if target.topology is not None else Request
            plan = self.plan(number, repeats=1, kind=kind)[0]
        except ValueError as error:
            return LedgerEntry(error=_shorten(error))
        return probe_step(plan, target, self.store, key)

    def record(
        self, finish: Finish, line: Line, points: tuple[BisectedPoint, ...], corners: tuple[FactorEffect, ...] = ()
    ) -> Bisection:
        """Return the record of the case, which has the result `finish`."""
        has_ends = self.runs.get(0) and self.runs.get(line.last)
        record = write_record(
            self.request, self.span, self.case, self.good_plan.target, self.metric or TIME, finish,
            describe_points(points, line, self.judge if has_ends else None), self.runs, corners=corners,
        )  # fmt: skip
        if finish.culprit is None:
            return record
        program = compare_culprit_step(points, finish.culprit, self.good_plan, self.runs, self.store)
        return record.replace(program=program)

    def find_inside(self, record: Bisection, culprit: int) -> Bisection:
        """Search inside the merged branches; return the record of the first culprit there, else the merge's record.

        record: the merge's record. culprit: index of the merge.
        """
        merge = self.span.points[culprit].name
        for inside in spans_inside(self.request, self.span, culprit):
            EVENTS.put(Replanned((), f"{merge} is a merge: its {len(inside.points) - 1} commits are next"))
            good_plan = plan_point(self.request, inside, 0, self.case, self.store.path, repeats=1)[0]
            found = replace(self, span=inside, good_plan=good_plan).find()
            if found.outcome == "found":
                note = f"it came in with the merge {merge}, {record.runs} runs earlier on the first parents' line"
                return found.replace(notes=(*found.notes, note), corners=record.corners)
        note = f"{merge} is a merge; none of the commits that it brought in shows it alone"
        return record.replace(notes=(*record.notes, note))

    def run_corners(self) -> tuple[FactorEffect, ...]:
        """Train old and new code with old and new packages; return the effects of code, packages and their interaction.

        If `metric` is None, sets it to the worst row of the comparison of the last corner with the first, if there is
        one. Raises ValueError if a corner cannot be run.
        """
        square = replace(self, span=corner_span(self.request, self.span))
        repeats = load_comparison(self.request.comparison).repeats
        for corner in list(range(4)) * repeats:
            square.train(corner)
        if square.failures:
            raise ValueError(f"a corner cannot be run: {next(iter(square.failures.values()))}")
        if self.metric is None:
            chosen = choose_metric(square.judge.compare_ends(3), repeats, 3, SearchLimits(max_end_runs=repeats), 0.0)
            square.metric = self.metric = chosen if isinstance(chosen, BisectedMetric) else None
        return measure_corners(square.judge)


def _shorten(error: ValueError) -> str:
    return " ".join(str(error).split())[:300]
