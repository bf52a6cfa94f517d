"""The flow `compare`: resolve → preflight → launch → watch and verify → scrape → checkpoints → diff → publish.

An arm is one of the two compared versions. A case is a set of config values that both arms share.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Cancelled

from configs.comparison import ENOUGH_REPEATS, load_comparison
from configs.questions import find_functions
from flows.compare_steps import (
    blessed_step,
    compare_checkpoints_step,
    compare_data_step,
    compare_functions_step,
    compare_kept_programs_step,
    converge_step,
    diff_step,
    examine_runs,
    experiments_step,
    find_earlier_runs,
    has_evidence,
    interleave_step,
    launch_step,
    repeat_step,
    resolve_step,
    scrape_step,
    time_loops_step,
    verify_step,
    watch_step,
)
from flows.publish_steps import comment_step, publish_case, show_verdict
from tasks.diff.examine.assemble_case import CaseSteps, assemble_case
from tasks.diff.examine.examination import Examination
from tasks.diff.examine.examine_case import CaseRuns, case_id
from tasks.diff.judge.evidence import keep_loops, read_kept
from tasks.diff.judge.gate import GateRule, judge_gate, read_gate
from tasks.diff.judge.repeat_rule import NextLook, Patience
from tasks.experiments.interleave import OFF, TurnLimits, limits_of, say_cost
from tasks.experiments.interleave import RESULT as TURNS
from tasks.experiments.loops_in_turns import COST as LOOP_COST
from tasks.experiments.loops_in_turns import loop_limits
from tasks.experiments.recordings import FOLDER
from tasks.experiments.runnable_arms import any_plans_of, has_other_cost, plans_of, wants_explanation
from tasks.experiments.same_function import RESULT as FUNCTION_RESULT
from tasks.experiments.same_function import say_cost_of_function
from tasks.experiments.turns_job import find_obstacle, plan_turns, read_turns
from tasks.ingest.run_record import adopt_run
from tasks.launch.job import check_target, find_checkpoint
from tasks.launch.owners import find_finished, forget
from tasks.programs.kept_programs import have_programs
from tasks.publish.content.page_address import PublishedPage
from tasks.publish.markdown.comment import comparison_comment
from tasks.records.checkpoint_proof import CheckpointProof
from tasks.records.compared_case import ComparisonRecord
from tasks.records.function import FunctionComparison
from tasks.records.log_reading import CheckpointCommitted
from tasks.records.measurement import Measurements
from tasks.records.plan import RunPlan
from tasks.records.program_times import ProgramTimes
from tasks.records.run import RunRecord
from tasks.resolve.changed_code import changed_between
from tasks.resolve.options import EXPERIMENTS, INTERLEAVE_S, CompareOptions, Experiment
from tasks.resolve.plans import Request, request_comparison, with_seed
from tasks.resolve.stand_ins import StandIns, first_of_arms, is_on_cpu, resolve_stand_ins
from tasks.services.costs import AFTER, RUN, note_cost, tell_cost
from tasks.services.events import (
    EVENTS,
    Converged,
    Costing,
    Explaining,
    Judged,
    Logged,
    Planned,
    Replanned,
    Reused,
    Troubled,
    Verified,
)
from tasks.services.flow_names import unless_named
from tasks.services.flow_runs import job_flow
from tasks.services.prefect_ui import (
    convergence_state,
    final_state,
    log_result,
    name_comparison,
    name_outcome,
    tag_run,
    with_parameters_of,
)
from tasks.services.pull_request import parse_pull_request
from tasks.services.running_jobs import Jobs, Stopped, held_job, held_run
from tasks.services.slices import slice_of
from tasks.store.store import Store, open_store
from tasks.verify.steps_to_prove import find_unverified

CASE_STEPS = CaseSteps(blessed_step, compare_checkpoints_step, compare_kept_programs_step)


@unless_named
def name_run() -> str:
    """Return the flow run's name: cases, arms and target."""
    given = flow_run.parameters
    refs = (given.get("baseline"), given.get("branch"))
    return name_comparison(given["comparison"], given.get("cases"), given.get("target"), refs)


@job_flow(
    name="compare",
    flow_run_name=name_run,
    description="Train both arms of a comparison and say what differs.",
)
@with_parameters_of(CompareOptions)
def compare(options: CompareOptions) -> State[Any]:
    """Train both arms of every case, verify their checkpoints during training, and publish the differences."""
    more = options.more
    if more.comment:
        parse_pull_request(more.comment)  # reports a mistake before anything is trained
    most = more.max_repeats or ENOUGH_REPEATS
    if (seeds := options.read_seeds()) is not None:
        return converge_cases(request_comparison(options), open_store(options.out), Jobs(), seeds, more.target_loss)
    patience = Patience(budget_s=options.read_budget(), most=most) if more.until_decided else None
    return compare_cases(
        request_comparison(options), open_store(options.out), Jobs(), patience=patience, take_over=more.take_over,
        pull_request=more.comment or None, interleave_s=options.read_interleave(), only=options.read_only(),
        gate=read_gate(more.gate),
    )  # fmt: skip


def compare_cases(
    request: Request,
    store: Store,
    jobs: Jobs,
    *,
    patience: Patience | None = None,
    take_over: bool = False,
    pull_request: str | None = None,
    interleave_s: float | None = INTERLEAVE_S,
    only: frozenset[Experiment] = frozenset(),
    gate: Sequence[GateRule] = (),
    beside: int = 0,
) -> State[Any]:
    """Compare every case of a request; return the flow's final state.

    patience: limits of the further repeats of undecided cases; None: no further repeats.
    pull_request: "owner/name#12", which gets a comment with the verdict; None: no comment is written.
    interleave_s: limit of the turns of a case's programs in seconds; None: no turns.
    only: the experiments to make instead of training; empty: train.
    gate: the questions that count for the final state; empty: every judged row counts.
    beside: number of this comparison's other cases in other flow runs of the same night.
    """
    began = time.monotonic()
    if only:
        request = request.replace(repeats=1)
    repeats = request.repeats or load_comparison(request.comparison).repeats
    # Resolve all possible repeats now, because a branch may move before the later ones run.
    most = request.replace(repeats=max(repeats, patience.most)) if patience else request
    all_plans = resolve_step(most, store)
    plans = [plan for plan in all_plans if plan.repeat < repeats]
    asks_function = "function" in only if only else wants_explanation(request.comparison)
    stand_ins = resolve_stand_ins(request, plans, store.path) if asks_function else {}
    tag_run(request.comparison, [*dict.fromkeys(plan.case for plan in plans)], plans[0].target, [request.arms.branch])
    finished = [plan.run_name for plan in plans if not only and find_finished(store.run(plan.run_name)) is not None]
    EVENTS.put(Costing(tell_cost(plans, frozenset(finished), only)))
    EVENTS.put(Planned(plans))
    comparisons: list[tuple[ComparisonRecord, PublishedPage]] = []
    cases_in_all = len({plan.case for plan in plans}) + beside

    def run(plans: list[RunPlan]) -> Iterator[RunRecord]:
        return run_all(plans, store, jobs, take_over=take_over)

    try:
        if not only:
            check_target([plan for plan in plans if find_finished(store.run(plan.run_name)) is None], store)
        refused: dict[str, ComparisonRecord] = {}
        for refuse in () if only else find_functions("refuse_cases"):
            refused |= refuse(request, plans[0].target, store, jobs)
        for case, group in groupby(plans, key=lambda plan: plan.case):
            if case in refused:
                comparisons.append(publish_case(refused[case].replace(gate=judge_gate(refused[case], gate)), store))
                continue
            case_began = started = time.monotonic()
            if only:
                own = list(group)
                is_new = not has_evidence(own, store, only)
                stands = stand_ins.get(case, StandIns())
                result = compare_programs_of(stands, own, store, only, interleave_s, cases=cases_in_all)
                if is_new:
                    note_cost(",".join(sorted(only)), own[0], time.monotonic() - started)
                comparisons.append(publish_case(finish_case(result, gate, case_began), store))
                continue
            own = list(group)
            is_new, spent_s = not has_evidence(own, store, EXPERIMENTS), 0.0
            if is_new and repeats > 1 and interleave_s is not None and case in stand_ins and can_look_first(own, store):
                look_first(stand_ins[case], own, store, interleave_s, cases=cases_in_all)
                spent_s, started = time.monotonic() - started, time.monotonic()
            trained = list(run(own))
            if todo := sum(plan.run_name not in finished for plan in own):
                note_cost(RUN, own[0], (time.monotonic() - started) / todo)
            started = time.monotonic()
            trained += find_earlier_runs(trained, store)
            runs = assemble_case(own, trained, store, cases=cases_in_all, steps=CASE_STEPS)
            runs = runs.replace(look=None if patience is None else 1)
            examined = examine_runs(runs, store)
            found = make_experiments(runs, examined, stand_ins.get(case), store, jobs, interleave_s)
            if is_new:
                note_cost(AFTER, own[0], spent_s + time.monotonic() - started)
            look = partial(look_at, first=(runs, examined), found=found, store=store)
            if patience is None:
                result = look(runs)
            else:
                result = run_until_decided(
                    runs,
                    all_plans,
                    look=look,
                    decide=lambda record, repeats: repeat_step(record, patience, repeats, time.monotonic() - began),
                    run=run,
                )
            records = list(runs.runs)
            given = [record.plan for record in records if record.plan is not None]
            here = plans_of(records) or find_plans_of_function(stand_ins.get(case, StandIns()), result, given)
            extended = extend_case(result, here, store, records)
            comparisons.append(publish_case(finish_case(extended, gate, case_began), store, records))
    except Stopped as stopped:  # the flow is being ended, by Ctrl-C or with its night
        return Cancelled(message=str(stopped))
    results = [result for result, _ in comparisons]
    show_verdict(comparisons, request.comparison)
    problem = write_comment(comparisons, request.comparison, pull_request) if pull_request else ""
    if problem:
        EVENTS.put(Troubled(problem))
    forget([flow_run.id], store)
    log_result((f"{result.case}: {result.headline}", page.shown) for result, page in comparisons)
    name_outcome(results)
    return final_state(results, problem)


def finish_case(record: ComparisonRecord, gate: Sequence[GateRule], began: float) -> ComparisonRecord:
    """Return the comparison with its duration, judged by a gate if there is one. began: by the monotonic clock."""
    return record.replace(gate=judge_gate(record, gate), took_s=round(time.monotonic() - began, 1))


def converge_cases(
    request: Request, store: Store, jobs: Jobs, seeds: int, target_loss: float | None = None
) -> State[Any]:
    """Train both arms of every case with each seed, and judge whether they converge alike; return the final state."""
    plans = [plan for seed in range(seeds) for plan in resolve_step(with_seed(request, seed), store)]
    cases = [*dict.fromkeys(plan.case for plan in plans)]
    tag_run(request.comparison, cases, plans[0].target, [request.arms.branch])
    EVENTS.put(Planned(plans))
    check_target([plan for plan in plans if find_finished(store.run(plan.run_name)) is None], store)
    found = []
    try:
        for case in cases:
            runs = list(run_all([plan for plan in plans if plan.case == case], store, jobs))
            record, place = converge_step(case, runs, target_loss, store)
            EVENTS.put(Converged(record, place))
            found.append((record, place))
    except Stopped as stopped:
        return Cancelled(message=str(stopped))
    forget([flow_run.id], store)
    log_result((f"{record.subject}: {record.headline}", place) for record, place in found)
    return convergence_state([record for record, _ in found])


def run_all(plans: list[RunPlan], store: Store, jobs: Jobs, *, take_over: bool = False) -> Iterator[RunRecord]:
    """Yield the records of a case's runs in order: finished runs from the store, and others after training them.

    Reserves a slice of the target as soon as a run has to be trained, until all runs have ended, so that no other
    comparison runs between the arms. Each trained run may restore a checkpoint of the other arm as a proof.
    """
    holding = False
    with ExitStack() as held:
        for plan in plans:
            finished = find_finished(store.run(plan.run_name))
            if finished is not None:
                EVENTS.put(Reused(plan))
                yield adopt_run(finished, plan)
                continue
            if not holding:
                held.enter_context(slice_of(plan.target))
                holding = True
            yield run_one(plan, store, jobs, among=plans, take_over=take_over)


def run_one(plan: RunPlan, store: Store, jobs: Jobs, *, among: list[RunPlan], take_over: bool = False) -> RunRecord:
    """Launch, watch, verify and scrape one run, unless it has finished meanwhile; return its record."""
    with held_run(plan, store, jobs, take_over=take_over) as finished:
        if finished is not None:
            return adopt_run(finished, plan)
        proofs: list[PrefectFuture[CheckpointProof]] = []
        with held_job(plan, store, jobs, launch=lambda: launch_step(plan, among, store)) as run:
            for event in watch_step(run):
                EVENTS.put(Logged(run, event))
                jobs.check()
                if isinstance(event, CheckpointCommitted) and run.checkpoints:
                    proofs.append(verify_step.submit(find_checkpoint(run, event.step), run.directory.manifests))
        done = [future.result() for future in proofs]
        done += [verify_step(path, run.directory.manifests) for path in find_unverified(run.checkpoints, done)]
        EVENTS.put(Verified(run, done))
        for act in find_functions("after_run"):
            act(run, among)
        record: RunRecord = scrape_step(run, done)
        return record


def make_experiments(
    runs: CaseRuns,
    examined: Examination,
    stand_ins: StandIns | None,
    store: Store,
    jobs: Jobs,
    limit_s: float | None,
) -> Measurements:
    """Return the results of the experiments that the examination needs. A failure is reported, and runs are judged.

    stand_ins: the plans of the case on processors; None: `explain: off` in the comparison's file, so the programs are
    not compared. limit_s: of the turns of both programs in seconds; None: no times are measured.
    """
    needed, plans = examined.needed, any_plans_of(runs.runs)
    found: dict[str, Any] = {}
    if plans is not None and limit_s is not None:
        if (
            "time" in needed
            and stand_ins is not None
            and (plans[0].backend != "local" or have_programs(runs.runs, store))
        ):
            found["turns"] = time_programs_of(plans, runs, store, jobs, limit_s)
        if needed & {"time", "host"} and plans[0].backend == "local":
            found |= time_loops_of(plans, runs, store, limit_s, one_program="host" in needed)
    if "function" in needed and stand_ins is not None:
        found["function"] = compare_functions_of(stand_ins, runs, store)
        if "data" in needed and found["function"] is not None:
            found["data"] = compare_data_step(stand_ins, runs, store)
    return Measurements(**found)


def is_kept(runs: CaseRuns, store: Store, result: str) -> bool:
    """Return whether an experiment has a result, as after a first look. It is made again only if something changed."""
    return Path(store.comparison(runs.comparison, runs.case, case_id(runs)).path, FOLDER, result).is_file()


def time_programs_of(
    plans: tuple[RunPlan, RunPlan], runs: CaseRuns, store: Store, jobs: Jobs, limit_s: float
) -> ProgramTimes | None:
    """Return the step times of both programs in turns; None if they could not be measured."""
    is_local = plans[0].backend == "local"
    if not is_local and (obstacle := find_obstacle(plans)):
        return ProgramTimes(problem=f"{obstacle}: runs are judged")
    limits = limits_of(runs.rules, cases=runs.cases, limit_s=limit_s)
    if not is_kept(runs, store, TURNS):
        EVENTS.put(Explaining(runs.case, f"the programs differ, also in time? {say_cost(limits)}; {OFF}"))
    try:
        with slice_of(plans[0].target):
            if not is_local:
                return time_in_job(plan_turns(plans, limits, store), limits, store, jobs)
            found: ProgramTimes = interleave_step(plans, runs, limits, store)
    except Exception as error:
        get_run_logger().exception("%s failed", interleave_step.name)
        EVENTS.put(Troubled(f"the programs of {runs.case} did not take turns: {type(error).__name__}: {error}"))
        return None
    return found


def time_loops_of(
    plans: tuple[RunPlan, RunPlan], runs: CaseRuns, store: Store, limit_s: float, *, one_program: bool
) -> dict[str, Any]:
    """Return the step times of both loops in turns, and of their hosts; {} if they could not be measured."""
    limits = loop_limits(plans[0], runs.runs[0].reading.environment.backend, cases=runs.cases, limit_s=limit_s)
    directory = store.comparison(runs.comparison, runs.case, case_id(runs))
    if keep_loops(read_kept(directory), limits.limit_s) is None:
        EVENTS.put(
            Explaining(runs.case, f"do the loops differ in time? Both run in turns for at most {limit_s:.0f} s; {OFF}")
        )
    try:
        with slice_of(plans[0].target):
            loops, host = time_loops_step(plans, runs, limits, store, one_program=one_program)
    except Exception as error:
        get_run_logger().exception("%s failed", time_loops_step.name)
        EVENTS.put(Troubled(f"the loops of {runs.case} took no turns: {type(error).__name__}: {error}"))
        return {}
    return {"loops": loops, "host": host}


def time_in_job(plan: RunPlan, limits: TurnLimits, store: Store, jobs: Jobs) -> ProgramTimes:
    """Run the job that times both programs on a cluster, and return the result in its log."""
    EVENTS.put(Replanned([plan], ""))
    with held_job(plan, store, jobs, launch=lambda: launch_step(plan, [plan], store)) as run:
        for event in watch_step(run):
            EVENTS.put(Logged(run, event))
            jobs.check()
        EVENTS.put(Verified(run, []))
    return read_turns(run.directory.log, limits)


def compare_functions_of(stand_ins: StandIns, runs: CaseRuns, store: Store) -> FunctionComparison | None:
    """Return whether both arms compute one function; None if the experiment failed."""
    cost = say_cost_of_function(store, runs.comparison, runs.case)
    if not is_kept(runs, store, FUNCTION_RESULT):
        EVENTS.put(Explaining(runs.case, f"the programs or their bits differ: do they compute one function? {cost}"))
    try:
        with slice_of(runs.target):
            found: FunctionComparison = compare_functions_step(stand_ins, runs, store)
    except Exception as error:
        get_run_logger().exception("%s failed", compare_functions_step.name)
        EVENTS.put(Troubled(f"the functions of {runs.case} are not compared: {type(error).__name__}: {error}"))
        return None
    return found


def can_look_first(plans: Sequence[RunPlan], store: Store) -> bool:
    """Return whether both programs can be compared before the runs: on processors, of other code, and a run is missing.

    An accelerator is not taken for it.
    """
    first = first_of_arms(plans)
    changed = changed_between(first[0], first[1]) if all(map(is_on_cpu, first)) else None
    is_other = changed is not None and bool(changed.files)
    return is_other and any(find_finished(store.run(plan.run_name)) is None for plan in plans)


def look_first(stand_ins: StandIns, plans: Sequence[RunPlan], store: Store, limit_s: float, *, cases: int) -> None:
    """Tell what both programs tell before anything is trained: function and time, which the runs' verdict uses again.

    A failure is reported, and the runs are judged.
    """
    left, right = first_of_arms(plans)
    limits = limits_of(left.rules, cases=cases, limit_s=limit_s)
    costs = f"{say_cost_of_function(store, left.comparison, left.case)}; {say_cost(limits)}, {LOOP_COST}; {OFF}"
    EVENTS.put(Explaining(left.case, f"a first look, before the runs: {costs}"))
    try:
        with slice_of(left.target):
            record = experiments_step((left, right), stand_ins, frozenset(EXPERIMENTS), limits, store, cases)
    except Exception as error:
        get_run_logger().exception("%s failed", experiments_step.name)
        EVENTS.put(Troubled(f"{left.case}: no first look: {type(error).__name__}: {error}"))
        return
    EVENTS.put(Judged(record, "This is a first look. The runs begin."))


def compare_programs_of(
    stand_ins: StandIns,
    plans: list[RunPlan],
    store: Store,
    only: frozenset[Experiment],
    limit_s: float | None,
    *,
    cases: int,
) -> ComparisonRecord:
    """Compare the programs of a case's two arms by the experiments in `only`, without training.

    If the arms compute two functions, the first tensor that differs is searched; of other times or memory, the lines.
    """
    both = (plans[0], plans[1])
    limits = limits_of(plans[0].rules, cases=cases, limit_s=limit_s or INTERLEAVE_S)
    of_function = say_cost_of_function(store, plans[0].comparison, plans[0].case)
    costs = [of_function if one == "function" else f"{say_cost(limits)}, {LOOP_COST}" for one in sorted(only)]
    EVENTS.put(Explaining(plans[0].case, f"nothing is trained: {'; '.join(costs)}"))
    with slice_of(plans[0].target):
        record: ComparisonRecord = experiments_step(both, stand_ins, only, limits, store, cases)
    explained = find_plans_of_function(stand_ins, record, both)
    if explained is None and has_other_cost(record) and all(plan.backend == "local" for plan in plans):
        explained = both
    if explained is None:
        return record
    EVENTS.put(Judged(record, "Its cause is searched."))
    return extend_case(record, explained, store)


def find_plans_of_function(
    stand_ins: StandIns, record: ComparisonRecord, plans: Sequence[RunPlan]
) -> tuple[RunPlan, RunPlan] | None:
    """Return the plans whose functions were evaluated, if these are two functions, else None. plans: of the runs."""
    found = record.function
    if found is None or found.answer != "another" or found.is_beyond_run:  # nothing differs at the recorded states
        return None
    return stand_ins.choose(plans)


def extend_case(
    result: ComparisonRecord, plans: tuple[RunPlan, RunPlan] | None, store: Store, runs: Sequence[RunRecord] = ()
) -> ComparisonRecord:
    """Return the comparison with what the questions beside the pipeline add.

    plans: of both arms; None if they cannot run here again.
    """
    for extend in find_functions("after_case"):
        result = extend(result, plans, store, runs)
    return result


def write_comment(comparisons: list[tuple[ComparisonRecord, PublishedPage]], name: str, pull_request: str) -> str:
    """Write the comment on a pull request. Returns "", or the message about an error, which is not raised."""
    try:
        comment_step(comparison_comment(comparisons, name), pull_request)
    except Exception as error:
        get_run_logger().exception("%s failed", comment_step.name)
        return f"no comment: {type(error).__name__}: {error}"
    return ""


def look_at(
    runs: CaseRuns, *, first: tuple[CaseRuns, Examination], found: Measurements, store: Store
) -> ComparisonRecord:
    """Return the comparison of the runs. first: the runs that were examined already, with their examination."""
    known, examined = first
    record: ComparisonRecord = diff_step(runs, examined if runs is known else examine_runs(runs, store), found, store)
    return record


def run_until_decided(
    runs: CaseRuns,
    all_plans: list[RunPlan],
    *,
    look: Callable[[CaseRuns], ComparisonRecord],
    decide: Callable[[ComparisonRecord, int], NextLook],
    run: Callable[[list[RunPlan]], Iterable[RunRecord]],
) -> ComparisonRecord:
    """Compare the runs; while `decide` returns more repeats, run these with alternating arms and compare again.

    Returns the last comparison.

    look: compares the runs. all_plans: plans of all repeats that may be run. decide: (comparison, its runs per arm) →
    the total runs per arm of the next comparison (None: stop), and the reason.
    """
    while True:
        result = look(runs)
        repeats = sum(run.arm == runs.runs[-1].arm for run in runs.runs)
        following = decide(result, repeats)
        numbers = range(repeats, following.repeats or repeats)
        plans = [plan for plan in all_plans if plan.case == runs.case and plan.repeat in numbers]
        EVENTS.put(Replanned(plans, following.why))
        if not plans:
            return result
        runs = runs.replace(look=(runs.look or 1) + 1, runs=(*runs.runs, *run(plans)))
