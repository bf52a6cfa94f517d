"""Finds runs whose training step JAX compiled more than once, and the arguments that differed."""

from itertools import zip_longest

from tasks.diff.metric_row import Arms
from tasks.diff.observed import Observations, notice
from tasks.records import StepCompile

SHOWN = 3  # most arguments that a message names


def find_recompiles(arms: Arms) -> Observations:
    """Yield one finding per arm: its first run with several compiles, and the signatures of the first two."""
    for arm in arms:
        for number, run in enumerate(arm.runs):
            compiles = run.compiles or run.reading.compiles
            if len(compiles) < 2:
                continue
            first, again = compiles[:2]
            count = f"{arm.name_run(number)} compiled its training step {len(compiles)} times"
            places = (one.source and one.source.model_copy(update={"run": number}) for one in (first, again))
            shown = ((arm, ", ".join(one.signature), place) for one, place in zip((first, again), places, strict=True))
            yield notice("recompiled", f"{count}: {_differences(first, again)}", *shown)
            break


def _differences(first: StepCompile, again: StepCompile) -> str:
    pairs = enumerate(zip_longest(first.signature, again.signature, fillvalue="none"), start=1)
    found = [f"argument {n} was {left}, then {right}" for n, (left, right) in pairs if left != right]
    if not found:
        return "with arguments of the same types; their shardings, layouts or static values differ"
    return "; ".join(found[:SHOWN]) + (f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
