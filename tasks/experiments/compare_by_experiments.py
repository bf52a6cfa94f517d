"""Compares two arms by experiments on their programs, without training: the `ComparisonRecord` that pages show."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from configs.frozen import Frozen
from configs.verdict_rules import load_verdict_rules
from tasks.diff.arms import ArmRuns, summarise
from tasks.diff.comparability import KINDS_WITHOUT_RUNS, find_findings
from tasks.diff.compare_case import add_code_note
from tasks.diff.compare_runs import conclude, page_id
from tasks.diff.cover_change import change_row
from tasks.diff.data_rows import data_row, find_data, tell_data
from tasks.diff.decide import ONE_PROGRAM
from tasks.diff.decide_by_function import rounding_row
from tasks.diff.floors import floor_of_function, has_same_program, run_one_executable
from tasks.diff.metric_rows import make_row, not_judged
from tasks.diff.program_time_rows import find_disagreement, program_time_row, turned_memory_row
from tasks.diff.run_events import death_row
from tasks.experiments.recordings import Both
from tasks.metrics.result_metrics import DATA, FIRST_CALL, FUNCTION
from tasks.metrics.time_metrics import PROGRAM_TIME
from tasks.records.change import ChangeCoverage
from tasks.records.compared_case import ComparisonRecord, Decision, Floor, MetricDiff, Verdict
from tasks.records.data import DataComparison
from tasks.records.explanation import ProgramExplanation
from tasks.records.function import FunctionComparison
from tasks.records.log_reading import Coverage, Environment, RunReading
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan
from tasks.records.program_times import ProgramTimes
from tasks.records.run import RunRecord
from tasks.records.run_facts import Measured
from tasks.records.text import counted
from tasks.resolve.trainers import trainer_class

# what no experiment tries, and the questions of --only, with the words for each if it was not asked
LATER = "later batches"
NEVER_TRIED = ("checkpoints", "evaluations", "long curves", LATER, "the host loop")
QUESTIONS = {"function": "the function of the steps", "time": "step times"}
DRAWN_ANEW = "so do those of two runs of the baseline, which draws them without a seed"
SHOWN = 3  # names in a sentence


class Experiments(Frozen):
    """The recorded steps of both arms, and what the experiments on them found; None: not tried."""

    plans: Both[RunPlan]
    observations: Both[Observation]
    logs: Both[str]  # of the processes that recorded the steps
    asked: tuple[str, ...] = tuple(QUESTIONS)  # of QUESTIONS
    program: ProgramExplanation | None = None
    turns: ProgramTimes | None = None
    function: FunctionComparison | None = None
    coverage: ChangeCoverage | None = None
    data: DataComparison | None = None
    again: Observation | None = (
        None  # the baseline's step recorded once more, if the first steps are given other arrays
    )
    ends: Both[RunReading | None] = (None, None)  # the logs of trainers that failed before their step


def compare_by_experiments(found: Experiments) -> ComparisonRecord:
    """Return the comparison of two arms that were not trained. Its headline says what was not tried."""
    plan = found.plans[0]
    rules = plan.rules or load_verdict_rules(plan.comparison, plan.target)
    runs = [run_of(*one) for one in zip(found.plans, found.observations, found.logs, found.ends, strict=True)]
    left, right = (ArmRuns(name=run.arm, label=run.label, runs=(run,)) for run in runs)
    arms = (left, right)
    every = find_findings(arms, declared=frozenset(rules.declared), effects=rules.effects, aa=plan.aa, parities=())
    findings = [one for one in every if one.kind in (*KINDS_WITHOUT_RUNS, "died")]
    findings += find_disagreement(found.turns, rules.effects)
    floors = list(_floors(found.program, found.function))
    proved = run_one_executable(arms, floors)
    rows: list[MetricDiff] = []
    rows += [death_row(arms, survived="its step was recorded")] if any(arm.dead for arm in arms) else []
    cells = Measured(text="one program")
    if "time" in found.asked and proved:
        decision = Decision(verdict="same", reason="both arms have one program", evidence=ONE_PROGRAM)
        rows.append(make_row(PROGRAM_TIME, (cells, cells), arms, decision))
    elif found.turns is not None:
        row = program_time_row(arms, found.turns, rules)
        rows.append(row or _missing_row(arms, found.turns.problem))
        rows += [memory] if (memory := turned_memory_row(arms, found.turns, rules)) else []
    if "function" in found.asked and found.function is None and has_same_program(floors):
        decision = Decision(verdict="same", reason="both arms have one program", evidence=ONE_PROGRAM)
        rows.append(make_row(FUNCTION, (cells, cells), arms, decision))
    if found.function is not None:
        rows += [row for row in (_function_row(arms, found.function), rounding_row(arms, found.function)) if row]
    rows += [row] if (row := _first_call_row(arms, found)) else []
    rows += [row] if (row := change_row(arms, found.coverage)) else []
    data = find_data(arms, found.data)
    if data is not None and data.kind != "equal" and any(role == "data" for role, _ in drawn_anew(found)):
        cells = Measured(text=counted(data.steps, "step"))
        rows.append(make_row(DATA, (cells, cells), arms, not_judged(f"{tell_data(data)}: {DRAWN_ANEW}")))
    else:
        rows += [row] if (row := data_row(arms, data, found.data, frozenset(rules.declared))) else []
    verdict, headline = conclude(arms, findings, rows, floors)
    code = {plan.arm: plan.version for plan in found.plans if plan.version is not None}
    headline = add_code_note(headline, [code[one.arm] for one in found.plans if one.arm in code])
    later = LATER if found.data is None else f"batches after the first {found.data.steps}"
    never = [later if one == LATER else one for one in NEVER_TRIED]
    never = ["the arrays that each run draws anew", *never] if drawn_anew(found) else never
    *left_out, last = [*(words for name, words in QUESTIONS.items() if name not in found.asked), *never]
    not_tried = f"nothing was trained: {', '.join(left_out)} and {last} were not tried"
    if any(arm.dead for arm in arms):
        not_tried = "nothing was trained, and without both steps nothing was compared"
    return ComparisonRecord(
        id=page_id(plan.comparison, plan.case, found.plans),
        comparison=plan.comparison,
        case=plan.case,
        target=plan.target,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        question=rules.question,
        baseline=summarise(left),
        candidate=summarise(right),
        verdict=verdict,
        headline=f"{headline}; {not_tried}",
        findings=tuple(findings),
        rows=tuple(rows),
        floors=tuple(floors),
        code=code,
        commits={plan.arm: plan.commits for plan in found.plans if plan.commits},
        aa=plan.aa,
        turns=found.turns,
        function=found.function,
        coverage=found.coverage,
        data=found.data,
        trained=False,
        asked=tuple(name for name in QUESTIONS if name in found.asked),
        not_tried=not_tried,
    )


def _missing_row(arms: tuple[ArmRuns, ArmRuns], problem: str) -> MetricDiff:
    cells = Measured(text="not measured")
    return make_row(PROGRAM_TIME, (cells, cells), arms, Decision(verdict="unknown", reason=problem))


def _function_row(arms: tuple[ArmRuns, ArmRuns], function: FunctionComparison) -> MetricDiff:
    words: dict[str, Verdict] = {"same": "same", "another": "changed"}
    cells = Measured(text=f"{function.results} results" if function.results else "not evaluated")
    decision = Decision(verdict=words.get(function.answer, "unknown"), reason=function.sentence)
    return make_row(FUNCTION, (cells, cells), arms, decision)


def drawn_anew(found: Experiments) -> frozenset[tuple[str, str]]:
    """Return role and meaning of each array that two runs of the baseline are given with other values."""
    if found.again is None:
        return frozenset()
    once, again = (
        {(one.role, one.meaning): one.digest for one in its.arguments} for its in (found.observations[0], found.again)
    )
    return frozenset(key for key, digest in once.items() if digest and again.get(key) not in (None, digest))


def starts_differ(observations: Both[Observation]) -> bool:
    """Return whether an array that both first steps are given differs."""
    left, right = ({(one.role, one.meaning): one.digest for one in its.arguments} for its in observations)
    return any(digest and right.get(key) not in (None, digest) for key, digest in left.items())


def _first_call_row(arms: tuple[ArmRuns, ArmRuns], found: Experiments) -> MetricDiff | None:
    """Return the row of the arrays that both first steps are given; None if they start apart, or have none in common.

    Neither the programs nor float64, which gives both steps the baseline's arrays, show another initializer or other
    data.
    """
    left, right = ({(one.role, one.meaning): one.digest for one in its.arguments} for its in found.observations)
    common = [key for key, digest in left.items() if digest and right.get(key)]
    is_apart = found.plans[0].trainer != found.plans[1].trainer or any(plan.start for plan in found.plans)
    if not common or is_apart:
        return None
    differ = [meaning for role, meaning in common if left[role, meaning] != right[role, meaning]]
    own = {meaning for _, meaning in drawn_anew(found)}
    others = [meaning for meaning in differ if meaning not in own]
    named = ", ".join((others or differ)[:SHOWN]) + (", …" if len(others or differ) > SHOWN else "")
    equal = f"the {counted(len(common), 'array')} that the first step is given are equal in every bit"
    reason = f"{len(differ)} of {counted(len(common), 'array')} that the first step is given differ: {named}"
    cells = [Measured(text=counted(len(its.arguments), "array")) for its in found.observations]
    decision = Decision(verdict="changed" if differ else "same", reason=reason if differ else equal)
    if differ and not others:
        decision = not_judged(f"{reason}: {DRAWN_ANEW}")
    return make_row(FIRST_CALL, (cells[0], cells[1]), arms, decision)


def _floors(program: ProgramExplanation | None, function: FunctionComparison | None) -> Iterator[Floor]:
    if program is not None:
        yield Floor(
            name="same program",
            holds=program.answer != "differs",
            evidence=program.sentence,
            same_text=program.answer == "same text",
        )
    if function is not None:
        yield floor_of_function(function)


def run_of(plan: RunPlan, observation: Observation, log: str, end: RunReading | None = None) -> RunRecord:
    """Return the record of a run that was not trained, with the software of its recorded step.

    end: its log, if the trainer failed before that step.
    """
    software = observation.software
    environment = Environment(
        jax=software.get("jax"),
        jaxlib=software.get("jaxlib"),
        backend=observation.platform or None,
        num_devices=observation.devices or None,
    )
    reading = RunReading(
        name=Path(log).parent.name,
        format=plan.trainer,
        environment=environment,
        exit_code=0,
        coverage=Coverage(complete=True),
    )
    if end is not None:
        reading = end.replace(name=reading.name, environment=environment)
    label = trainer_class(plan.trainer).label_run(plan, plan.commit)
    return RunRecord(plan=plan, arm=plan.arm, label=label, commit=plan.commit, log=log, reading=reading)
