"""Observes two arms (versions of a trainer) and explains how they differ: in tensors, program, memory and time."""

import gzip
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from maxview_probe.observe.observation_files import BUFFERS, INSTRUCTIONS
from questions.explain.live_buffers import Buffer, compare_memory, count_allocated, read_buffers
from questions.explain.profiles import GAP, ProfiledStep, compare_profiles, find_profile
from questions.explain.tensors import compare_tensors
from questions.explain.touched_lines import add_commits, find_refs
from tasks.diff.examine.new_functions import find_own_jits
from tasks.experiments.kept_recordings import observe_or_keep
from tasks.experiments.observe_arm import observe_arm, recorded_source
from tasks.observe.shared_start import read_start
from tasks.programs.compare_compiled import ProgramSide, compare_programs
from tasks.programs.compare_lowered import compare_program_files
from tasks.programs.program_work import analyse_program
from tasks.programs.read_with_jax import read_with_jax
from tasks.programs.source_lines import OptimisedProgram, read_optimised
from tasks.records.compiled import CompiledProgram, InputArray, ProgramMemory
from tasks.records.explanation import Explanation, MemoryExplanation, ProgramExplanation, TimeExplanation
from tasks.records.function import FunctionComparison
from tasks.records.observation import OPTIMISED, PROFILE, PROGRAM, Observation, TensorComparison
from tasks.records.plan import RunPlan

PROFILED = (2, 21)  # first and last profiled call, from 0; earlier calls may wait for the compiler or a checkpoint
_STEP = re.compile(r"step (\d+)")  # name of a state that a chain of steps reaches
MAX_RESULTS = 3  # limit of names of results in a headline

type Both[T] = tuple[T, T]


class ObservedArm(NamedTuple):
    """One observed arm, with the folder of its observation."""

    plan: RunPlan
    name: str
    folder: Path
    observation: Observation

    @property
    def root(self) -> str:
        """The folder of the arm's source. Displayed source paths are relative to it."""
        return recorded_source(self.plan, self.folder) or str(Path(__file__).parents[2])


def say_cost_of_explanation(plans: Both[RunPlan], seconds: float | None) -> str:
    """Return the cost of an explanation as text. seconds: of the longest judged run; None if unknown."""
    about = f"on {plans[0].target}" + (f", at most about {2 * seconds:,.0f} s" if seconds else "")
    again = "both arms are started once more, for a few steps each"
    return f"{again}, {about}; explain: off in the comparison's file leaves it out"


def explain_plans(
    plans: Both[RunPlan],
    names: Both[str],
    folder: Path,
    *,
    stands_for: str = "",
    function: FunctionComparison | None = None,
    states: Sequence[str] = (),
    costs: bool = True,
) -> Explanation:
    """Observe both arms, with files below `folder`, and return their differences; a failure of an arm gives a note.

    The second arm's step gets the first arm's arguments of equal meaning and shape, except random keys, so that few
    causes besides the computation are left. If the second arm's own arguments differ, they are listed first, unless the
    judged runs started with equal arguments.

    stands_for: how the plans differ from those of the judged runs. If they do, memory and times are not examined.
    function: the answer of float64; the tensors are those of a step at which its results differ.
    states: the names of the states at which they do, "step 1"; by default the function's.
    costs: examine memory and times, too.
    """
    began = time.monotonic()
    cycles = function is not None and bool(function.evaluated)  # of several functions; a profile has none of them
    measured, steps = (
        costs and not stands_for and not cycles,
        choose_steps(states or (function.differing if function else ())),
    )
    found = Explanation(headline="")
    for step in steps:  # of a batch that does not take the changed path, all tensors may be equal
        first = observe(plans[0], names[0], folder / "baseline", None, step=step, profiled=measured, cycles=cycles)
        start = first.folder if first.observation.step else None
        second = observe(plans[1], names[1], folder / "candidate", start, step=step, profiled=measured, cycles=cycles)
        report = read_start(plans[1])
        shared = report is not None and report.is_shared
        found = explain_observed((first, second), starts_shared=shared, measured=measured, function=function)
        if found.tensors is None or found.tensors.roots or found.tensors.tensors == (0, 0):
            break
    headline = found.headline if not stands_for else f"{found.headline}; {stands_for}"
    return found.replace(headline=headline, seconds=round(time.monotonic() - began, 1))


def choose_steps(states: Sequence[str]) -> list[int]:
    """Return the calls of the step, from 0, whose tensors are compared: the second one if the first shows nothing.

    states: the names of those at which the results differ. PROFILED[0] is the first choice: at step 0 all moments are
    0, and at a warm-up's step 0 the learning rate, so a change of them would have no effect yet. The first step at
    which the results differ is the other choice: both arms begin it with equal states.
    """
    numbers = [int(found[1]) for state in states if (found := _STEP.fullmatch(state))]
    if not numbers:
        return [PROFILED[0]]
    return list(dict.fromkeys([PROFILED[0] if PROFILED[0] in numbers else numbers[0], numbers[0]]))


def observe(
    plan: RunPlan,
    name: str,
    folder: Path,
    start: Path | None,
    *,
    step: int = PROFILED[0],
    profiled: bool = True,
    cycles: bool = False,
) -> ObservedArm:
    """Observe an arm in one process: the tensors of a step, and a profile of the steps in PROFILED.

    A shorter run is profiled up to its last step. start: see `observe_arm`.
    """
    last = int(plan.config["steps"]) - 1
    profile = (min(PROFILED[0], last), min(PROFILED[1], last))
    settings: dict[str, Any] = {"evaluated": min(step, last), "cycles": cycles}
    if profiled or start is not None:  # times of another hour are no measure, and the other arm's arguments change
        found = observe_arm(plan, folder, start=start, profile=profile if profiled else None, **settings)
    else:
        found = observe_or_keep(plan, folder, **settings)
    return ObservedArm(plan, name, folder, found)


def explain_observed(
    arms: Both[ObservedArm],
    *,
    starts_shared: bool = False,
    measured: bool = True,
    function: FunctionComparison | None = None,
) -> Explanation:
    """Return the explanation of two observed arms' difference.

    starts_shared: the judged runs started with equal arguments. measured: memory and times are those of the runs.
    function: the answer of float64, which the headline does not contradict.
    """
    notes = [f"{arm.name}: {note}" for arm in arms for note in arm.observation.notes]
    names = (arms[0].name, arms[1].name)
    if not all(arm.observation.step for arm in arms):
        silent = next(arm for arm in arms if not arm.observation.step)
        why = silent.observation.notes[0] if silent.observation.notes else "no step was found"
        return Explanation(headline=f"not explained: {silent.name}: {why}", notes=tuple(notes))

    def attempt[T](what: str, make: Callable[[], T | None]) -> T | None:
        try:
            return make()
        except (OSError, ValueError) as error:
            notes.append(f"{what}: {error}")
            return None

    folders = arms[0].folder, arms[1].folder
    tensors = attempt("tensors", lambda: compare_tensors(*folders, names, starts_shared=starts_shared))
    program = attempt("programs", lambda: _explain_program(arms))
    optimised = [attempt(arm.name, partial(read_optimised, arm.folder / OPTIMISED, arm.root)) for arm in arms]
    memory = spent = None
    if measured and optimised[0] is not None and optimised[1] is not None:
        both = (optimised[0], optimised[1])
        memory = attempt("memory", lambda: _explain_memory(arms, both))
        spent = attempt("times", lambda: _explain_time(arms, both))
    explanation = Explanation(
        headline=_say_headline(tensors, program, memory, spent, function),
        tensors=tensors,
        program=program,
        memory=memory,
        time=spent,
        notes=tuple(notes),
    )
    refs = find_refs(arms[0].plan, arms[1].plan)
    return explanation if refs is None else add_commits(explanation, refs, (arms[0].root, arms[1].root))


def _explain_program(arms: Both[ObservedArm]) -> ProgramExplanation:
    names = arms[0].name, arms[1].name
    paths = [arm.folder / PROGRAM for arm in arms]
    found = compare_program_files(paths[0], paths[1], names, (arms[0].root, arms[1].root))
    versions = [arm.observation.software.get("jax", "") for arm in arms]
    update: dict[str, object] = {}
    if versions[0] != versions[1]:
        update["versions"] = (versions[0], versions[1])
        if found.answer == "differs":
            said = f"{names[0]} has JAX {versions[0]}, {names[1]} {versions[1]}, which lower one function differently"
            update["sentence"] = f"{found.sentence} ({said})"
    sides = [_compiled_side(arm) for arm in arms]
    update["compiled"] = compare_programs(sides[0], sides[1]).differences
    return found.replace(**update)


def _compiled_side(arm: ObservedArm) -> ProgramSide:
    """Return an arm's optimised program as preflight's comparison takes it."""
    arrays = tuple(
        InputArray(
            path=f"{one.role} {one.meaning}",
            shape=one.shape,
            dtype=one.dtype,
            sharding=one.sharding,
            bytes_per_device=one.bytes_per_device,
        )
        for one in arm.observation.arguments
    )
    given = sum(one.bytes_per_device for one in arrays)
    reused = sum(one.bytes_per_device for one in arm.observation.arguments if one.donated)
    total = _count_allocated(arm) or given
    memory = ProgramMemory(
        argument=given, output=reused, temp=max(total - given, 0), alias=reused,
        host_argument=0, host_output=0, host_temp=0, generated_code=0, total=total,
    )  # fmt: skip
    program = CompiledProgram(
        topology=arm.observation.platform,
        devices=arm.observation.devices,
        hbm_bytes=0,
        ok=True,
        memory=memory,
        arrays=arrays,
    )
    path = arm.folder / OPTIMISED
    if not path.is_file():
        return ProgramSide(program, None)
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return ProgramSide(program, analyse_program(lines))


def _count_allocated(arm: ObservedArm) -> int:
    try:
        return count_allocated(read_buffers(arm.folder / BUFFERS, arm.folder / INSTRUCTIONS))
    except (OSError, ValueError):
        return 0


def _explain_memory(arms: Both[ObservedArm], programs: Both[OptimisedProgram]) -> MemoryExplanation:
    sides: list[tuple[OptimisedProgram, list[Buffer]]] = []
    for arm, program in zip(arms, programs, strict=True):
        if not (arm.folder / BUFFERS).is_file():
            raise ValueError(f"the compiler of {arm.name} does not report its buffers")
        sides.append((program, read_buffers(arm.folder / BUFFERS, arm.folder / INSTRUCTIONS)))
    donated = [sum(one.bytes_per_device for one in arm.observation.arguments if one.donated) for arm in arms]
    return compare_memory(sides[0], sides[1], (arms[0].name, arms[1].name), (donated[0], donated[1]))


def _explain_time(arms: Both[ObservedArm], programs: Both[OptimisedProgram]) -> TimeExplanation | None:
    names = arms[0].name, arms[1].name
    paths = [find_profile(arm.folder / PROFILE) for arm in arms]
    if paths[0] is None or paths[1] is None:
        raise ValueError(f"{names[0] if paths[0] is None else names[1]} left no profile")
    profiles = read_with_jax("profile", [paths[0], paths[1]])
    steps = [
        ProfiledStep(profile, program, arm.observation.step or "")
        for profile, program, arm in zip(profiles, programs, arms, strict=True)
    ]
    found = compare_profiles(steps[0], steps[1], names)
    return None if found is None else name_compiles(found, arms)


def name_compiles(spent: TimeExplanation, arms: Both[ObservedArm]) -> TimeExplanation:
    """Return the times with the line that jits a new function in the steps of one arm alone, if its host is slower."""
    lines = find_own_jits((arms[0].observation, arms[1].observation))
    for side, line in enumerate(lines):
        gap = next((row for row in spent.differences if row.what == GAP and row.sure), None)
        if line is None or gap is None or (gap.candidate_s > gap.baseline_s) != bool(side):
            continue
        why = f"{line.place} jits a new function object in each step, and each compiles"
        row = gap.replace(
            **{
                "candidate_line" if side else "baseline_line": line,
                "sentence": f"{gap.sentence}: {why}",
            }
        )
        differences = tuple(row if one is gap else one for one in spent.differences)
        sentence = spent.sentence.replace(gap.sentence, row.sentence)
        return spent.replace(sentence=sentence, differences=differences)
    return spent


def _say_headline(
    tensors: TensorComparison | None,
    program: ProgramExplanation | None,
    memory: MemoryExplanation | None,
    spent: TimeExplanation | None,
    function: FunctionComparison | None = None,
) -> str:
    """Return one sentence about the first root; without roots, about the program.

    Without both, it is about the first of tensors, memory and time that could be compared.

    If all tensors are equal in float64 but the compiled steps' results differ, the difference is rounding, and the
    sentence says where the programs differ.
    """
    if tensors is not None and tensors.roots:
        return tensors.sentence
    if function is not None and function.answer == "another":
        where = f"; {program.sentence}" if program is not None and program.answer == "differs" else ""
        return f"{function.claim}; in the step that was looked at, no tensor shows it{where}"
    if tensors is not None and tensors.tensors != (0, 0) and tensors.different_results:
        here = "one function in float64; as run, the arms round differently from here"
        shown = ", ".join(tensors.different_results[:MAX_RESULTS])
        return f"{here}: {program.sentence if program else 'the step'}; at its end {shown} differ"
    if program is not None and program.answer != "differs":
        return f"{program.sentence}; only what each is given, and its host, can differ"
    if tensors is not None and program is not None:
        return f"{tensors.sentence}; {program.sentence}"
    said = next((one.sentence for one in (tensors, program, memory, spent) if one is not None), "")
    return said or "nothing could be compared"
