"""The flow `bisect`: list commits → compile each → run both ends → repeat the most informative run → publish."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

from configs.comparison import Target, load_comparison, load_target
from flows.compare import run_one
from tasks.bisect.commits import describe_commit
from tasks.bisect.corners import compare_corners, contrast_corners
from tasks.bisect.describe_bisection import describe_points, name_point, spent_seconds, write_record
from tasks.bisect.judge_points import RunJudge
from tasks.bisect.ledger import ledger_key, read_entry, search_ledger, weigh_commits
from tasks.bisect.points import (
    Span,
    corner_span,
    hold_packages,
    list_cases,
    plan_point,
    span_of_packages,
    spans_inside,
)
from tasks.bisect.questions import DIED, PROGRAM, Question, find_question, read_question
from tasks.bisect.search import find_current_belief
from tasks.bisect.terms import Finish, Limits, Line, Train
from tasks.diff.compare_case import CaseRuns
from tasks.diff.noise import Past
from tasks.history.prior import read_past
from tasks.launch.owners import forget
from tasks.metrics.time_metrics import STEP_TIME
from tasks.preflight.compile_lanes import count_lanes
from tasks.publish.content.page_address import PublishedPage
from tasks.records import BisectedPoint, Bisection, FactorEffect, LedgerEntry, RunPlan, RunRecord
from tasks.resolve.options import BisectOptions
from tasks.services.cleanup import end_jobs
from tasks.services.endings import REGRESSED, log_result
from tasks.services.events import EVENTS, Bisected, Extended, Planned
from tasks.services.lanes import in_lanes
from tasks.services.run_form import show_name, unless_named, with_parameters_of
from tasks.services.running_jobs import Jobs, Stopped
from tasks.services.slices import slice_of
from tasks.steps import (
    SearchProgress,
    choose_step,
    compare_checkpoints_step,
    compare_culprit_step,
    find_span_step,
    probe_step,
    publish_bisection_step,
)
from tasks.store import Store, open_store
from tasks.verify.common_step import find_common

TIME = Question(metric=STEP_TIME.name, title=STEP_TIME.title)  # a placeholder until the bisected row is known


@unless_named
def name_run() -> str:
    """Return the flow run's name."""
    wanted = flow_run.parameters
    return show_name(f"{wanted['comparison']}: {wanted['good']} … {wanted['bad']}")


@flow(
    name="bisect",
    flow_run_name=name_run,
    description="Find the commit, or the version of a package, between good and bad that changed a metric.",
    on_cancellation=[end_jobs],
    on_crashed=[end_jobs],
)
@with_parameters_of(BisectOptions)
def bisect(options: BisectOptions) -> State[Any]:
    """Find, for every case, the commit or package version that changed the metric."""
    return bisect_cases(options, open_store(options.out), Jobs())


def bisect_cases(request: BisectOptions, store: Store, jobs: Jobs) -> State[Any]:
    """Bisect every case of a request; return the flow's final state: Failed if a culprit was found."""
    if request.metric:
        read_question(request.metric)
    span = find_span_step(request)
    found: list[tuple[Bisection, PublishedPage]] = []
    try:
        for case in list_cases(request):
            record = Search(request, span, case, store, jobs).find()
            page = publish_bisection_step(record, store)
            EVENTS.put(Bisected(record, page))
            found.append((record, page))
    except Stopped as stopped:
        return Cancelled(message=str(stopped))
    forget([flow_run.id], store)
    log_result((record.headline, page.shown) for record, page in found)
    message = " · ".join(record.headline for record, _ in found)[:1000]
    if any(record.outcome == "found" for record, _ in found):
        return Failed(name=REGRESSED, message=message)
    sure = all(record.outcome == "ledger" for record, _ in found)
    return Completed(name="Ledger" if sure else "Unknown", message=message)


@dataclass
class Search:
    """The search for one case on one line of points. Points are identified by their index in `span.points`."""

    request: BisectOptions
    span: Span
    case: str
    store: Store
    jobs: Jobs
    question: Question | None = None  # None until the metric to bisect is known
    runs: dict[int, list[RunRecord]] = field(default_factory=dict)  # point → its finished runs
    failures: dict[int, str] = field(default_factory=dict)  # point → why it cannot be judged
    like: RunPlan = field(default=None)  # type: ignore[assignment]  # plan of the good end; made if None
    past: dict[str, Past] | None = None  # noise of earlier runs; read on first use

    def __post_init__(self) -> None:
        if self.like is None:
            self.like = plan_point(self.request, self.span, 0, self.case, self.store.path, repeats=1)[0]
        self.target: Target = load_target(self.like.target)
        if self.request.metric:
            self.question = read_question(self.request.metric)

    def find(self) -> Bisection:
        """Return the case's record; if a merge is the culprit, the record of a search inside the merge."""
        corners: tuple[FactorEffect, ...] = ()
        if self.request.more.packages and not (self.span.points[0].version or self.span.software):
            corners = self._corners()
            packages = _blames(corners, "packages") and not _blames(corners, "code")
            self.span = span_of_packages(self.request) if packages else hold_packages(self.request, self.span)
        points = self._ledger()
        if self.request.more.free:
            asked = self.question or Question(metric=PROGRAM, title="program")
            finish = search_ledger(points, asked) or Finish(outcome="no difference", why="nothing was trained")
            why = f"the compile ledger of {len(points)} commits: nothing was trained"
            finish = finish.model_copy(update={"outcome": "no difference", "culprit": None, "why": why})
            record = self._record(finish, weigh_commits(points, asked), points, asked)
            return record.model_copy(update={"outcome": "ledger"})
        finish, line = self._search(points)
        assert self.question is not None  # a search that ends early sets a placeholder
        record = self._record(finish, line, points, self.question, corners)
        if finish.culprit is not None and self.span.merge_at(finish.culprit):
            return self._inside(record, finish.culprit)
        return record

    def _search(self, points: tuple[BisectedPoint, ...]) -> tuple[Finish, tuple[Line, dict[int, str]]]:
        """Run points until the culprit is found or a limit is reached; return the result and the weights."""
        limits = Limits(
            ends=load_comparison(self.request.comparison).repeats, budget_s=self.request.read_budget(),
            most_runs=self.request.more.max_runs,
        )  # fmt: skip
        progress = SearchProgress(self.case)
        last = len(points) - 1
        self._recall(last, limits.ends)
        if self.question is None:
            asked = self._ask_ends(last, limits)
            if isinstance(asked, Finish):
                self.question = TIME
                return asked, weigh_commits(points, self.question)
            self.question = asked
            EVENTS.put(Extended((), f"{self.case}: {asked.title} of bad differs from good's"))
        known = search_ledger(points, self.question)
        drawn = weigh_commits(points, self.question)
        if known is not None:
            return known, drawn
        if self.question != DIED:
            self.failures |= {
                number: f"does not compile: {point.ledger.error}"
                for number, point in enumerate(points)
                if point.ledger.error
            }
        while True:
            judge = self._judge(self.question)
            action = choose_step(drawn[0], judge, limits, self._spent())
            belief = find_current_belief(drawn[0], judge) if judge and self._has_ends(last) else None
            if belief is not None:
                best = int(belief.culprits.argmax())
                left = int((belief.culprits > 0.01).sum())
                told = f"{left} left; {name_point(points[best])} {100 * belief.culprits[best]:.0f} %"
                progress.show(float(belief.culprits[best]), told)
            if isinstance(action, Finish):
                progress.show(1.0, action.why or "found")
                return action, drawn
            names = ", ".join(name_point(points[point]) for point in action.points)
            EVENTS.put(Extended((), f"{action.why}: {names}"))
            for point in action.points:
                self._train(point)

    def _recall(self, last: int, most: int) -> None:
        """Reuse finished runs of both ends from the store, in pairs, for example from a nightly comparison."""
        try:
            ends = [
                plan_point(self.request, self.span, end, self.case, self.store.path, repeats=most) for end in (0, last)
            ]
        except ValueError:  # `_train` reports it
            return
        for plans in zip(*ends, strict=True):
            records = [self.store.run(plan.run_name).read_record() for plan in plans]
            if not all(record is not None and (record.is_finished or record.has_died) for record in records):
                return
            for end, record in zip((0, last), records, strict=True):
                assert record is not None
                self.runs.setdefault(end, []).append(record)

    def _ask_ends(self, last: int, limits: Limits) -> Question | Finish:
        """Run the ends until their comparison decides; return its worst row, or the reason to stop."""
        while True:
            runs = len(self.runs.get(0, ()))
            if runs == 0:
                asked: Question | Train | Finish = Train(points=(0, last), why="both ends")
            else:
                judge = self._judge(TIME)
                asked = find_question(judge.record(0, last, shares=2, look=runs), runs, last, limits, self._spent())
            if not isinstance(asked, Train):
                return asked
            for point in asked.points:
                self._train(point)
            if failed := [self.failures[point] for point in asked.points if point in self.failures]:
                return Finish(outcome="no difference", why=f"an end cannot be run: {failed[0]}")

    def _has_ends(self, last: int) -> bool:
        return bool(self.runs.get(0)) and bool(self.runs.get(last))

    def _train(self, point: int) -> None:
        """Run a point once more, or reuse a finished run. If its trainer cannot be prepared, note it in `failures`."""
        number = len(self.runs.get(point, ()))
        try:
            plan = plan_point(self.request, self.span, point, self.case, self.store.path, repeats=number + 1)[number]
        except ValueError as error:
            get_run_logger().warning("%s is skipped: %s", name_point(self.span.points[point]), error)
            self.failures[point] = " ".join(str(error).split())[:300]
            return
        EVENTS.put(Planned([plan]))
        finished = self.store.run(plan.run_name).read_record()
        if finished is None or not (finished.is_finished or finished.has_died):
            with slice_of(plan.target):
                finished = run_one(plan, self.store, self.jobs, among=[plan])
        self.runs.setdefault(point, []).append(finished)

    def _judge(self, question: Question) -> RunJudge:
        case = CaseRuns(
            comparison=self.request.comparison, case=self.case, target=self.like.target, runs=(), rules=self.like.rules
        )
        if self.past is None:
            self.past = read_past(case, self.store)
        return RunJudge(
            question, case, self.runs, failures=self.failures, past=self.past,
            compare_checkpoints=self._compare_checkpoints,
        )  # fmt: skip

    def _compare_checkpoints(self, runs: CaseRuns) -> Any:
        return compare_checkpoints_step(runs, self.store) if find_common(runs.runs) else None

    def _spent(self) -> float:
        return spent_seconds([run for runs in self.runs.values() for run in runs])

    def _ledger(self) -> tuple[BisectedPoint, ...]:
        """Return the points with their ledger entries; compiles missing entries in parallel."""
        points = self.span.points
        if points[0].version:
            return points
        keys = [ledger_key(point.source, self.like) for point in points]
        entries = {key: entry for key in dict.fromkeys(keys) if (entry := read_entry(self.store, key)) is not None}
        missing = {key: number for number, key in reversed(list(enumerate(keys))) if key not in entries}
        if missing:
            EVENTS.put(Extended((), f"compiling {len(missing)} of {len(points)} commits; the others have their source"))
            lanes = count_lanes(len(missing))
            calls = [partial(self._compile, number, key) for key, number in missing.items()]
            entries |= dict(zip(missing, in_lanes(calls, lanes, self.jobs), strict=True))
        return tuple(point.model_copy(update={"ledger": entries[key]}) for point, key in zip(points, keys, strict=True))

    def _compile(self, number: int, key: str) -> LedgerEntry:
        ahead = self.target.topology is not None
        try:
            plan: RunPlan = plan_point(
                self.request, self.span, number, self.case, self.store.path, repeats=1, compile_only=ahead
            )[0]
        except ValueError as error:
            return LedgerEntry(error=" ".join(str(error).split())[:300])
        return probe_step(plan, self.target, self.store, key)

    def _record(
        self, finish: Finish, drawn: tuple[Line, dict[int, str]], points: tuple[BisectedPoint, ...], question: Question,
        corners: tuple[FactorEffect, ...] = (),
    ) -> Bisection:  # fmt: skip
        line, ruled_out = drawn
        judge = self._judge(question) if self._has_ends(line.last) else None
        belief = find_current_belief(line, judge) if judge is not None else None
        described = describe_points(points, line, ruled_out, judge, belief)
        commit = ("", "")
        if finish.culprit is not None and not points[finish.culprit].version:
            commit = describe_commit(self.span.repository, points[finish.culprit].commit.sha)
        record = write_record(
            self.request, self.span, self.case, self.like.target, question, finish, described, self.runs,
            corners=corners, commit=commit,
        )  # fmt: skip
        if finish.culprit is None:
            return record
        program = compare_culprit_step(points, finish.culprit, self.like, self.runs, self.store)
        return record.model_copy(update={"program": program})

    def _inside(self, record: Bisection, culprit: int) -> Bisection:
        """Search inside the merged branches; return the record of the first culprit there, else the merge's record."""
        merge = name_point(self.span.points[culprit])
        for inside in spans_inside(self.request, self.span, culprit):
            EVENTS.put(Extended((), f"{merge} is a merge: its {len(inside.points) - 1} commits are next"))
            found = Search(self.request, inside, self.case, self.store, self.jobs, question=self.question)
            found_record = found.find()
            if found_record.outcome == "found":
                note = f"it came in with the merge {merge}, {record.runs} runs earlier on the first parents' line"
                update = {"notes": (*found_record.notes, note), "corners": record.corners}
                return found_record.model_copy(update=update)
        note = f"{merge} is a merge; none of the commits that it brought in shows it alone"
        return record.model_copy(update={"notes": (*record.notes, note)})

    def _corners(self) -> tuple[FactorEffect, ...]:
        """Run old and new code with old and new packages; return the effects of both. Also sets `question` if unset."""
        square = Search(
            self.request, corner_span(self.request, self.span), self.case, self.store, self.jobs, like=self.like
        )
        repeats = load_comparison(self.request.comparison).repeats
        for corner in list(range(4)) * repeats:
            square._train(corner)
        if square.failures:
            raise ValueError(f"a corner cannot be run: {next(iter(square.failures.values()))}")
        asked: Question | Train | Finish | None = self.question
        if asked is None:
            record = square._judge(TIME).record(0, 3, shares=2)
            asked = find_question(record, repeats, 3, Limits(ends=repeats), 0.0)
        self.question = asked if isinstance(asked, Question) else None
        judge = square._judge(self.question or TIME)
        if not judge.varies:
            return compare_corners(judge.compare)
        levels = [[one.value for one in judge.observe(corner)] for corner in range(4)]
        return contrast_corners(levels, judge.noise, judge.tolerance)


def _blames(corners: tuple[FactorEffect, ...], name: str) -> bool:
    return any(one.name == name and one.verdict in ("regressed", "changed") for one in corners)
