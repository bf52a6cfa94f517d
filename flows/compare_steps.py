"""The steps of the flow `compare` as Prefect tasks, which add tracking, log lines and retries of I/O.

An arm is one of the two compared versions of a trainer, a case a model with its settings.
"""

import time
from collections.abc import Generator, Iterable, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

from prefect import task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from flows.step_parts import IO, show_text
from tasks.diff.examine.assemble_case import assemble_case, compare_kept, compare_saved
from tasks.diff.examine.cover_change import cover_programs
from tasks.diff.examine.examination import Examination
from tasks.diff.examine.examine_case import CaseRuns, case_id, examine, read_past_noise
from tasks.diff.examine.examine_steps import RecordedSteps, examine_steps, starts_differ
from tasks.diff.examine.floors import COMPILER_FLAGS
from tasks.diff.examine.page_id import page_id
from tasks.diff.judge.convergence import judge_convergence
from tasks.diff.judge.evidence import (
    add_evidence,
    keep,
    keep_loops,
    keep_one_program,
    keep_turns,
    read_earlier_runs,
    read_kept,
)
from tasks.diff.judge.judge_case import judge
from tasks.diff.judge.judge_stored import judge_stored
from tasks.diff.judge.one_executable import decide_one_executable
from tasks.diff.judge.repeat_rule import NextLook, Patience, next_look
from tasks.diff.judge.suggested_commands import add_next_of_experiments
from tasks.experiments.cycles import evaluated_recordings, have_cycles
from tasks.experiments.interleave import TurnLimits, interleave
from tasks.experiments.later_steps import compare_later_steps
from tasks.experiments.loops_in_turns import loop_limits, name_other_calls, time_loops
from tasks.experiments.observe_arm import recorded_source
from tasks.experiments.recordings import BATCHES, FOLDER, SIDES, name_problem, read_ends, record_again, record_arms
from tasks.experiments.runnable_arms import any_plans_of
from tasks.experiments.same_data import compare_recorded
from tasks.experiments.same_function import compare_functions
from tasks.ingest.loss_curves import loss_curve
from tasks.ingest.run_record import adopt_run, build_record, read_run_log
from tasks.launch import job
from tasks.launch.backend import LaunchedRun
from tasks.launch.logs import JobEvent, LogLine, rejoin_attempts, watch
from tasks.observe.earlier_runs import name_cases
from tasks.observe.noted_calls import add_calls
from tasks.observe.ran_lines import read_ran_lines
from tasks.programs.compare_lowered import compare_program_files
from tasks.publish.content.page_address import find_page
from tasks.publish.markdown.elements import artifact_key
from tasks.publish.page.convergence import convergence_page
from tasks.publish.terminal.convergence import show_convergence
from tasks.records.checkpoint_proof import CheckpointProof
from tasks.records.compared_case import ComparisonRecord
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.convergence import ConvergenceRecord
from tasks.records.data import DataComparison
from tasks.records.explanation import ProgramExplanation
from tasks.records.function import FunctionComparison
from tasks.records.host_times import HostTimes
from tasks.records.log_reading import RunEnded, StepCompleted
from tasks.records.loop_times import LoopTimes
from tasks.records.measurement import NOTHING, Measurements
from tasks.records.observation import LOG, PROGRAM
from tasks.records.plan import RunPlan
from tasks.records.program_times import ProgramTimes
from tasks.records.run import RunRecord
from tasks.resolve.blessed import blessed_runs
from tasks.resolve.options import Experiment
from tasks.resolve.plans import Request, resolve
from tasks.resolve.stand_ins import StandIns
from tasks.services.events import EVENTS, Comparing, Progressed
from tasks.services.outage import outlast, unless_away
from tasks.store.store import Store
from tasks.verify.verification import verify_saved

PROGRESS_EVERY_S = 1.0  # seconds; minimum between two updates of a progress artifact


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
    steps = plan.work.count(plan)
    key = artifact_key("progress", plan.case, plan.arm, f"r{plan.repeat}")
    description = f"{plan.run_name}: {plan.work.describe(plan)}"
    artifact = outlast(lambda: create_progress_artifact(progress=0.0, key=key, description=description))
    assert isinstance(artifact, UUID)  # Prefect returns a future only inside an async task
    updated = time.monotonic()
    done = 0
    for event in watch(job.follow(run)):
        if isinstance(event, LogLine):
            logger.info("%s", event.text)
            if not plan.work.has_steps:  # a compile prints one line per stage
                yield event
            continue  # no caller needs a trainer's lines, and yielding an event from a task costs milliseconds
        if isinstance(event, RunEnded):
            if event.error is not None:
                logger.error("%s: died: %s: %s", plan.run_name, event.error.type, event.error.message)
            if event.exit_code:
                logger.error("%s: ended with exit code %s", plan.run_name, event.exit_code)
            if event.exit_code is not None and not plan.work.has_steps:
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

    found = compare_saved(runs, store, tell)
    if found is not None:
        get_run_logger().info("step %s: %s", found.step, found.summary)
    return found


@task(name="scrape", task_run_name="scrape {run.plan.arm} {run.plan.case} r{run.plan.repeat}", **IO)
def scrape_step(run: LaunchedRun, proofs: Sequence[CheckpointProof]) -> RunRecord:
    """Write the run's record, the last file of a run that has ended, and return it.

    If the run resumed, first prepends the logs of its earlier attempts to its log.
    """
    directory = run.directory
    directory.check_files()
    rejoin_attempts(directory.log)
    reading = read_run_log(directory.log)
    if reading.steps.is_empty() and add_calls(run.plan, directory.path, directory.log):
        reading = read_run_log(directory.log)
    record = build_record(run.plan, directory, reading, proofs)
    directory.write_record(record)
    return record


def find_earlier_runs(runs: Sequence[RunRecord], store: Store) -> list[RunRecord]:
    """Return the further finished runs of the same two versions, which an earlier comparison trained."""
    plans = any_plans_of(runs)
    if plans is None:
        return []
    comparison, case = plans[0].comparison, plans[0].case
    directory = store.comparison(comparison, case, page_id(comparison, case, plans))
    return adopt_runs(read_earlier_runs(directory, store, runs), plans)


def has_evidence(plans: Sequence[RunPlan], store: Store, kinds: Iterable[Experiment]) -> bool:
    """Return whether one of these experiments was made before on the two versions of a case's plans."""
    first = list({plan.arm: plan for plan in reversed(plans)}.values())[::-1]
    directory = store.comparison(plans[0].comparison, plans[0].case, page_id(plans[0].comparison, plans[0].case, first))
    kept = read_kept(directory)
    return any(kept.best(kind) is not None for kind in kinds)


def adopt_runs(runs: Sequence[RunRecord], plans: Sequence[RunPlan]) -> list[RunRecord]:
    """Return runs of earlier requests, with the names of this request. plans: one per arm."""
    named = {plan.arm: plan for plan in plans}
    return [
        adopt_run(run, named[run.arm].replace(argv=run.plan.argv))
        for run in runs
        if run.plan is not None and run.arm in named
    ]


@task(name="judge convergence", task_run_name="judge convergence of {case}", **IO)
def converge_step(
    case: str, runs: Sequence[RunRecord], target_loss: float | None, store: Store
) -> tuple[ConvergenceRecord, str]:
    """Judge whether the second arm's seeds converge as the first arm's do; return the record and its page's address."""
    arms = list(dict.fromkeys(run.arm for run in runs))
    sides = [
        [
            loss_curve(run.reading).replace(name=f"{arm}, seed {seed}")
            for seed, run in enumerate(run for run in runs if run.arm == arm)
        ]
        for arm in arms
    ]
    record = judge_convergence(*sides, target=target_loss, same_seeds=True)
    record = record.replace(subject=f"{case}: {arms[1]} beside {arms[0]}")
    comparison = next(run.plan.comparison for run in runs if run.plan)
    name = f"convergence/{comparison}/{case}.html"
    store.files.write(name, convergence_page(record).encode())
    place = store.path / name
    key = (comparison, case, "convergence")
    page = find_page(place, store)
    show_text(key, f"```\n{show_convergence(record)}\n```", record.headline, page.shown)
    return record, store.address_of(place)


def examine_runs(runs: CaseRuns, store: Store) -> Examination:
    """Examine a case's two arms, with the store's history of equal runs on the target."""
    return decide_one_executable(examine(runs, read_past_noise(runs, store)))


@task(name="diff", task_run_name="diff {runs.case}", cache_policy=NO_CACHE)
def diff_step(runs: CaseRuns, examined: Examination, found: Measurements, store: Store) -> ComparisonRecord:
    """Judge a case's two arms by their examination and all measurements. found: the new ones."""
    return judge_stored(examined, runs.runs, store, cases=runs.cases, found=found)


@task(name="compare the steps", task_run_name="compare the steps of {runs.case}", cache_policy=NO_CACHE)
def compare_kept_programs_step(runs: CaseRuns, store: Store) -> ProgramExplanation | None:
    """Compare the lowered training steps that the runs kept; None if there are no two, or if one is unreadable."""
    found = compare_kept(runs, store)
    if found is not None:
        get_run_logger().info("%s", found.sentence)
    return found


def _report(case: str, text: str) -> None:
    EVENTS.put(Progressed(case, text))


@task(name="interleave", task_run_name="interleave the programs of {runs.case}", cache_policy=NO_CACHE)
def interleave_step(plans: tuple[RunPlan, RunPlan], runs: CaseRuns, limits: TurnLimits, store: Store) -> ProgramTimes:
    """Measure the step times of both plans' programs in turns. Starts both trainers for a few steps.

    Reuses the stored result of the same comparison.
    """
    directory = store.comparison(runs.comparison, runs.case, case_id(runs))
    if (kept := keep_turns(read_kept(directory), limits.limit_s)) is not None:
        return kept
    say = partial(_report, runs.case)
    found = interleave(plans, (plans[0].arm, plans[1].arm), Path(directory.path) / FOLDER, limits, say=say)
    get_run_logger().info("%s", found.problem or found.wall)
    return found


@task(name="loops", task_run_name="let the loops of {runs.case} take turns", cache_policy=NO_CACHE)
def time_loops_step(
    plans: tuple[RunPlan, RunPlan], runs: CaseRuns, limits: TurnLimits, store: Store, *, one_program: bool
) -> tuple[LoopTimes, HostTimes | None]:
    """Measure the step times of both plans' loops in turns, and of their hosts if these may decide one program's."""
    directory = store.comparison(runs.comparison, runs.case, case_id(runs))
    kept = read_kept(directory)
    known, known_host = keep_loops(kept, limits.limit_s), kept.host
    say = partial(_report, runs.case)
    folder = Path(directory.path) / FOLDER
    loops, host = time_loops(plans, folder, limits, known, known_host, one_program=one_program, say=say)
    get_run_logger().info("%s", loops.problem or loops.wall)
    return loops, host


@task(name="experiments", task_run_name="compare the programs of {plans[0].case}", cache_policy=NO_CACHE)
def experiments_step(
    plans: tuple[RunPlan, RunPlan],
    stand_ins: StandIns,
    only: frozenset[Experiment],
    limits: TurnLimits,
    store: Store,
    cases: int,
) -> ComparisonRecord:
    """Compare the programs of two plans by experiments, without training. Starts both trainers for a few steps.

    The verdict is judged by these and all earlier measurements and runs of the two versions.
    A trainer that fails before its step is a death, with its cause. Raises ValueError if a step cannot be recorded for
    another reason, because nothing can then be compared.
    """
    case, names = plans[0], (plans[0].arm, plans[1].arm)
    say = partial(_report, case.case)
    directory = store.comparison(case.comparison, case.case, page_id(case.comparison, case.case, plans))
    folder = Path(directory.path) / FOLDER
    earlier = adopt_runs(read_earlier_runs(directory, store, ()), plans)
    small, stands_for = (stand_ins.choose(plans), stand_ins.stands_for) if "function" in only else (plans, "")
    here = plans if "time" in only and all(plan.backend == "local" for plan in plans) else small
    observations = record_arms(here, (folder / SIDES[0], folder / SIDES[1]), timed="time" in only)
    logs = (folder / SIDES[0] / LOG, folder / SIDES[1] / LOG)
    texts = (str(logs[0]), str(logs[1]))
    ends = read_ends(observations, logs, here)
    if any(ends) and not earlier and not read_kept(directory).measurements:
        found = RecordedSteps(plans=plans, observations=observations, logs=texts, asked=tuple(only), ends=ends)
        return add_next_of_experiments(judge(examine_steps(found)), plans)
    if problem := name_problem(observations, names):
        raise ValueError(f"{case.case}: {problem}; without --only, the arms are trained and their runs are judged")
    recordings = (folder / SIDES[0], folder / SIDES[1])
    cycles = "function" in only and have_cycles(observations)
    paths = [one / PROGRAM for one in evaluated_recordings(observations, recordings, cycles=cycles)]
    roots = (recorded_source(here[0], folder / SIDES[0]), recorded_source(here[1], folder / SIDES[1]))
    program = None
    try:
        program = compare_program_files(paths[0], paths[1], names, roots)
        if here is not plans:
            program = program.replace(sentence=f"{program.sentence}; {stands_for}")
        get_run_logger().info("%s", program.sentence)
    except ValueError as error:  # the experiments tell why nothing is known
        get_run_logger().warning("the programs are not compared: %s", error)
    flags = [[plan.environment.get(name) for name in COMPILER_FLAGS] for plan in here]
    compiler = (observations[0].software, flags[0]) == (observations[1].software, flags[1])
    # equal cycles are evaluated, too: that names their functions
    one = program is not None and program.answer == "same text" and compiler and not cycles
    if one:
        keep_one_program(directory, only)
    if "time" in only and not one and keep_turns(read_kept(directory), limits.limit_s) is None:
        turns = interleave(plans, names, folder, limits, say=say)
        get_run_logger().info("%s", turns.problem or turns.wall)
        keep(directory, time=turns)
    if "time" in only:
        limits = loop_limits(here[0], observations[0].platform, cases=cases, limit_s=limits.limit_s)
        known = keep_loops(read_kept(directory), limits.limit_s) or name_other_calls(observations, names)
        known_host = read_kept(directory).host
        loops, host = time_loops(here, folder, limits, known, known_host, one_program=one, say=say)
        get_run_logger().info("%s", loops.problem or loops.wall)
        keep(directory, loop=loops, host=host)
    if "function" in only and not one:
        place = folder / ("function" if stands_for and here is plans else "")
        function = compare_functions(small, names, place, stands_for=stands_for, until_decided=not earlier, say=say)
        get_run_logger().info("%s", function.sentence)
        keep(directory, function=function)
    if "function" in only:
        keep(directory, data=compare_recorded(folder, say))
    kept = read_kept(directory)
    if earlier:
        runs = assemble_case(plans, earlier, store, cases=cases)
        record: ComparisonRecord = diff_step(runs, examine_runs(runs, store), NOTHING, store)
        return record
    again = record_again(here[0], folder) if starts_differ(observations) else None
    wanted = min(BATCHES, int(here[0].config["steps"]))
    ran = (read_ran_lines([folder / SIDES[0]]), read_ran_lines([folder / SIDES[1]]))
    coverage = name_cases(cover_programs(here, observations, ran, kept.function, wanted), here[1], store)
    if "function" in only and coverage is not None and coverage.on_host and not any(ends):
        recorded = min(one.loop.calls for one in observations if one.loop is not None)
        coverage = coverage.replace(later=compare_later_steps(here, folder, recorded, say))
    found = RecordedSteps(
        plans=plans, observations=observations, logs=texts, asked=kept.asked, program=program, coverage=coverage,
        batches=kept.data.steps if kept.data is not None else None, again=again,
        loops=kept.loops is not None and not kept.loops.problem,
    )  # fmt: skip
    record = judge(examine_steps(found), kept.counting)
    return add_evidence(add_next_of_experiments(record, plans), directory)


@task(name="compare the functions", task_run_name="compare the functions of {runs.case}", cache_policy=NO_CACHE)
def compare_functions_step(stand_ins: StandIns, runs: CaseRuns, store: Store) -> FunctionComparison:
    """Decide in float64 whether both arms' steps compute one function. Starts both trainers for a few steps.

    Reuses the stored distances of the same comparison.
    """
    given = [run.plan for run in runs.runs if run.plan is not None]
    plans, stands_for = stand_ins.choose(given), stand_ins.stands_for
    directory = store.comparison(runs.comparison, runs.case, case_id(runs))
    folder = Path(directory.path) / FOLDER / ("function" if stands_for else "")
    say = partial(_report, runs.case)
    found = compare_functions(plans, (plans[0].arm, plans[1].arm), folder, stands_for=stands_for, say=say)
    get_run_logger().info("%s", found.sentence)
    return found


@task(name="compare the data", task_run_name="compare the batches of {runs.case}", cache_policy=NO_CACHE)
def compare_data_step(stand_ins: StandIns, runs: CaseRuns, store: Store) -> DataComparison | None:
    """Compare the batches of both recorded steps, which `compare_functions_step` recorded; None without recordings.

    Where they differ, the baseline's step runs in float64 with both.
    """
    directory = store.comparison(runs.comparison, runs.case, case_id(runs))
    folder = Path(directory.path) / FOLDER / ("function" if stand_ins.stands_for else "")
    found = compare_recorded(folder, partial(_report, runs.case))
    get_run_logger().info("%s", found)
    return found


@task(name="repeat", task_run_name="decide whether to repeat {record.case}", cache_policy=NO_CACHE)
def repeat_step(record: ComparisonRecord, patience: Patience, repeats: int, spent_s: float) -> NextLook:
    """Return the repeats of the next comparison (None: stop), and why.

    repeats: runs per arm so far. spent_s: seconds since the flow's start.
    """
    look = next_look(record, repeats=repeats, patience=patience, spent_s=spent_s)
    get_run_logger().info("%s", look.why or "every judged row is decided, as far as repeats can")
    return look
