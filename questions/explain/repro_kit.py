"""Writes a repro kit: a folder that reproduces the difference between two observed arms with JAX alone.

An arm is one of the two compared versions of a trainer. The kit contains both lowered steps and their arguments, so it
needs no trainer.
"""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np

from questions.explain.explain_arms import Both, ObservedArm
from tasks.observe.recorder import read_observation
from tasks.programs.build_graph import Transcript, make_graph
from tasks.programs.read_with_jax import read_with_jax
from tasks.programs.value_graph import Graph, array_type
from tasks.records.observation import ARGUMENTS, PROGRAM
from tasks.records.plan import RunPlan

SIDES = ("baseline", "candidate")
# The script is copied as a file: modules below tasks/ must not import it, because it imports JAX.
PROGRAM_OF_KIT = Path(__file__).parents[2] / "model" / "compile" / "reproduce.py"


def write_kit_of(plans: Both[RunPlan], names: Both[str], folder: Path, out: Path) -> Path:
    """Write the kit of two arms, observed below `folder`, into `out`; return the path of its script."""
    sides = [
        ObservedArm(plan, name, folder / side, read_observation(folder / side, plan.arm))
        for plan, name, side in zip(plans, names, SIDES, strict=True)
    ]
    return write_kit((sides[0], sides[1]), out)


def write_kit(arms: Both[ObservedArm], folder: Path) -> Path:
    """Write the kit into a folder; return the path of its script.

    Raises ValueError if the record of a step is incomplete, or if a step runs on several devices.
    """
    several = next((arm for arm in arms if arm.observation.devices > 1), None)
    if several is not None:
        count = several.observation.devices
        raise ValueError(f"no repro kit: the step of {several.name} runs on {count} devices; observe it on one")
    missing = [arm.folder / name for arm in arms for name in (PROGRAM, ARGUMENTS) if not (arm.folder / name).is_file()]
    if missing:
        raise ValueError(f"no repro kit: {missing[0]} is missing")
    folder.mkdir(parents=True, exist_ok=True)
    transcripts = read_with_jax("stablehlo", [arm.folder / PROGRAM for arm in arms])
    graphs = [make_graph(one) for one in transcripts]
    for side, arm in zip(SIDES, arms, strict=True):
        (folder / f"{side}.mlir").write_bytes(gzip.decompress((arm.folder / PROGRAM).read_bytes()))
        shutil.copyfile(arm.folder / ARGUMENTS, folder / f"{side}.npz")
    names = [_names_in(arm.folder / ARGUMENTS) for arm in arms]
    kit = {
        "jax": list(dict.fromkeys(f"jax {arm.observation.software.get('jax', '?')}" for arm in arms)),
        "arguments": {
            side: _arguments(transcript, stored)
            for side, transcript, stored in zip(SIDES, transcripts, names, strict=True)
        },
        **_pair_results(graphs[0], graphs[1]),
    }
    (folder / "kit.json").write_text(json.dumps(kit, indent=1) + "\n", encoding="utf-8")
    program = folder / "reproduce.py"
    shutil.copyfile(PROGRAM_OF_KIT, program)
    return program


def _names_in(stored: Path) -> dict[str, str]:
    """Return argument's name → its key in the `.npz` file, which is `position|name`."""
    with np.load(stored, allow_pickle=False) as arrays:
        return {name.partition("|")[2]: name for name in arrays.files}


def _arguments(transcript: Transcript, stored: dict[str, str]) -> list[tuple[str, str]]:
    """Return (key in the `.npz` file, element type) of each argument that is left in the lowered program."""
    found = []
    for number, one in enumerate(transcript["functions"]["main"]["arguments"]):
        name = stored.get(one["name"])
        if name is None:
            raise ValueError(f"no repro kit: argument {one['name'] or number} of the step was not recorded")
        found.append((name, array_type(one["type"])[1]))
    return found


def _pair_results(left: Graph, right: Graph) -> dict[str, object]:
    """Return `results`, [name, left index, right index] of each common result, and `alone`, side → its other names."""
    places = [{name: place for place, name in enumerate(graph.outputs)} for graph in (left, right)]
    return {
        "results": [[name, place, places[1][name]] for name, place in places[0].items() if name in places[1]],
        "alone": {
            side: [name for name in own if name not in other]
            for side, own, other in zip(SIDES, places, reversed(places), strict=True)
        },
    }
