"""The flows' steps as Prefect tasks: thin wrappers that add tracking, log lines, artifacts, and retries of I/O.

An arm is one of the two compared versions of a trainer, a case a model with its settings.
"""

import os
import time
from collections.abc import Generator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypedDict, cast
from uuid import UUID

from prefect import task
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.blocks.system import Secret
from prefect.cache_policies import NO_CACHE, CachePolicy
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from configs.comparison import Target
from tasks.diff.compare_case import CaseRuns, case_id, compare_case
from tasks.diff.compare_logs import LogArguments, archive, case_runs, compare_pair
from tasks.diff.repeat_rule import NextLook, Patience, next_look
from tasks.experiments.compare_by_experiments import Experiments, compare_by_experiments, experiments_id
from tasks.experiments.interleave import TurnLimits, interleave
from tasks.experiments.recordings import FOLDER, SIDES, name_problem, record_arms
from tasks.experiments.same_function import compare_functions
from tasks.experiments.stand_in import find_stand_ins
from tasks.extensions.bisect.culprit_program import compare_culprit_program
from tasks.extensions.bisect.function_judge import compare_with_good
from tasks.extensions.bisect.ledger import FOLDER as LEDGER_FOLDER
from tasks.extensions.bisect.ledger import make_entry
from tasks.extensions.bisect.points import choose_span
from tasks.extensions.bisect.search import next_action
from tasks.extensions.bisect.terms import Finish, Judge, Limits, Line, Train
from tasks.extensions.bisect.turns_judge import time_beside_good
from tasks.extensions.explain.assemble_case import compare_checkpoints, compare_programs
from tasks.extensions.explain.programs import compare_program_files
from tasks.extensions.explain.subjects import explain_comparison
from tasks.extensions.history.history_table import compact_history
from tasks.extensions.history.prior import read_past
from tasks.extensions.preflight.compare_compiles import compare_case_compiled
from tasks.ingest.given_logs import open_arms
from tasks.ingest.run_record import build_record, read_run_log
from tasks.launch import cross_maxtext, job
from tasks.launch.job import LaunchedRun
from tasks.launch.logs import JobEvent, LogLine, read_exit_code, rejoin_attempts, watch
from tasks.publish.content.page_address import PublishedPage, find_page
from tasks.publish.content.suggested_commands import add_next, add_next_of_compiles, add_next_of_experiments
from tasks.publish.markdown.artifacts import (
    artifact_key,
    escape_markdown,
    summary_description,
    summary_markdown,
    table_rows,
)
from tasks.publish.markdown.night import CHANGED_EVENT, comment_markdown, night_headline, night_markdown, night_message
from tasks.publish.markdown.proofs import proof_rows, proofs_headline, proofs_markdown
from tasks.publish.site.bisection_page import bisection_markdown, publish_bisection
from tasks.publish.site.comparison_pages import publish_comparison
from tasks.publish.site.index_page import publish_night
from tasks.records import (
    BisectedPoint,
    Bisection,
    CheckpointDifference,
    CheckpointProof,
    ComparisonRecord,
    FunctionComparison,
    LedgerEntry,
    ProgramExplanation,
    ProgramTimes,
    RunEnded,
    RunPlan,
    RunRecord,
    StepCompleted,
)
from tasks.records.observation import LOG, PROGRAM
from tasks.resolve.blessed import blessed_runs
from tasks.resolve.options import Experiment, IngestOptions, NightOptions
from tasks.resolve.plan_night import NightPlan, NightRecord, finish_night, plan_night
from tasks.resolve.plans import Request, resolve
from tasks.services.events import EVENTS, Comparing
from tasks.services.outage import outlast, unless_away
from tasks.services.pull_request import API, CommentError, parse_pull_request, put_comment
from tasks.store import Store
from tasks.verify.steps_to_prove import find_steps_since, prove
from tasks.verify.verification import verify_saved

PROGRESS_EVERY_S = 1.0  # seconds; minimum between two updates of a progress artifact
TOKENS = ("MAXVIEW_GITHUB_TOKEN", "GITHUB_TOKEN")  # variables with GitHub's token; the first one set is used
TOKEN_BLOCK = "maxview-github-token"  # name of a Prefect Secret block with the token


class IoOptions(TypedDict):
    """Options of Prefect's `task` for steps that are retried."""

    cache_policy: CachePolicy
    retries: int
    retry_delay_seconds: int


# For steps that read or write files or call servers.
IO: IoOptions = {"cache_policy": NO_CACHE, "retries": 2, "retry_delay_seconds": 2}


@task(name="resolve", task_run_name="resolve {request.comparison}", cache_policy=NO_CACHE)
def resolve_step(request: Request, store: Store) -> list[RunPlan]:
    """Return the plans of a request, in the order of their runs."""
    return resolve(request, store.path)


@task(name="launch", task_run_name="launch {plan.arm} {plan.case} r{plan.repeat}", cache_policy=NO_CACHE)
def launch_step(plan: RunPlan, among: Sequence[RunPlan], store: Store) -> LaunchedRun:
    """Launch the run's job, or attach to an earlier flow's job.

    among: the plans of the case. The run may also restore a checkpoint of the other arm's preceding or following run,
    to prove that both arms save equal state.
    """
    continue_from = job.find_source_folder(plan, among, store)
    if continue_from is not None and job.is_here(plan):
        store.run(continue_from.name).bring_checkpoints()
    return job.launch_or_attach(plan, store.run(plan.run_name), continue_from=continue_from)


@task(name="watch", task_run_name="watch {run.plan.arm} {run.plan.case} r{run.plan.repeat}", cache_policy=NO_CACHE)
def watch_step(run: LaunchedRun) -> Generator[JobEvent, None, None]:
    """Yield the events of a run's job, but log lines only for a compile.

    All log lines go to the Prefect log, and the number of steps goes to a progress artifact.
    """
    logger, plan = get_run_logger(), run.plan
    steps = int(plan.config["steps"])
    key = artifact_key("progress", plan.case, plan.arm, f"r{plan.repeat}")
    description = f"{plan.run_name}: steps of {steps}"
    if plan.compiles_for:
        steps, description = 1, f"{plan.run_name}: compiled for {plan.compiles_for}"
    artifact = outlast(lambda: create_progress_artifact(progress=0.0, key=key, description=description))
    assert isinstance(artifact, UUID)  # Prefect returns a future only inside an async task
    updated = time.monotonic()
    done = 0
    for event in watch(job.follow(run)):
        if isinstance(event, LogLine):
            logger.info("%s", event.text)
            if plan.compiles_for:  # a compile prints one line per stage
                yield event
            continue  # no caller needs a trainer's lines, and yielding an event from a task costs milliseconds
        if isinstance(event, RunEnded):
            if event.error is not None:
                logger.error("%s: died: %s: %s", plan.run_name, event.error.type, event.error.message)
            if event.exit_code:
                logger.error("%s: ended with exit code %s", plan.run_name, event.exit_code)
            if event.exit_code is not None and plan.compiles_for:
                done = 1
        if isinstance(event, StepCompleted):
            done = event.step + 1
            if time.monotonic() - updated > PROGRESS_EVERY_S:
                with unless_away():
                    update_progress_artifact(artifact, progress=100.0 * done / steps)
                updated = time.monotonic()
        yield event
    outlast(lambda: update_progress_artifact(artifact, progress=100.0 * done / steps))


@task(name="verify", task_run_name="verify {path.parent.parent.name} step {path.name}", **IO)
def verify_step(path: Path, manifests: Path) -> CheckpointProof:
    """Verify one checkpoint and return the result, its proof.

    Compares the files with the CRC-32Cs in manifests/STEP.json if they are of the same save; else writes the CRC-32Cs
    there if the checkpoint is sound.
    """
    return verify_saved(path, manifest=manifests / f"{path.name}.json")


@task(name="find checkpoints", **IO)
def find_checkpoints_step(places: Sequence[str], hours: float | None) -> list[str]:
    """Return the paths of the checkpoints in `places` saved in the last `hours`; all if `hours` is None or 0.

    Includes checkpoints without a date.
    """
    paths = find_steps_since(places, since=datetime.now(UTC) - timedelta(hours=hours) if hours else None)
    get_run_logger().info("%s checkpoints to prove", len(paths))
    return paths


@task(name="prove", task_run_name="prove {path}", **IO)
def prove_step(path: str, deep: bool, again_after_h: float) -> CheckpointProof:
    """Verify one checkpoint and return the result, its proof. Stores the proof of a sound checkpoint.

    Reuses a stored proof of the same save if it is younger than `again_after_h` hours and, with `deep`, checked all
    values.
    """
    proof = prove(path, deep=deep, again_after=timedelta(hours=again_after_h))
    for problem in proof.problems:
        get_run_logger().error("%s: %s: %s: %s", path, problem.check, problem.path, problem.message)
    return proof


@task(name="publish proofs", **IO)
def publish_proofs_step(proofs: Sequence[CheckpointProof]) -> None:
    """Publish a summary and a table of all checkpoints, problems first, as Prefect artifacts."""
    rows = proof_rows(proofs)
    _show(["verify"], proofs_markdown(proofs), proofs_headline(proofs))
    outlast(lambda: create_table_artifact(key="verify-rows", table=rows, description="Every checkpoint"))


blessed_step = task(name="blessed runs", task_run_name="blessed runs of {plan.case}", cache_policy=NO_CACHE)(
    blessed_runs
)


@task(name="compare checkpoints", task_run_name="compare checkpoints {runs.case}", **IO)
def compare_checkpoints_step(runs: CaseRuns, store: Store) -> CheckpointDifference | None:
    """Compare the checkpoints of the arms' first runs at the last step that is verified in both; None without one.

    Reuses a stored result of the same two saves.
    """

    def tell(_what: str, done: int, total: int) -> None:
        EVENTS.put(Comparing(runs.case, done, total))

    found = compare_checkpoints(runs, store, tell)
    if found is not None:
        get_run_logger().info("step %s: %s", found.step, found.summary)
    return found


@task(name="cross restore", task_run_name="cross restore {run.plan.arm} {run.plan.case}", cache_policy=NO_CACHE)
def cross_restore_step(run: LaunchedRun, among: Sequence[RunPlan]) -> None:
    """Restore a checkpoint of the other arm's preceding run with this run's trainer, and store the result.

    Only for the first repeat, if the run succeeded and both runs train MaxText on this machine with checkpoints.
    """
    before = cross_maxtext.find_source_plan(run.plan, among)
    if before is not None and run.plan.repeat == 0 and read_exit_code(run.directory.log) == 0:
        found = cross_maxtext.cross_restore(run.plan, before)
        cross_maxtext.write_crossing(run.directory.path, found)
        get_run_logger().info("%s", found.evidence)


@task(name="scrape", task_run_name="scrape {run.plan.arm} {run.plan.case} r{run.plan.repeat}", **IO)
def scrape_step(run: LaunchedRun, proofs: Sequence[CheckpointProof]) -> RunRecord:
    """Write the run's record, the last file of a run that has ended, and return it.

    If the run resumed, first prepends the logs of its earlier attempts to its log.
    """
    directory = run.directory
    directory.check_files()
    rejoin_attempts(directory.log)
    record = build_record(run.plan, directory, read_run_log(directory.log), proofs)
    directory.write_record(record)
    return record


@task(name="scrape", task_run_name="read the logs", **IO)
def scrape_logs_step(given: LogArguments, aa: bool, store: Store) -> tuple[str | None, list[RunRecord]]:
    """Read two arms' runs from existing logs into the store; return (case, records). case: None if no page names it."""
    with open_arms((given.baseline, given.candidate), aa=aa) as arms:
        return arms.case, archive(arms, store)


@task(name="diff", task_run_name="diff {case}", cache_policy=NO_CACHE)
def diff_logs_step(
    records: Sequence[RunRecord], case: str, options: IngestOptions, given: LogArguments, store: Store
) -> ComparisonRecord:
    """Compare the ingested runs of a case, with the history of equal runs on the target if a target is given."""
    target, tolerances = options.target, options.tolerances
    past = read_past(case_runs(records, case=case, target=target), store) if target else {}
    return compare_pair(
        records, case=case, aa=options.aa, target=target, past=past, tolerances=tolerances, arguments=given
    )


@task(name="diff", task_run_name="diff {runs.case}", cache_policy=NO_CACHE)
def diff_step(runs: CaseRuns, store: Store) -> ComparisonRecord:
    """Compare a case's two arms, with the store's history of equal runs on the target."""
    return add_next(compare_case(runs, past=read_past(runs, store)), runs.runs, cases=runs.cases)


@task(name="compare the steps", task_run_name="compare the steps of {runs.case}", cache_policy=NO_CACHE)
def compare_kept_programs_step(runs: CaseRuns, store: Store) -> ProgramExplanation | None:
    """Compare the lowered training steps that the runs kept; None if there are no two, or if one is unreadable."""
    found = compare_programs(runs, store)
    if found is not None:
        get_run_logger().info("%s", found.sentence)
    return found


@task(name="interleave", task_run_name="interleave the programs of {runs.case}", cache_policy=NO_CACHE)
def interleave_step(plans: tuple[RunPlan, RunPlan], runs: CaseRuns, limits: TurnLimits, store: Store) -> ProgramTimes:
    """Measure the step times of both plans' programs in turns. Starts both trainers for a few steps.

    Reuses the stored result of the same comparison.
    """
    directory = store.comparison(runs.comparison, runs.case, case_id(runs))
    found = interleave(plans, (plans[0].arm, plans[1].arm), Path(directory.path) / FOLDER, limits)
    get_run_logger().info("%s", found.problem or found.wall)
    return found


@task(name="experiments", task_run_name="compare the programs of {plans[0].case}", cache_policy=NO_CACHE)
def experiments_step(
    plans: tuple[RunPlan, RunPlan], request: Request, only: frozenset[Experiment], limits: TurnLimits, store: Store
) -> ComparisonRecord:
    """Compare the programs of two plans by experiments, without training. Starts both trainers for a few steps.

    Raises ValueError if a step cannot be recorded, because nothing can then be compared.
    """
    case, names = plans[0], (plans[0].arm, plans[1].arm)
    folder = Path(store.comparison(case.comparison, case.case, experiments_id(plans)).path) / FOLDER
    observations = record_arms(plans, (folder / SIDES[0], folder / SIDES[1]))
    if problem := name_problem(observations, names):
        raise ValueError(f"{case.case}: {problem}; without --only, the arms are trained and their runs are judged")
    paths = [folder / side / PROGRAM for side in SIDES]
    roots = (plans[0].checkout or plans[0].start_folder or "", plans[1].checkout or plans[1].start_folder or "")
    program = compare_program_files(paths[0], paths[1], names, roots)
    get_run_logger().info("%s", program.sentence)
    turns = None
    if "time" in only and program.answer != "same text":
        turns = interleave(plans, names, folder, limits)
        get_run_logger().info("%s", turns.problem or turns.wall)
    function = None
    if "function" in only and program.answer != "same text":
        small, stands_for = find_stand_ins(request, case.case, plans, store.path)
        place = folder / ("function" if stands_for else "")
        function = compare_functions(small, names, place, stands_for=stands_for)
        get_run_logger().info("%s", function.sentence)
    logs = (str(folder / SIDES[0] / LOG), str(folder / SIDES[1] / LOG))
    found = Experiments(
        plans=plans, observations=observations, logs=logs, program=program, turns=turns, function=function
    )
    return add_next_of_experiments(compare_by_experiments(found), plans)


@task(name="compare the functions", task_run_name="compare the functions of {runs.case}", cache_policy=NO_CACHE)
def compare_functions_step(request: Request, runs: CaseRuns, store: Store) -> FunctionComparison:
    """Decide in float64 whether both arms' steps compute one function. Starts both trainers for a few steps.

    Reuses the stored distances of the same comparison.
    """
    given = [run.plan for run in runs.runs if run.plan is not None]
    plans, stands_for = find_stand_ins(request, runs.case, given, store.path)
    directory = store.comparison(runs.comparison, runs.case, case_id(runs))
    folder = Path(directory.path) / FOLDER / ("function" if stands_for else "")
    found = compare_functions(plans, (plans[0].arm, plans[1].arm), folder, stands_for=stands_for)
    get_run_logger().info("%s", found.sentence)
    return found


@task(name="explain", task_run_name="explain {record.case}", cache_policy=NO_CACHE)
def explain_step(record: ComparisonRecord, runs: Sequence[RunRecord], store: Store) -> ComparisonRecord:
    """Return the comparison with an explanation of the arms' difference; unchanged if its runs cannot be repeated.

    Without a stored explanation, starts both trainers again for a few steps.
    """
    explanation = explain_comparison(record, runs, store)
    if explanation is None:
        return record
    get_run_logger().info("%s", explanation.headline)
    explanation = explanation.model_copy(update={"function": record.function})
    return record.model_copy(update={"explanation": explanation})


@task(name="compare the programs", task_run_name="compare the programs of {case}", cache_policy=NO_CACHE)
def diff_compiles_step(case: str, records: Sequence[RunRecord], store: Store) -> ComparisonRecord:
    """Compare the programs that a preflight compiled for a case's two arms."""
    return add_next_of_compiles(compare_case_compiled(records, store), records)


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


@task(name="repeat", task_run_name="decide whether to repeat {record.case}", cache_policy=NO_CACHE)
def repeat_step(record: ComparisonRecord, patience: Patience, repeats: int, spent_s: float) -> NextLook:
    """Return the repeats of the next comparison (None: stop), and why.

    repeats: runs per arm so far. spent_s: seconds since the flow's start.
    """
    look = next_look(record, repeats=repeats, patience=patience, spent_s=spent_s)
    get_run_logger().info("%s", look.why or "every judged row is decided, as far as repeats can")
    return look


@task(name="publish", task_run_name="publish {comparison.case}", **IO)
def publish_step(comparison: ComparisonRecord, store: Store, runs: Sequence[RunRecord] = ()) -> PublishedPage:
    """Publish a comparison as its page, its rows of the history and Prefect artifacts; return the page.

    runs: the comparison's runs that are in memory; missing ones are read from the store.
    """
    # Without PREFECT_API_URL the page has no link to the flow run: an embedded server has no user interface.
    address = flow_run.ui_url if os.environ.get("PREFECT_API_URL") else None
    page = find_page(publish_comparison(comparison, store, runs, flow_run=address or ""), store)
    name = (comparison.comparison, comparison.case, *(["preflight"] if comparison.programs else []))
    _show(name, summary_markdown(comparison), summary_description(comparison))
    _link(name, page, f"{' '.join(name)}: the page")
    return page


def _show(name: Sequence[str], text: str, description: str) -> None:
    """Create a Prefect artifact with a Markdown text. name: the parts of its key."""
    outlast(lambda: create_markdown_artifact(key=artifact_key(*name), markdown=text, description=description))


def _link(name: Sequence[str], page: PublishedPage, text: str) -> None:
    """Create a Prefect artifact with a link to a page. name: the parts of its key."""
    key, place = artifact_key(*name, "page"), escape_markdown(page.address)
    outlast(lambda: create_link_artifact(key=key, link=page.link, link_text=text, description=place))


@task(name="summarise", task_run_name="table of every case of {name}", **IO)
def summarise_step(comparisons: Sequence[ComparisonRecord], name: str) -> None:
    """Create a Prefect artifact: a table of all metrics of all cases, problems first."""
    key, rows = artifact_key(name, "rows"), table_rows(comparisons)
    outlast(lambda: create_table_artifact(key=key, table=rows, description="Every metric of every case"))


@task(name="plan the night", task_run_name="plan the night", **IO)
def plan_night_step(request: NightOptions, store: Store, scheduled: datetime | None) -> NightPlan:
    """Return the plan of the day's unfinished night of this request, else of a new night. scheduled: None means now.

    With `request.fresh`, the night is always new. The day is in UTC.
    """
    return plan_night(request, store, day=(scheduled or datetime.now(UTC)).astimezone(UTC).date())


finish_night_step = task(name="finish the night", task_run_name="finish the night {plan.id}", **IO)(finish_night)


@task(name="publish the night", task_run_name="publish the night {record.plan.id}", **IO)
def publish_night_step(record: NightRecord, store: Store) -> None:
    """Publish the night's summary: a Prefect artifact, the text of a comment in the store, and the store's index.

    Also compacts the history, which each comparison of the next night reads.
    """
    compact_history(store.files)
    store.files.write(f"nightly/{record.plan.id}/comment.md", comment_markdown(record).encode())
    publish_night(store, record)
    _show(["nightly"], night_markdown(record), night_headline(record))


@task(name="comment", task_run_name="comment on {place}", **IO)
def comment_step(body: str, place: str) -> str:
    """Create or update maxview's comment on the pull request `place`; return the comment's address."""
    address = put_comment(
        parse_pull_request(place), body, token=_find_token(), api=os.environ.get("GITHUB_API_URL") or API
    )
    get_run_logger().info("%s", address)
    return address


def _find_token() -> str:
    """Return GitHub's token from the environment or a Prefect block; Prefect would store it if it were a parameter.

    Raises CommentError if there is no token.
    """
    token = next((os.environ[name] for name in TOKENS if os.environ.get(name)), None)
    if token is not None:
        return token
    try:
        block = cast(Secret[str], Secret.load(TOKEN_BLOCK))
    except ValueError as error:
        raise CommentError(
            f"no token for GitHub: set {TOKENS[0]}, or create a Secret block named {TOKEN_BLOCK}"
        ) from error
    return str(block.get())


@task(name="tell what changed", task_run_name="tell what changed", **IO)
def notify_night_step(record: NightRecord, store: Store) -> None:
    """Emit an event with the night's changes, if any. A Prefect automation may send their text as a message."""
    text = night_message(record)
    if text:
        resource = {"prefect.resource.id": f"maxview.nightly.{record.plan.id}", "prefect.resource.name": "nightly"}
        emit_event(CHANGED_EVENT, resource=resource, payload={"text": text})


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
def choose_step(line: Line, judge: Judge, limits: Limits, spent_s: float) -> Train | Finish:
    """Return the next action of a bisection: the points to train, or the bisection's result.

    spent_s: seconds that the bisection's runs have taken so far.
    """
    action = next_action(line, judge, limits, spent_s=spent_s)
    get_run_logger().info("%s", action.why or "one commit is sure")
    return action


@task(name="publish the bisection", task_run_name="publish the bisection of {record.case}", **IO)
def publish_bisection_step(record: Bisection, store: Store) -> PublishedPage:
    """Publish a bisection's page and Prefect artifacts; return the page."""
    page = find_page(publish_bisection(record, store), store)
    name = ("bisect", record.comparison, record.case)
    _show(name, bisection_markdown(record), escape_markdown(record.headline))
    _link(name, page, "the page")
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
