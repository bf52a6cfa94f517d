"""Decides whether a time difference of the arms must be noise, and which part of the host loop explains another one."""

from collections.abc import Mapping

import polars as pl

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_row import Arms
from tasks.diff.setting_differences import IMPLEMENTATION_KEYS
from tasks.records import Decision, Floor, RunPlan
from tasks.resolve.trainers.trainer_source import SOURCE

STEP = "step_time_s"
# column of a part of the step time in the trainer's JSON lines → the host's work in that part
PARTS: Mapping[str, str] = {
    "device_s": "the device and waiting for it",
    "input_s": "waiting for input",
    "save_s": "saving checkpoints",
    "report_s": "logging",
}
OTHER = "other code in the step loop"
ONE_SOURCE = "one program, source, config and software"
ONE_CODE = (
    "one program, config and software, and the sources differ only in comments, docstrings, layout or names of local "
    "variables"
)
MOST_OF_IT = 0.25  # least share of the difference for which a part is named


def has_same_program(floors: list[Floor]) -> bool:
    """Return whether the floor `same program` proves that the programs of both arms have the same text."""
    return any(floor.name == "same program" and floor.holds and floor.same_text for floor in floors)


def excuse_of(arms: Arms, floors: list[Floor]) -> str:
    """Return the reason why any difference in time must be noise; empty if it may be real.

    Equal programs make only the device's work equal. The host's must be equal too: code, software, environment, and
    every config key except the keys of the implementation.
    """
    plans = [run.plan for arm in arms for run in arm.runs if run.plan is not None]
    if not has_same_program(floors) or len(plans) < sum(len(arm.runs) for arm in arms):
        return ""
    if any(_host_side(plan) != _host_side(plans[0]) for plan in plans):
        return ""
    sources = {plan.versions.get(SOURCE) or (None if plan.dirty else plan.commit) for plan in plans}
    codes = {plan.code for plan in plans}  # digests without comments and local names; "" if unknown
    if None in sources or len(codes) > 1 or (len(sources) > 1 and codes == {""}):
        return ""
    return ONE_SOURCE if len(sources) == 1 else ONE_CODE


def _host_side(plan: RunPlan) -> tuple[object, ...]:
    """Return all inputs of the host loop except its code, for comparison."""
    config = {key: value for key, value in plan.config.items() if key not in IMPLEMENTATION_KEYS | {"run_name"}}
    versions = {name: version for name, version in plan.versions.items() if name != SOURCE}
    return versions, plan.environment, config, plan.software


def name_host(decision: Decision, arms: Arms) -> str:
    """Return which part of the host loop explains a decided time difference of equal programs; empty without one."""
    if decision.verdict not in ("regressed", "improved"):
        return ""
    parts = explain_time(arms)
    word = "slower" if decision.verdict == "regressed" else "quicker"
    return f"same program; the host loop is {word}{f' ({parts})' if parts else ''}"


def explain_time(arms: Arms) -> str:
    """Return the parts of a step that explain most of the candidate's time difference, in words; empty if unknown."""
    sides = [_parts(arm) for arm in arms]
    if not all(sides):
        return ""
    grown = {name: sides[1][name] - sides[0][name] for name in sides[0]}
    whole = sum(grown.values())
    named = [(name, by) for name, by in grown.items() if by * whole > 0 and abs(by) >= MOST_OF_IT * abs(whole)]
    named.sort(key=lambda item: -abs(item[1]))
    return ", ".join(f"{name} {1000 * by:+.3g} ms per step" for name, by in named)


def _parts(arm: ArmRuns) -> dict[str, float]:
    """Return each part's mean seconds per step, without each run's first step; empty unless all runs recorded them."""
    tables = [run.metrics for run in arm.runs]
    if not all(table is not None and {STEP, *PARTS} <= set(table.columns) for table in tables):
        return {}
    steps = pl.concat([table[1:].select(STEP, *PARTS).cast(pl.Float64) for table in tables if table is not None])
    means = {column: float(steps[column].to_numpy().mean()) for column in steps.columns}
    found = {words: means[column] for column, words in PARTS.items()}
    return found | {OTHER: means[STEP] - sum(found.values())}
