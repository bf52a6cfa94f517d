"""The steps of the flow `bisect` as Prefect tasks: choose, compile, measure and publish points."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from prefect import task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from configs.comparison import Target
from flows.step_parts import IO, show_text
from questions.bisect.culprit_program import compare_culprit_program
from questions.bisect.function_judge import compare_with_good
from questions.bisect.ledger import FOLDER as LEDGER_FOLDER
from questions.bisect.ledger import make_entry
from questions.bisect.page import bisection_markdown, publish_bisection
from questions.bisect.points import choose_span
from questions.bisect.records import BisectedPoint, Bisection, LedgerEntry
from questions.bisect.search import next_action
from questions.bisect.terms import Finish, Judge, Line, SearchLimits, Train
from questions.bisect.turns_judge import time_beside_good
from tasks.publish.content.page_address import PublishedPage, find_page
from tasks.publish.markdown.elements import artifact_key, escape_markdown
from tasks.records.explanation import ProgramExplanation
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.services.outage import outlast, unless_away
from tasks.store.store import Store

find_span_step = task(
    name="find the line", task_run_name="find the line {request.good} … {request.bad}", cache_policy=NO_CACHE
)(choose_span)


@task(name="compile", task_run_name="compile {plan.ref} for the ledger", cache_policy=NO_CACHE)
def probe_step(plan: RunPlan, target: Target, store: Store, key: str) -> LedgerEntry:
    """Compile one commit's training step; write its entry into the bisection's ledger and return the entry."""
    entry = make_entry(plan, target, store, key)
    get_run_logger().info("%s: %s", plan.ref, entry.error or f"program {(entry.program or 'not known')[:12]}")
    return entry


@task(name="turns", task_run_name="{plan.ref} in turns with {good.ref}", cache_policy=NO_CACHE)
def time_beside_good_step(good: RunPlan, plan: RunPlan, store: Store, *, among: int, number: int) -> RunRecord:
    """Measure a commit's program in turns with good's; return its record, which has no steps."""
    return time_beside_good(good, plan, store.path / LEDGER_FOLDER / "turns", among=among, number=number)


@task(name="function", task_run_name="function of {plan.ref} beside {good.ref}", cache_policy=NO_CACHE)
def compare_with_good_step(good: RunPlan, plan: RunPlan, store: Store) -> RunRecord:
    """Compare a commit's program with good's in float64; return its record, which has no steps."""
    return compare_with_good(good, plan, store.path / LEDGER_FOLDER / "turns")


@task(name="choose", task_run_name="choose what to run", cache_policy=NO_CACHE)
def choose_step(line: Line, judge: Judge, limits: SearchLimits, spent_s: float) -> Train | Finish:
    """Return the next action of a bisection: the points to train, or the bisection's result.

    spent_s: seconds that the bisection's runs have taken so far.
    """
    action = next_action(line, judge, limits, spent_s=spent_s)
    get_run_logger().info("%s", action.why or "one commit is sure")
    return action


@task(name="compare the culprit's step", task_run_name="compare the culprit's step", cache_policy=NO_CACHE)
def compare_culprit_step(
    points: Sequence[BisectedPoint], culprit: int, like: RunPlan, runs: Mapping[int, Sequence[RunRecord]], store: Store
) -> ProgramExplanation | None:
    """Return how the lowered step of `points[culprit]` differs from an earlier point's; None if equal or unknown.

    like: plan of the good end. runs: number of a point → its runs.
    """
    found = compare_culprit_program(points, culprit, like, runs, store)
    if found is not None:
        get_run_logger().info("%s", found.sentence)
    return found


@task(name="publish the bisection", task_run_name="publish the bisection of {record.case}", **IO)
def publish_bisection_step(record: Bisection, store: Store) -> PublishedPage:
    """Publish a bisection's page and Prefect artifacts; return the page."""
    page = find_page(publish_bisection(record, store), store)
    name = ("bisect", record.comparison, record.case)
    show_text(name, bisection_markdown(record), escape_markdown(record.headline), page.shown)
    return page


class SearchProgress:
    """The Prefect progress artifact of one case's bisection."""

    def __init__(self, case: str) -> None:
        key = artifact_key("bisect", case, "progress")
        made = outlast(lambda: create_progress_artifact(progress=0.0, key=key, description=f"{case}: both ends"))
        assert isinstance(made, UUID)  # Prefect returns a future only inside an async task
        self._artifact = made

    def show(self, share: float, text: str) -> None:
        """Update the artifact. share: progress from 0 to 1."""
        with unless_away():
            update_progress_artifact(self._artifact, progress=100.0 * share, description=text)
