"""Chooses what of two recorded loops is evaluated: the cycles, where a loop is more than its step, or the steps."""

from pathlib import Path

from maxview_probe.observe.observation_files import CYCLE
from tasks.diff.examine.cover_change import cover_loop
from tasks.experiments.recordings import Both
from tasks.records.observation import Observation


def have_cycles(observations: Both[Observation]) -> bool:
    """Return whether the cycles of both loops are known and whole, and one of them is more than its step.

    Loops of the step alone with equal periods are compared step by step.
    """
    found = [one.cycle for one in observations]
    if any(one is None or one.problem or one.gaps for one in found):
        return False
    alone = all(one.is_of_step_alone for one in found if one is not None)
    periods = {one.period for one in found if one is not None}
    return any(one is not None and one.is_written for one in found) and not (alone and len(periods) == 1)


def name_gaps(observations: Both[Observation], *, cycles: bool) -> list[str]:
    """Return what writes the state and was not evaluated, a sentence each. cycles: whether the cycles were."""
    found = cover_loop(observations, cycles=cycles)
    if cycles:
        return found
    known = [one.cycle for one in observations if one.cycle is not None]
    found = [gap for one in known if one.is_written for gap in one.gaps] + found
    if found:
        found += [f"the cycle of the loop is not known: {one.problem}" for one in known if one.problem]
    return list(dict.fromkeys(found))


def evaluated_recordings(observations: Both[Observation], folders: Both[Path], *, cycles: bool) -> Both[Path]:
    """Return the folders of the recordings to evaluate. cycles: of the cycles, where a loop is more than its step."""
    left, right = (
        folder / CYCLE if cycles and one.cycle is not None and one.cycle.is_written else folder
        for one, folder in zip(observations, folders, strict=True)
    )
    return left, right


def say_evaluated(observations: Both[Observation], names: Both[str]) -> str:
    """Return which functions of both loops were evaluated, in words; empty if that is not known."""
    said = [one.cycle.sentence if one.cycle is not None and not one.cycle.problem else "" for one in observations]
    if said[0] == said[1]:
        return said[0]
    return "; ".join(f"{text} ({name})" for text, name in zip(said, names, strict=True) if text)
