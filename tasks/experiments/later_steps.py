"""Compares what both arms' hosts give their jitted functions in many steps, while heavy programs return zeros."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxview_probe.observe.observation_files import LATER
from tasks.experiments.emptied_trainer import run_emptied
from tasks.experiments.recordings import SIDES, Both
from tasks.experiments.run_inside import Say
from tasks.records.later_steps import LaterSteps
from tasks.records.plan import RunPlan
from tasks.records.text import counted

type Calls = Sequence[Any]  # between two calls of the step: (name, digest of all that is given, first numbers)
STEPS = 2_000  # a trainer that takes no `steps=` may have fewer


def compare_later_steps(plans: Both[RunPlan], folder: Path, recorded: int, say: Say = lambda text: None) -> LaterSteps:
    """Return the first later step in which both hosts give their programs something else.

    recorded: steps that were compared as they ran. A difference within these is one of zeros in place of results, or of
    data without a seed, and tells nothing.
    """
    calls: list[tuple[str, Sequence[Calls]]] = []
    for plan, side in zip(plans, SIDES, strict=True):
        say(f"running the host loop of {plan.arm} for up to {STEPS:,} steps, without its programs")
        found = run_emptied(plan, folder / "later" / side, LATER, STEPS, later_steps=STEPS)
        if isinstance(found, str):
            return LaterSteps(problem=found)
        calls.append((found["step"], found["steps"]))
    return compare_calls(calls[0][0], calls[0][1], calls[1][1], recorded)


def compare_calls(step: str, left: Sequence[Calls], right: Sequence[Calls], recorded: int) -> LaterSteps:
    """Return the first difference between two hosts' calls. step: name of the step's function."""
    steps = min(len(left), len(right))
    first = next((n for n in range(steps) if left[n] != right[n]), None)
    if first is None:
        return LaterSteps(step=step, steps=steps)
    if first < recorded:
        return LaterSteps(problem=f"without results, the hosts differ at call {first}, which was recorded as equal")
    return LaterSteps(step=step, steps=steps, first=first, difference=_describe(left[first], right[first]))


def _describe(left: Calls, right: Calls) -> str:
    """Return the first call that differs, in words."""
    for (name, digest, numbers), (other, other_digest, others) in zip(left, right, strict=False):
        if name != other:
            return f"`{other}` is called in place of `{name}`"
        if digest != other_digest:
            pairs = [f"{a:.6g} → {b:.6g}" for a, b in zip(numbers, others, strict=False) if a != b]
            return f"`{name}` is given {', '.join(pairs[:3])}" if pairs else f"`{name}` is given other arrays"
    fewer, more = sorted((left, right), key=len)
    return f"`{more[len(fewer)][0]}` is called {counted(len(more) - len(fewer), 'time')} more by one arm"
