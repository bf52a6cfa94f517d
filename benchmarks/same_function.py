"""Judges changes that only round, and changes of the computation, by float64 and by the rules of others.

    python -m benchmarks.same_function [NAME]… [--folder FOLDER]

NAME selects the pairs whose name contains it. FOLDER keeps the recordings: pairs that are there are not measured again.
The rules of others, as published: torchtitan's `loss_compare.py` asks for equal losses, or for relative 1e-3 with its
tolerance mode; Megatron-LM's functional tests allow 5 % of the loss; Megatron-Bridge asks for a correlation of the
losses of 0.99; TTrace (arXiv 2506.09280) bounds the relative difference of a gradient by 4 units of the type's epsilon
times 1.03 per layer above. Exit status: 0 if float64 is right on every pair, 1 if not.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import nan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import benign_changes
from benchmarks.machine import describe_machine
from benchmarks.planted_changes import PLANTED, PlantedChange, plant
from tasks.experiments.recordings import SIDES
from tasks.experiments.same_function import RESULT, compare_functions
from tasks.records.function import FunctionComparison
from tasks.records.plan import ArmOverrides, RunPlan
from tasks.resolve.plans import Request, resolve

SMALL = ("max_target_length=64", "steps=12", "enable_checkpointing=false")
LAYERS = 4
NNX = "pure_nnx=true"
EPSILON = {"bf16": 2**-8, "f32": 2**-23}


class Outcome(NamedTuple):
    """One pair: whether its change is benign, and what each rule says: True: it is the same."""

    name: str
    is_benign: bool
    function: FunctionComparison
    others: dict[str, bool]


def plan_of(
    case: str,
    settings: Sequence[str],
    target: str,
    folder: Path,
    tree: Path | None = None,
    packages: Sequence[str] = (),
) -> RunPlan:
    """Return the plan of one training of the small model; of the source in `tree`, with other packages if given."""
    arm = "nnx" if NNX in settings else "linen"
    settings = [word for word in settings if word != NNX]
    own = [word.partition("=")[0] for word in settings]
    small = [word for word in SMALL if word.partition("=")[0] not in own]
    request = Request(
        comparison="linen-vs-nnx", cases=(case,), target=target, overrides=(*small, *settings), repeats=1, model="tiny",
        arms=ArmOverrides(software=tuple(f"{arm}:{package}" for package in packages)),
    )  # fmt: skip
    plan = next(plan for plan in resolve(request, folder) if plan.arm == arm)
    return plan.replace(checkout=str(tree), identity=f"{plan.identity} {tree}") if tree else plan


def measure(name: str, plans: tuple[RunPlan, RunPlan], folder: Path, *, is_benign: bool) -> Outcome:
    """Compare two trainings in float64 and by the rules of others. Pairs share the recording of an equal baseline."""
    shared, own = folder.parents[1] / "recorded" / plans[0].identity, folder / SIDES[0]
    if shared.exists() and not own.exists():
        shutil.copytree(shared, own)
    function = compare_functions(plans, ("baseline", "candidate"), folder)
    if own.exists() and not shared.exists():
        shutil.copytree(own, shared)
    measured = json.loads((folder / RESULT).read_text()) if (folder / RESULT).exists() else {}
    return Outcome(name, is_benign, function, judge_by_others(measured) if measured.get("curves") else {})


def judge_by_others(measured: dict[str, object]) -> dict[str, bool]:
    """Return what each rule says of the losses and gradients as run."""
    curves: dict[str, list[float]] = measured["curves"]  # type: ignore[assignment]
    left, right = np.array(curves["baseline"]), np.array(curves["candidate"])
    gaps = np.abs(right - left) / np.abs(left)
    states: list[dict[str, list[dict[str, float]]]] = measured["states"]  # type: ignore[assignment]
    gradients = [
        row for row in states[0]["results"] if str(row["meaning"]).startswith("mu.") and row["norm"] and row["norm"] > 0
    ]
    kind = "bf16" if "bf16" in measured["types"] else "f32"  # type: ignore[operator]
    bound = 4 * 1.03 ** (LAYERS + 1) * EPSILON[kind]
    return {
        "torchtitan, exact": bool(np.all(left == right)),
        "torchtitan, 1e-3": bool(np.all(gaps <= 1e-3)),
        "Megatron-LM, 5 %": bool(np.all(gaps <= 0.05)),
        "Megatron-Bridge, correlation": bool(np.corrcoef(left, right)[0, 1] >= 0.99),
        "TTrace": all(row["as_run"] / row["norm"] <= bound for row in gradients),
    }


def measure_edit(change: PlantedChange, folder: Path, *, is_benign: bool) -> Outcome:
    """Compare the trainer with its edited copy."""
    tree = folder / "tree"
    if not tree.exists():
        plant(change, tree)
    plans = (
        plan_of(change.case, change.set, change.target, folder),
        plan_of(change.case, change.set, change.target, folder, tree),
    )
    return measure(change.name, plans, folder / "experiments", is_benign=is_benign)


def measure_settings(pair: benign_changes.SettingsPair, folder: Path) -> Outcome:
    """Compare the trainer with itself under other settings."""
    left = plan_of(pair.case, pair.baseline, pair.targets[0], folder)
    right = plan_of(pair.case, pair.candidate, pair.targets[1], folder, packages=pair.packages)
    return measure(pair.name, (left, right), folder / "experiments", is_benign=True)


def list_pairs() -> Sequence[tuple[str, Callable[[Path], Outcome]]]:
    """Return name and measurement of every pair; a measurement takes the pair's folder."""
    edits = [(change, True) for change in benign_changes.EDITS] + [(change, False) for change in PLANTED]
    pairs = [(change.name, partial(measure_edit, change, is_benign=benign)) for change, benign in edits]
    return [*pairs, *((pair.name, partial(measure_settings, pair)) for pair in benign_changes.SETTINGS)]


def run(names: Sequence[str], folder: Path) -> int:
    """Print a row per pair, then the errors of each rule."""
    outcomes = []
    for number, (name, make) in enumerate(list_pairs()):
        if names and not any(part in name for part in names):
            continue
        outcomes.append(make(folder / f"{number:03d}"))
        print(show(outcomes[-1]), flush=True)
    return report(outcomes)


def show(outcome: Outcome) -> str:
    """Return a pair's row: the answer, its figures, and the distance of its losses and rounding."""
    found = outcome.function
    if found.answer == "not evaluated":
        return f"{outcome.name:55.55} {found.sentence}"
    band = found.band.arms / found.band.rms if found.band and found.band.rms else nan
    worst = f", worst ×{found.worst_gradient.ratio:.2f}" if found.worst_gradient else ""
    ratio = next((one.ratio for one in found.rounding if one.quantity == "gradients"), nan)
    return (
        f"{'rounds' if outcome.is_benign else 'changes':7} {outcome.name:55.55} {found.answer:8} {found.gap:7.1e}, "
        f"as run {found.as_run or 0:7.1e}, curve ×{band:.1f}, rounding ×{ratio:.2f}{worst}, "
        f"{found.seconds:.0f} s, {found.peak_gib:.2f} GiB"
    )


def report(outcomes: Sequence[Outcome]) -> int:
    """Print each rule's false alarms and misses; return 0 if float64 has none."""
    alarms, misses = Counter[str](), Counter[str]()
    for outcome in outcomes:
        answers = {"float64": outcome.function.answer == "same", **outcome.others}
        for rule, is_same in answers.items():
            alarms[rule] += outcome.is_benign and not is_same
            misses[rule] += not outcome.is_benign and is_same
    benign = sum(outcome.is_benign for outcome in outcomes)
    print(f"\n{'rule':30} false alarms of {benign:3}   misses of {len(outcomes) - benign:3}")
    for rule in ["float64", *sorted(set(alarms) - {"float64"})]:
        print(f"{rule:30} {alarms[rule]:15}   {misses[rule]:9}")
    return int(bool(alarms["float64"] or misses["float64"]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args(argv)
    print(describe_machine())
    with tempfile.TemporaryDirectory() as scratch:
        return run(given.names, (given.folder or Path(scratch)).absolute())


if __name__ == "__main__":
    sys.exit(main())
