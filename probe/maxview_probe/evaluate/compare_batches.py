"""Runs the baseline's recorded step in float64 with its own batches and with the candidate's, where they differ.

    python …/start.py compare_batches SETTINGS.json RESULT.json

The settings are {"baseline": folder, "candidate": folder, "steps": [number, …]}: both recordings, and the calls whose
batches differ. The result is {"states": [{"state": name, "results": rows}]} or {"error": sentence}.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from maxview_probe.evaluate.compare_function import distance, loss_of, naming, to_float64
from maxview_probe.evaluate.match import match
from maxview_probe.evaluate.recorded_step import RecordedStep, mlir_context
from maxview_probe.evaluate.run_program import RunnableProgram
from maxview_probe.evaluate.widen import widen_program

LIMIT_S = 60.0  # no further step is evaluated after this time
STATE = ("parameter", "optimizer", "counter", "other state", "quantisation")  # roles of results that are the new state


def compare_batches(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the differences of the loss and of the new state. Raises ValueError with a sentence."""
    with naming("baseline"):
        step = RecordedStep(Path(settings["baseline"]))
        with mlir_context():
            text = widen_program(step.text)
        program = RunnableProgram(text, step.devices, quickly=True)
    with naming("candidate"):
        other = RecordedStep(Path(settings["candidate"]))
    data = [n for n, slot in enumerate(step.inputs) if slot.role == "data" and n not in step.fed]
    sources = match(other.inputs, step.inputs)
    if missing := [step.inputs[n].meaning for n in data if sources[n] is None]:
        raise ValueError(f"the candidate has no counterpart of the baseline's {missing[0]}")
    shown = [n for n, slot in enumerate(step.outputs) if slot.role in STATE and slot.is_float]
    shown += [place] if (place := loss_of(step.outputs)) is not None else []
    given, states, began = list(step.first), [], time.monotonic()
    for number in range(max(settings["steps"]) + 1):
        if number:
            for n, value in step.batch(number).items():
                given[n] = value
        wide = [to_float64(one) for one in given]
        results = program(wide)
        if number in settings["steps"]:
            theirs = list(other.first)
            for n, value in other.batch(number).items():
                theirs[n] = value
            mixed = list(wide)
            for n in data:
                mixed[n] = to_float64(sources[n].take(theirs))  # type: ignore[union-attr]  # checked above
            changed = program(mixed)
            rows = [
                {
                    "role": step.outputs[n].role, "meaning": step.outputs[n].meaning,
                    "norm": distance(results[n], 0.0), "float64": distance(changed[n], results[n]),
                }
                for n in shown
            ]  # fmt: skip
            states.append({"state": number, "results": rows})
            if time.monotonic() - began > LIMIT_S:
                break
        for n, output in step.fed.items():
            given[n] = results[output]
    return {"states": states}


def main(argv: Sequence[str]) -> int:
    """Write the result as JSON."""
    jax.config.update("jax_enable_x64", True)
    settings = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    try:
        found = compare_batches(settings)
    except ValueError as error:
        found = {"error": str(error)}
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        found = {"error": f"the step cannot be run here: {str(error).partition(chr(10))[0] or 'memory ran out'}"}
    Path(argv[1]).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
