"""Measures the step times of both arms' programs in turns, in a process with the target's own JAX."""

import json
import os
import sys
from collections.abc import Mapping
from math import expm1, log1p
from pathlib import Path
from typing import Any

from configs.frozen import Frozen
from configs.verdict_rules import VerdictRules
from maxview_probe.turns.turn_note import read_note, remove_note
from tasks.diff.examine.circumstances import chance_of
from tasks.diff.judge.program_time_rows import STATED, tolerance_of_program
from tasks.experiments.kept_recordings import digest_recording
from tasks.experiments.recordings import SIDES, Both, name_problem, record_arms
from tasks.experiments.run_inside import Say, run_inside
from tasks.launch.local.process_group import build_environment
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan
from tasks.records.program_times import ProgramTimes, TimeRatio
from tasks.store.documents import dump_json, load_json, read_document

SETTINGS, RESULT, OUTPUT = "turns-settings.json", "turns.json", "turns.log"
OFF = "--interleave off leaves it out"
LIMIT_S = 60.0
WIDEST = 50.0  # logarithm of the largest ratio; prevents an overflow
COMPILE_S = 900.0  # allowed beyond the limit, for compiling
# variables that belong to a run and change no program
OWN_VARIABLES = frozenset({"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "JAX_DUMP_IR_TO", "PWD"})


class TurnLimits(Frozen):
    """When the turns end."""

    chance: float  # that the interval misses the true difference
    tolerance: float  # as a logarithm; a difference certainly inside ± this ends the turns
    least: float  # as a logarithm; smaller differences are not reported
    limit_s: float = LIMIT_S


def limits_of(rules: VerdictRules | None, *, cases: int, limit_s: float) -> TurnLimits:
    """Return the limits of a case by the comparison's rules. The program's time gets half of the case's chance."""
    tolerance = tolerance_of_program(rules) if rules else STATED
    return TurnLimits(
        chance=chance_of(cases=cases) / 2,
        tolerance=log1p(tolerance.relative or 0.0),
        least=log1p(tolerance.least or 0.0),
        limit_s=limit_s,
    )


def say_cost(limits: TurnLimits) -> str:
    """Return the cost of the experiment as text."""
    return f"both arms are started for a few steps, then their programs run in turns for at most {limits.limit_s:.0f} s"


def interleave(
    plans: Both[RunPlan],
    names: Both[str],
    folder: Path,
    limits: TurnLimits,
    *,
    recordings: Both[Path] | None = None,
    say: Say = lambda text: None,
) -> ProgramTimes:
    """Return the difference of the programs' step times; with a `problem` if they cannot be measured.

    plans: of both arms, on this machine. The result stays in `folder`; a result of the same recordings and limits is
    reused. recordings: folders of the recorded steps; None: below `folder`. say: called with each line of progress.
    """
    recordings = recordings or (folder / SIDES[0], folder / SIDES[1])
    elsewhere = next((plan for plan in plans if plan.backend != "local"), None)
    if elsewhere is not None:
        where = f"{elsewhere.arm} runs on {elsewhere.target}, and not on this machine"
        return ProgramTimes(problem=f"{where}: runs are judged")
    observations = record_arms(plans, recordings)
    if problem := name_problem(observations, names):
        return ProgramTimes(problem=problem)
    if problem := _name_obstacle(observations, names):
        return ProgramTimes(problem=problem)
    return run_turns(plans, observations, names, folder, limits, recordings, say)


def _name_obstacle(observations: Both[Observation], names: Both[str]) -> str:
    left, right = observations
    if (left.platform, left.devices) != (right.platform, right.devices):
        sides = [f"{name} on {one.devices} × {one.platform}" for one, name in zip(observations, names, strict=True)]
        return f"the programs run on other devices: {' and '.join(sides)}"
    return ""


def run_turns(
    plans: Both[RunPlan],
    observations: Both[Observation],
    names: Both[str],
    folder: Path,
    limits: TurnLimits,
    recordings: Both[Path],
    say: Say,
) -> ProgramTimes:
    """Run the recorded steps in turns; return their times, or the problem."""
    environments = [turn_environment(plan) for plan in plans]
    pythons = [python_of(plan) for plan in plans]
    versions = [one.software.get("jax") for one in observations]
    apart = pythons[0] != pythons[1] or versions[0] != versions[1] or environments[0] != environments[1]
    if apart and observations[0].platform == "tpu":
        why = "a TPU belongs to one process, and the arms have other software or environments"
        return ProgramTimes(problem=f"{why}: runs are judged")
    settings: dict[str, Any] = {
        "baseline": str(recordings[0]),
        "candidate": str(recordings[1]),
        "names": list(names),
        "chance": limits.chance,
        "tolerance": limits.tolerance,
        "least": limits.least,
        "limit_s": limits.limit_s,
        "recorded": [digest_recording(recording) for recording in recordings],
    }
    if apart:
        settings["pythons"] = [[pythons[n], environments[n]] for n in (0, 1)]
    path, result = folder / SETTINGS, folder / RESULT
    known = read_document(result, load_json)
    if known and "error" not in known and read_document(path, load_json) == settings:
        return read_result(known, limits, processes=1 + apart)
    result.unlink(missing_ok=True)
    remove_note(result)
    path.write_text(dump_json(settings), encoding="utf-8")
    python, environment = (sys.executable, environments[0]) if apart else (pythons[0], environments[0])
    problem = run_inside(
        "the process with both programs", "turns.take_turns", (path, result), python=python, environment=environment,
        output=folder / OUTPUT, patience_s=limits.limit_s + COMPILE_S, say=say,
    )  # fmt: skip
    if problem:
        return ProgramTimes(problem=f"{problem}{read_note(result)}")
    return read_result(json.loads(result.read_text(encoding="utf-8")), limits, processes=1 + apart)


def turn_environment(plan: RunPlan) -> dict[str, str]:
    """Return the environment in which a plan's program runs, without the variables of a single run."""
    found = build_environment(plan, os.environ)
    own = [name for name in found if name in OWN_VARIABLES or name.startswith("MAXVIEW_")]
    return {name: value for name, value in found.items() if name not in own}


def python_of(plan: RunPlan) -> str:
    """Return the Python of a plan's command; maxview's own if the command is another program."""
    words = [word for word in plan.argv[:3] if Path(word).name.startswith("python")]
    return words[0] if words else sys.executable


def read_result(found: Mapping[str, Any], limits: TurnLimits, *, processes: int) -> ProgramTimes:
    """Return the record of a result of `turns.take_turns`."""
    if "error" in found:
        return ProgramTimes(problem=f"{found['arm']}: {found['error']}")
    fields = ("step_s", "draws", "rounds", "steps", "peak_bytes", "alone", "seconds", "load")
    return ProgramTimes(
        wall=as_ratio(found["wall"]),
        cpu=as_ratio(found["cpu"]),
        processes=processes,
        limit_s=limits.limit_s,
        **{name: found[name] for name in fields},
    )


def as_ratio(interval: tuple[float, float, float]) -> TimeRatio:
    """Return the ratio of an interval of logarithms."""
    effect, low, high = (expm1(min(end, WIDEST)) for end in interval)  # a few draws may have any interval
    return TimeRatio(effect=effect, low=low, high=high)
