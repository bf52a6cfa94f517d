"""Examines the recorded training steps of two arms (compared versions), which were not trained."""

from collections.abc import Iterator
from pathlib import Path

from configs.frozen import Frozen
from configs.verdict_rules import load_verdict_rules
from tasks.diff.examine.arms import ArmRuns, summarise
from tasks.diff.examine.comparability import KINDS_WITHOUT_RUNS, find_findings
from tasks.diff.examine.examination import Examination, ExaminedSteps, Shown, Subject
from tasks.diff.examine.floors import run_one_executable
from tasks.diff.examine.page_id import page_id
from tasks.records.change import ChangeCoverage
from tasks.records.compared_case import Floor
from tasks.records.explanation import ProgramExplanation
from tasks.records.log_reading import Coverage, Environment, RunReading
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.resolve.trainers import trainer_class

# what no experiment tries, and the questions of --only, with the words for each if it was not asked
LATER = "later batches"
HOST_LOOP = "the host loop"
NEVER_TRIED = ("checkpoints", "evaluations", "long curves", LATER, HOST_LOOP)
QUESTIONS = {"function": "the function of the steps", "time": "step times"}

type Both[T] = tuple[T, T]


class RecordedSteps(Frozen):
    """The recorded steps of both arms."""

    plans: Both[RunPlan]
    observations: Both[Observation]
    logs: Both[str]  # of the processes that recorded the steps
    asked: tuple[str, ...] = tuple(QUESTIONS)  # of QUESTIONS
    program: ProgramExplanation | None = None
    coverage: ChangeCoverage | None = None
    batches: int | None = None  # number of compared batches; None: none were compared
    loops: bool = False  # whether the loops took turns
    again: Observation | None = None  # the baseline's step once more, if the first steps are given other arrays
    ends: Both[RunReading | None] = (None, None)  # the logs of trainers that failed before their step


def examine_steps(found: RecordedSteps) -> Examination:
    """Return what two recorded steps show."""
    plan = found.plans[0]
    rules = plan.rules or load_verdict_rules(plan.comparison, plan.target)
    runs = [run_of(*one) for one in zip(found.plans, found.observations, found.logs, found.ends, strict=True)]
    left, right = (ArmRuns(name=run.arm, label=run.label, runs=(run,)) for run in runs)
    arms = (left, right)
    every = find_findings(arms, declared=frozenset(rules.declared), effects=rules.effects, aa=plan.aa, parities=())
    floors = list(_floors(found.program))
    return Examination(
        subject=Subject(
            id=page_id(plan.comparison, plan.case, found.plans), comparison=plan.comparison, case=plan.case,
            target=plan.target, rules=rules, aa=plan.aa,
            code={plan.arm: plan.version for plan in found.plans if plan.version is not None},
            commits={plan.arm: plan.commits for plan in found.plans if plan.commits},
        ),
        arms=arms,
        findings=tuple(one for one in every if one.kind in (*KINDS_WITHOUT_RUNS, "died")),
        floors=tuple(floors),
        proved=run_one_executable(arms, floors),
        coverage=found.coverage,
        shown=Shown(
            baseline=summarise(left),
            candidate=summarise(right),
            trained=False,
            asked=tuple(name for name in QUESTIONS if name in found.asked),
            not_tried=_tell_not_tried(found, died=any(arm.dead for arm in arms)),
        ),
        steps=ExaminedSteps(
            observations=found.observations,
            start_apart=found.plans[0].trainer != found.plans[1].trainer or any(plan.start for plan in found.plans),
            drawn_anew=drawn_anew(found),
        ),
    )  # fmt: skip


def _tell_not_tried(found: RecordedSteps, *, died: bool) -> str:
    if died:
        return "nothing was trained, and without both steps nothing was compared"
    later = LATER if found.batches is None else f"batches after the first {found.batches}"
    never = [later if one == LATER else one for one in NEVER_TRIED if one != HOST_LOOP or not found.loops]
    never = ["the arrays that each run draws anew", *never] if drawn_anew(found) else never
    *left_out, last = [*(words for name, words in QUESTIONS.items() if name not in found.asked), *never]
    return f"nothing was trained: {', '.join(left_out)} and {last} were not tried"


def drawn_anew(found: RecordedSteps) -> frozenset[tuple[str, str]]:
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


def _floors(program: ProgramExplanation | None) -> Iterator[Floor]:
    if program is not None:
        yield Floor(
            name="same program",
            holds=program.answer != "differs",
            evidence=program.sentence,
            same_text=program.answer == "same text",
        )


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
