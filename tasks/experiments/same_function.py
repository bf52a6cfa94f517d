"""Decides whether two arms' training steps compute one function: records both steps, then evaluates both in float64."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from configs.environment import pass_on
from configs.installed import digest_files, installed_versions
from tasks.experiments.cycles import evaluated_recordings, have_cycles, name_gaps, say_evaluated
from tasks.experiments.function_figures import summarise_function
from tasks.experiments.kept_recordings import PROBE, describe_machine, digest_recording
from tasks.experiments.observe_arm import recorded_source
from tasks.experiments.recordings import SIDES, Both, name_problem, record_arms
from tasks.experiments.run_inside import Say, run_inside
from tasks.records.function import FunctionComparison
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan
from tasks.resolve.plans import hash_identity
from tasks.resolve.stand_ins import is_on_cpu
from tasks.store.atomic import StoreError, write_atomically
from tasks.store.store import Store

PATIENCE_S = 900.0
SHOWN = 3  # sentences on what was not evaluated
ARRAYS = 12  # float64 arrays of the state's size that exist at once: both arms, four chains, their results
COPIES = 8  # further ones on each device while two programs run: their arguments, results and temporaries
RESULT, SETTINGS, OUTPUT = "function.json", "function-settings.json", "function.log"
GIB = 1 << 30


def say_cost_of_function(store: Store | None, comparison: str, case: str) -> str:
    """Return the cost of `compare_functions` as text: measured in the newest comparison of this name and case.

    store: with the earlier comparisons; None: it has none. The limit is named in any case.
    """
    last = f"{seconds:,.0f} s the last time, " if (seconds := _find_last_seconds(store, comparison, case)) else ""
    limit = f"at most {PATIENCE_S / 60:.0f} minutes"
    return f"both arms are started for a few steps, which then run in float64: {last}{limit}"


def _find_last_seconds(store: Store | None, comparison: str, case: str) -> float:
    """Return the seconds that float64 took in the newest comparison of this name and case; 0 if it is not known."""
    every = store.comparisons() if store is not None else ()
    named = [one for one in every if one.path.parts[-3:-1] == (comparison, case) and one.comparison.is_file()]
    newest = max(named, key=lambda one: one.comparison.stat().st_mtime, default=None)
    record = None
    with suppress(StoreError):  # a damaged record names no cost
        record = newest.read_comparison() if newest is not None else None
    return record.function.seconds if record is not None and record.function is not None else 0.0


def compare_functions(
    plans: Both[RunPlan],
    names: Both[str],
    folder: Path,
    recordings: Both[Path] | None = None,
    *,
    stands_for: str = "",
    until_decided: bool = False,
    say: Say = lambda text: None,
) -> FunctionComparison:
    """Return whether both plans' steps compute one function; the answer is *not evaluated* with a sentence if not.

    plans: of runs on this machine's processors. The measured distances stay in `folder`; with these, a second
    call with equal recordings measures nothing. recordings: folders of the recorded steps; None: below `folder`.
    until_decided: end at the first steps if their results differ; runs also need the band of rounding.
    stands_for: how the plans differ from those of the runs, added to the sentence.
    say: called with each line of progress.
    """
    result = folder / RESULT
    elsewhere = next((plan for plan in plans if not is_on_cpu(plan)), None)
    if elsewhere is not None:
        return refuse(f"{elsewhere.arm} runs on {elsewhere.target}, and float64 needs a program for a processor")
    recordings = recordings or (folder / SIDES[0], folder / SIDES[1])
    try:
        observations = record_arms(plans, recordings)
        if problem := name_problem(observations, names):
            raise ValueError(problem)
        identity = identify_evaluation(plans, recordings)
        known = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
        if known.get("plans") != identity or (known.get("until_decided") and not until_decided):
            measured = measure_functions(
                plans, observations, names, recordings, result, say, until_decided=until_decided
            )
            write_atomically(result, json.dumps(measured | {"plans": identity}))
        found = summarise_function(json.loads(result.read_text(encoding="utf-8")))
        sentence = f"{found.sentence}; {stands_for}" if stands_for else found.sentence
        return found.replace(stands_for=stands_for, sentence=sentence)
    except (OSError, ValueError) as error:
        return refuse(str(error))


def identify_evaluation(plans: Both[RunPlan], recordings: Both[Path]) -> str:
    """Return a digest of all that an evaluation depends on: both recordings, its code, its packages, the machine."""
    facts = {
        "plans": [plan.identity for plan in plans],
        "step": plans[0].step,
        "recordings": [digest_recording(recording) for recording in recordings],
        "code": digest_files(PROBE, PROBE.rglob("*.py")),
        "packages": installed_versions(),
        "machine": describe_machine(),
    }
    return hash_identity(facts)


def measure_functions(
    plans: Both[RunPlan],
    observations: Both[Observation],
    names: Both[str],
    recordings: Both[Path],
    result: Path,
    say: Say,
    *,
    until_decided: bool,
) -> dict[str, Any]:
    """Return the JSON object of the experiment on both recorded steps. Raises ValueError with a sentence."""
    needed, free = estimate_bytes(observations), psutil.virtual_memory().available
    if needed > free:
        there = f"{free / GIB:.1f} GiB are free: choose a smaller model with --model"
        raise ValueError(f"float64 needs about {needed / GIB:.1f} GiB of memory, {there}")
    say(f"float64 needs about {needed / GIB:.1f} GiB of memory, and {free / GIB:.1f} GiB are free")
    steps = int(plans[0].config["steps"])
    found = evaluate_loops(observations, recordings, result, names, steps=steps, say=say, until_decided=until_decided)
    return found | {"roots": [_root(*one) for one in zip(plans, recordings, strict=True)]}


def evaluate_loops(
    observations: Both[Observation],
    recordings: Both[Path],
    result: Path,
    names: Both[str],
    *,
    steps: int,
    say: Say,
    until_decided: bool = False,
) -> dict[str, Any]:
    """Evaluate the cycles of both loops, or their steps alone; return the JSON object with what was not evaluated."""
    devices, cycles = max(one.devices for one in observations), have_cycles(observations)
    folders = evaluated_recordings(observations, recordings, cycles=cycles)
    made_by = hash_identity({"packages": installed_versions(), "machine": describe_machine()})
    settings = {"curve_steps": steps, "until_decided": until_decided, "made_by": made_by}
    evaluate_function(folders, result, settings, devices=devices, say=say)
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    why = ""
    if cycles and "error" in found:
        why, cycles = f"the whole cycle of the loop was not evaluated: {found['error']}", False
        evaluate_function(recordings, result, settings, devices=devices, say=say)
        found = json.loads(result.read_text(encoding="utf-8"))
    gaps = name_gaps(observations, cycles=cycles) + [why] * bool(why)
    if "error" in found and gaps:  # of a step alone, which is no step
        found["error"] = "; ".join(gaps[:SHOWN])
    doubts = [doubt for one in observations if cycles and one.cycle for doubt in one.cycle.doubts]
    said = say_evaluated(observations, names) if cycles else ""
    return found | {"not_evaluated": gaps, "cycle_doubts": doubts, "evaluated": said}


def _root(plan: RunPlan, recording: Path) -> str:
    return str(Path(recorded_source(plan, recording)).resolve()) if plan.checkout else ""


def refuse(why: str) -> FunctionComparison:
    """Return the answer *not evaluated*."""
    return FunctionComparison(answer="not evaluated", sentence=f"not evaluated: {why}")


def estimate_bytes(observations: Sequence[Observation]) -> float:
    """Return about how much memory the evaluation needs: its arrays of the state's size in float64."""
    sizes = [sum(_count(one.shape) for one in found.arguments) for found in observations]
    return 8.0 * max(sizes) * (ARRAYS + COPIES * max(1, *(found.devices for found in observations)))


def _count(shape: Sequence[int]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def evaluate_function(
    recordings: Both[Path], result: Path, settings: Mapping[str, Any], *, devices: int, say: Say
) -> None:
    """Run the experiment in a process with JAX, which writes its JSON object to `result`.

    settings: further fields of `FunctionSettings`. Raises ValueError if the process fails.
    """
    folder = result.parent
    folder.mkdir(parents=True, exist_ok=True)
    given = {"baseline": str(recordings[0]), "candidate": str(recordings[1]), **settings}
    (folder / SETTINGS).write_text(json.dumps(given), encoding="utf-8")
    environment = pass_on(os.environ) | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    problem = run_inside(
        "the evaluation", "evaluate.compare_function", (folder / SETTINGS, result), python=sys.executable,
        environment=environment, output=folder / OUTPUT, patience_s=PATIENCE_S, say=say,
    )  # fmt: skip
    if problem:
        raise ValueError(problem)
