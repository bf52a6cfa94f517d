"""Counts how often one layer that rounds worse is found, and how often equal functions are called worse.

    nice python -m benchmarks.rounding_rates [NAME]… [--draws 100] [--folder FOLDER]

In the second layer the MLP's input is rounded to fewer bits, which float64 leaves out: the function is the same. Each
row has a number of bits, and the factor by which the rounding error of that layer's gradients grows. Each draw has new
weights (the elements of each array in another order) and new tokens (another order of the vocabulary); both steps run
as they are and in float64, at the first step and after 3, 6, 9 and 12 steps. The verdict is that of `rounding_row`.
NAME selects rows whose name contains it. FOLDER keeps the recordings and the draws: draws that are there are judged
again, and not measured. The bounds of a share are exact (Clopper and Pearson), at 95 %.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import betaincinv  # type: ignore[import-untyped]  # scipy-stubs is not installed

from benchmarks.benign_changes import EDITS
from benchmarks.machine import describe_machine
from benchmarks.planted_changes import DECODER, PlantedChange, plant
from benchmarks.same_function import plan_of
from maxview_probe.evaluate.compare_function import (
    PreparedArm,
    list_float_types,
    measure_results,
    run_both,
    widen_both,
)
from maxview_probe.evaluate.match import match
from maxview_probe.evaluate.recorded_step import RecordedStep, Slot
from tasks.diff.judge.decide_by_function import name_worse_rounding
from tasks.experiments.function_figures import summarise_function
from tasks.experiments.recordings import SIDES, record_arms

LAYER = 1
STEPS = 12  # of the trainer before the last state
NORMED = 'changed_BLE, losses = mlp(RMSNorm(cfg, E, name="post_self_attention_layer_norm")(x_BLE), key)'
COARSE = """normed_BLE = RMSNorm(cfg, E, name="post_self_attention_layer_norm")(x_BLE)
        coarse_BLE = jax.lax.reduce_precision(normed_BLE, 8, {bits})
        changed_BLE, losses = mlp(jnp.where(layer == {layer}, coarse_BLE, normed_BLE), key)"""


class Row(NamedTuple):
    """A change, and whether it rounds worse by design."""

    change: PlantedChange
    is_worse: bool


def rows() -> Iterator[Row]:
    """Yield the changes: fewer bits in one layer, and pairs that only round otherwise."""
    for case, every in (("16_f32_exact", (18, 17)), ("01_base", (4, 3)), ("06_moe", (4, 3))):
        for bits in every:
            text = COARSE.format(bits=bits, layer=LAYER)
            yield Row(PlantedChange(f"{bits} bits in one layer, {case}", DECODER, NORMED, text, "", case), True)
    for change in EDITS:
        yield Row(change, False)


def draw(slots: Sequence[Slot], values: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    """Return new arguments: the elements of each weight in another order, other tokens."""
    random = np.random.default_rng(seed)
    tokens = [n for n, slot in enumerate(slots) if slot.role == "data" and slot.meaning in ("inputs", "targets")]
    vocabulary = random.permutation(1 + max(int(values[n].max()) for n in tokens))
    found = list(values)
    for n, slot in enumerate(slots):
        if n in tokens:
            found[n] = vocabulary[values[n]].astype(values[n].dtype)
        elif slot.role == "parameter" and slot.is_float:
            found[n] = random.permutation(values[n].ravel()).reshape(values[n].shape)
    return found


def measure(change: PlantedChange, folder: Path, draws: int) -> Iterator[dict[str, Any]]:
    """Yield the measured distances of each draw; those in `folder` are read."""
    kept = [folder / f"draw-{seed}.json" for seed in range(draws)]
    if not all(path.exists() for path in kept):
        measure_draws(change, folder, [(seed, path) for seed, path in enumerate(kept) if not path.exists()])
    yield from (json.loads(path.read_text(encoding="utf-8")) for path in kept)


def measure_draws(change: PlantedChange, folder: Path, seeds: Sequence[tuple[int, Path]]) -> None:
    """Measure draws, and write each to its file."""
    tree = folder / "tree"
    if not tree.exists():
        plant(change, tree)
    plans = (
        plan_of(change.case, change.set, change.target, folder),
        plan_of(change.case, change.set, change.target, folder, tree),
    )
    record_arms(plans, (folder / SIDES[0], folder / SIDES[1]))
    steps = RecordedStep(folder / SIDES[0]), RecordedStep(folder / SIDES[1])
    texts = widen_both(steps)
    arms = [PreparedArm(step, step.first, step.batch, text) for step, text in zip(steps, texts, strict=True)]
    inputs, outputs = match(steps[0].inputs, steps[1].inputs), match(steps[0].outputs, steps[1].outputs)
    types = list_float_types(step.text for step in steps)

    def compare(state: str, given: Sequence[Any]) -> dict[str, Any]:
        theirs = [source.take(given) if source else steps[1].first[n] for n, source in enumerate(inputs)]
        return {
            "state": state,
            "results": measure_results(steps[1].outputs, outputs, *next(run_both(arms[0], arms[1], given, theirs))),
        }

    for seed, path in seeds:
        first = draw(steps[0].inputs, steps[0].first, seed)
        states, late = [compare("step 0", first)], list(first)
        for number, results in zip(range(1, STEPS + 1), arms[0].chain(arms[0].plain, first), strict=False):
            for n, output in steps[0].fed.items():
                late[n] = results[output]
            if number % (STEPS // 4) == 0:
                states.append(compare(f"after step {number}", late))
        path.write_text(json.dumps({"states": states, "types": types}), encoding="utf-8")


def judge(measured: dict[str, Any]) -> tuple[bool, float | None]:
    """Return whether the candidate of a draw is called worse, and the largest known factor of a gradient's error."""
    found = summarise_function(measured)
    assert found.answer == "same", found.sentence
    worst = found.worst_gradient
    return bool(name_worse_rounding(found)), worst.ratio if worst else None


def show_share(count: int, of: int) -> str:
    """Return a count with the bounds of its share as text: `3 of 40 (1.6 … 20.4 %)`."""
    low = betaincinv(count, of - count + 1, 0.025) if count else 0.0
    high = betaincinv(count + 1, of - count, 0.975) if count < of else 1.0
    return f"{count} of {of} ({100 * low:.1f} … {100 * high:.1f} %)"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    print(describe_machine())
    with tempfile.TemporaryDirectory() as scratch:
        alarms = trials = 0
        for number, (change, is_worse) in enumerate(rows()):
            if given.names and not any(name in change.name for name in given.names):
                continue
            place = (given.folder or Path(scratch)).absolute() / f"{number:03d}"
            done = [judge(one) for one in measure(change, place, given.draws)]
            called, ratios = sum(word for word, _ in done), [ratio for _, ratio in done]
            alarms, trials = alarms + (not is_worse) * called, trials + (not is_worse) * len(done)
            known = [ratio for ratio in ratios if ratio is not None]
            worst = f", worst gradient ×{median(known):.2f} ({min(known):.2f} … {max(known):.2f})" if known else ""
            word = "worse" if is_worse else "equal"
            print(f"{word} {change.name:50.50} called worse {show_share(called, len(done))}{worst}", flush=True)
    print(f"equal functions called worse: {show_share(alarms, trials)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
