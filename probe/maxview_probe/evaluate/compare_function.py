"""Runs two recorded training steps from equal arguments, as they are and in float64, and measures their differences.

    python …/start.py compare_function SETTINGS.json RESULT.json

The settings are the fields of `FunctionSettings`. A distance is the Euclidean norm of a difference.
"""

import ctypes
import json
import math
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from maxview_probe.evaluate.conditions import (
    Condition,
    expose_conditions,
    find_other_sides,
    find_own_conditions,
    list_conditions,
    list_selections,
)
from maxview_probe.evaluate.match import ArrayOrigin, find_layer_axes, match
from maxview_probe.evaluate.recorded_step import RecordedStep, Slot, mlir_context
from maxview_probe.evaluate.run_program import KeptPrograms, RunnableProgram, run_at_once
from maxview_probe.evaluate.sweep import Sweep, SweptArm
from maxview_probe.evaluate.widen import as_run, widen_program

CHAINED = 3  # steps from the first arguments; at a warm-up's step 0 the learning rate is 0
DRAWS = 2  # number of perturbed chains
LONGER = 0.01  # share by which the updates of one more chain are longer: how much the loss shows of a change
# How many times further than the perturbed chains the arms' losses part if rounding cannot be the cause, and the last
# bits of a loss: as in tasks/diff/judge/decide_by_function.py, which another environment lacks.
PARTED, LAST_BITS = 4.0, 4 * 2.0**-24
DIFFERENT = 1e-9  # relative difference of all results together that ends the search for a step that differs
LOSS = "loss"
KEPT = "programs"  # in the baseline's recording
_FLOAT = re.compile(r"[x<](bf16|f8\w+|f16|f32|f64)>")


@dataclass(frozen=True)
class FunctionSettings:
    """Both recordings, and the limits of the chains as run."""

    baseline: str
    candidate: str
    curve_steps: int = 0  # steps of the chains that give the band of rounding and the late state; 0: none
    curve_s: float = 20.0  # seconds after which these chains end
    sweep_s: float = 20.0  # seconds for states that no run reached
    made_by: str = (
        ""  # tells compiler and processor: the baseline's compiled programs stay in its recording; "": they go
    )
    until_decided: bool = False  # end at the first steps if their results differ: no later state changes that answer


@dataclass(frozen=True)
class WideText:
    """A step's program in float64, with the conditions that the other arm's program lacks."""

    text: str
    own: Sequence[Condition] = ()  # whose ways the program returns
    hidden: int = 0  # further ones, in parts whose ways cannot be returned


def widen_both(steps: Sequence[RecordedStep]) -> list[WideText]:
    """Return both steps' programs in float64. Raises NoFunction, ValueError, with the arm's name."""
    texts, conditions, selections = [], [], []
    for arm, step in zip(("baseline", "candidate"), steps, strict=True):
        with naming(arm), mlir_context():
            texts.append(widen_program(step.text, with_places=True))
            conditions.append(list_conditions(texts[-1]))
            selections.append(list_selections(texts[-1]))
    found = []
    pairs = zip(texts, zip(conditions, selections, strict=True), strict=True)
    others = zip(reversed(conditions), reversed(selections), strict=True)
    for (text, (mine, sides)), (other, other_sides) in zip(pairs, others, strict=True):
        own = [*find_own_conditions(mine, other), *find_other_sides(sides, other_sides)]
        try:
            with mlir_context():
                exposed, watched = expose_conditions(text, own)
        except (ir.MLIRError, ValueError):
            exposed, watched = text, []
        found.append(WideText(exposed, watched, len(own) - len(watched)))
    return found


class PreparedArm:
    """One arm's step, compiled as it is and in float64, with the arguments of its first call."""

    def __init__(
        self,
        step: RecordedStep,
        first: Sequence[np.ndarray],
        batches: Callable[[int], dict[int, Any]],
        wide: WideText,
        kept: KeptPrograms | None = None,
    ):
        self.step, self.first, self.batches = step, list(first), batches
        with mlir_context():
            plain = as_run(step.text)
        with ThreadPoolExecutor(2) as pool:  # the compiler does not hold Python's lock
            both = (
                pool.submit(RunnableProgram, plain, step.devices, kept=kept),
                pool.submit(RunnableProgram, wide.text, step.devices, quickly=True, kept=kept),
            )
        self.plain, self.wide = (one.result() for one in both)
        self.swept = SweptArm(self.wide, wide.own)
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)  # give the compiler's half a gigabyte back before the next arm

    def chain(self, program: RunnableProgram, arguments: Sequence[Any], *, longer: float = 0.0) -> Iterator[list[Any]]:
        """Yield the results of each step, each from the state after the step before and its own batch.

        longer: share by which the update of each weight is longer than the program's.
        """
        wide = program is self.wide
        given = [to_float64(one) for one in arguments] if wide else list(arguments)
        for number in range(1, sys.maxsize):
            results = self.swept.run(given) if wide else program(given)
            yield results
            for n, output in self.step.fed.items():
                old, given[n] = given[n], results[output]
                if longer and self.step.inputs[n].role == "parameter":
                    exact = [np.asarray(one, np.float64) for one in (old, given[n])]
                    given[n] = (exact[1] + longer * (exact[1] - exact[0])).astype(old.dtype)
            for n, value in self.batches(number).items():
                given[n] = to_float64(value) if wide else value


def compare_steps(settings: FunctionSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Return the measured differences. Raises ValueError with a sentence if the steps cannot be compared."""
    with naming("baseline"):
        step = RecordedStep(Path(settings.baseline))
    with naming("candidate"):
        steps = step, RecordedStep(Path(settings.candidate))
    for arm, step in zip(("baseline", "candidate"), steps, strict=True):
        if not any(is_weight(step, n) for n in step.fed):
            raise ValueError(f"{arm}: one step shows no weight that becomes an argument of the next: train two or more")
    sources = match(steps[0].inputs, steps[1].inputs)
    unmatched = _unmatched(steps, sources)
    alone = [n for n, source in enumerate(sources) if not source and _must_match(steps[1].inputs[n])]
    whole = any(step.record.get("period", 0) > 1 for step in steps)  # an accumulator begins each cycle with one value
    _raise_if_lost(steps[1], [n for n in alone if not (whole and n in steps[1].fed)])
    say("compiling both steps, as they are and in float64")
    texts = widen_both(steps)
    with naming("baseline"):
        made_by = settings.made_by
        kept = KeptPrograms(Path(settings.baseline) / KEPT, made_by) if made_by else None
        baseline = PreparedArm(steps[0], steps[0].first, steps[0].batch, texts[0], kept)

    def batches(number: int) -> dict[int, Any]:
        theirs = [*steps[0].first]
        for n, value in steps[0].batch(number).items():
            theirs[n] = value
        own = steps[1].batch(number)
        return {n: source.take(theirs) if (source := sources[n]) else own[n] for n in own}

    first = [source.take(steps[0].first) if source else steps[1].first[n] for n, source in enumerate(sources)]
    first = [one.astype(like.dtype) for one, like in zip(first, steps[1].first, strict=True)]
    with naming("candidate"):
        candidate = PreparedArm(steps[1], first, batches, texts[1])
    outputs = match(steps[0].outputs, steps[1].outputs)
    if len({step.record.get("period", 1) for step in steps}) > 1:  # a metric of one call is another one's, of all rows
        outputs = [None if slot.role == "metric" else one for slot, one in zip(steps[1].outputs, outputs, strict=True)]
    moving: tuple[set[int], set[int]] = (set(), set())  # inputs of each arm that a step has changed
    say(f"running {CHAINED} steps of each")
    states = []
    weights = {output: to_float64(steps[0].first[n]) for n, output in steps[0].fed.items() if is_weight(steps[0], n)}
    for number, results in zip(
        range(CHAINED), run_both(baseline, candidate, baseline.first, candidate.first), strict=False
    ):
        states.append({"state": f"step {number}", "results": measure_results(steps[1].outputs, outputs, *results)})
        wide = results[1]
        for prepared, step, held, after in zip((baseline, candidate), steps, moving, (wide, results[3]), strict=True):
            held |= {n for n, out in step.fed.items() if not np.array_equal(after[out], to_float64(prepared.first[n]))}
            held -= step.own_counters
        updates = [{"norm": distance(wide[n], 0.0), "update": distance(wide[n], old)} for n, old in weights.items()]
        weights = {n: wide[n] for n in weights}
    found: dict[str, Any] = {"states": states, "unmatched": unmatched, "curves": {}, "updates": updates}
    _raise_if_lost(steps[1], [n for n in alone if n in moving[1]])
    found["other_period"] = len({step.record.get("period", 1) for step in steps}) > 1
    found["lost_state"] = _find_lost_state(steps, sources, moving if whole else None)
    if found["lost_state"] and any("period" in step.record for step in steps):
        lost = ", ".join(found["lost_state"][:3])
        raise ValueError(f"only one arm's loop carries {lost} from cycle to cycle: their states differ")
    found |= {"types": list_float_types(step.text for step in steps), "devices": max(step.devices for step in steps)}
    if settings.until_decided and any(differ(one["results"]) for one in states):
        return found | {"until_decided": True}
    if settings.curve_steps:
        say(f"running {settings.curve_steps} steps for the band of rounding")

        def compare_at(state: str, arguments: Sequence[Any]) -> None:
            own = candidate.first
            given = [one.take(arguments).astype(own[n].dtype) if one else own[n] for n, one in enumerate(sources)]
            results = next(run_both(baseline, candidate, arguments, given))
            states.append({"state": state, "results": measure_results(steps[1].outputs, outputs, *results)})

        _curves(settings, baseline, candidate, found, compare_at)

    def translate(arguments: Sequence[Any]) -> list[Any]:
        own = [to_float64(one) for one in candidate.first]
        return [
            source.take(arguments).astype(mine.dtype) if source else mine
            for source, mine in zip(sources, own, strict=True)
        ]

    say("comparing both at states that no run reached")
    swept = Sweep(
        step=steps[0], arms=(baseline.swept, candidate.swept), translate=translate, slots=steps[1].outputs,
        sources=outputs, first=[to_float64(one) for one in baseline.first], steps=settings.curve_steps,
        resting=frozenset(steps[0].fed) - _used(sources) - moving[0] if whole else frozenset(),
        plain=[(arm.plain, [one.dtype for one in arm.first]) for arm in (baseline, candidate)],
    )  # fmt: skip
    found["swept"] = swept.run(settings.sweep_s)
    found["conditions"] = [
        {"own": len(arm.conditions), "hidden": text.hidden, "one_sided": [vars(one) for one in arm.one_sided()],
         "all": [vars(one) for one in arm.conditions]}
        for arm, text in zip(swept.arms, texts, strict=True)
    ]  # fmt: skip
    return found


@contextmanager
def naming(arm: str) -> Iterator[None]:
    """Put an arm's name before the sentence of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{arm}: {error}") from error


def list_float_types(texts: Iterable[str]) -> list[str]:
    """Return the floating-point types of tensors in programs."""
    return sorted({kind for text in texts for kind in _FLOAT.findall(text)})


def run_both(
    baseline: PreparedArm, candidate: PreparedArm, first: Sequence[Any], other: Sequence[Any]
) -> Iterator[tuple[list[Any], ...]]:
    """Yield the results of each step: the baseline's as run and in float64, then the candidate's."""
    chains = [
        arm.chain(program, given)
        for arm, given in ((baseline, first), (candidate, other))
        for program in (arm.plain, arm.wide)
    ]
    devices = max(baseline.step.devices, candidate.step.devices)
    while True:
        yield tuple(run_at_once([partial(next, chain) for chain in chains], devices=devices))


def _curves(
    settings: FunctionSettings,
    baseline: PreparedArm,
    candidate: PreparedArm,
    found: dict[str, Any],
    compare_at: Callable[[str, Sequence[Any]], None],
) -> None:
    """Write the losses of each chain: both arms, the perturbed baseline, and one with longer updates.

    found: has the "states" so far, and gets the losses as "curves".
    compare_at: gets the baseline's arguments after a quarter, a half, three quarters and all of the steps. If the
        losses part further than rounding explains, although all these states are equal, one step in between computes
        another function: then also after each of the others, up to the first that differs.
    """
    curves = found["curves"]
    chains = {"baseline": (baseline, baseline.first), "candidate": (candidate, candidate.first)}
    for draw in range(DRAWS):
        chains[f"perturbed {draw}"] = (baseline, perturb_weights(baseline.step.inputs, baseline.first, draw))
    running = {name: arm.chain(arm.plain, first) for name, (arm, first) in chains.items()}
    chains["longer"] = chains["baseline"]
    running["longer"] = baseline.chain(baseline.plain, baseline.first, longer=LONGER)
    devices = max(baseline.step.devices, candidate.step.devices)
    places = {name: loss_of(arm.step.outputs) for name, (arm, _) in chains.items()}
    curves.update({name: [] for name in chains})
    state, spent = list(baseline.first), 0.0
    between = {settings.curve_steps * quarter // 4 for quarter in (1, 2, 3)} - set(range(CHAINED))
    for number in range(settings.curve_steps):
        if number >= CHAINED and spent > settings.curve_s:
            break
        if number in between:
            compare_at(f"step {number}", state)
        began = time.monotonic()
        every = run_at_once([partial(next, chain) for chain in running.values()], devices=devices)
        for name, results in zip(running, every, strict=True):
            if (place := places[name]) is not None:
                curves[name].append(float(results[place]))
            if name == "baseline":
                for n, output in baseline.step.fed.items():
                    state[n] = results[output]
        spent += time.monotonic() - began
    compare_at("late", state)
    if not have_parted(curves) or any(differ(one["results"]) for one in found["states"]):
        return
    state, began = list(baseline.first), time.monotonic()
    steps = range(1, len(curves["baseline"]))
    for number, results in zip(steps, baseline.chain(baseline.plain, baseline.first), strict=False):
        for n, output in baseline.step.fed.items():
            state[n] = results[output]
        if number not in {*range(CHAINED), *between}:
            compare_at(f"step {number}", state)
            if differ(found["states"][-1]["results"]) or time.monotonic() - began > settings.curve_s:
                return


def differ(results: Sequence[Any]) -> bool:
    """Return whether all results together differ in float64 by more than rounding does."""
    gaps = [(row["float64"] or 0.0, row["norm"] or 0.0) for row in results if "float64" in row]
    return math.hypot(*(gap for gap, _ in gaps)) > DIFFERENT * math.hypot(*(norm for _, norm in gaps))


def have_parted(curves: dict[str, list[float]]) -> bool:
    """Return whether the arms' losses part further than those of the perturbed chains explain."""
    baseline = np.array(curves["baseline"])
    if not len(baseline):
        return False
    gaps = {name: np.mean((np.array(curve) - baseline) ** 2) for name, curve in curves.items()}
    noise = np.mean([gap for name, gap in gaps.items() if name.startswith("perturbed")])
    return bool(gaps["candidate"] > PARTED**2 * (noise + (LAST_BITS * baseline[-1]) ** 2))


def loss_of(outputs: Sequence[Slot]) -> int | None:
    """Return the index of the loss among a step's results: named `loss`, else the only number; None without one."""
    numbers = [n for n, slot in enumerate(outputs) if slot.is_float and slot.shape == () and slot.role == "metric"]
    named = [n for n in numbers if outputs[n].meaning.split(".")[-1] == LOSS]
    named = named or [n for n in numbers if LOSS in outputs[n].meaning]
    return next(iter(named or (numbers if len(numbers) == 1 else [])), None)


def perturb_weights(inputs: Sequence[Slot], values: Sequence[Any], draw: int) -> list[Any]:
    """Return the arguments with every weight times (1 + half a unit in its last place · N(0, 1))."""
    random = np.random.default_rng(draw)
    found = []
    for slot, value in zip(inputs, values, strict=True):
        if slot.role == "parameter" and slot.is_float:
            finfo: Any = ml_dtypes.finfo
            unit = float(finfo(value.dtype).eps) / 2
            value = (value.astype(np.float64) * (1 + unit * random.standard_normal(value.shape))).astype(value.dtype)
        found.append(value)
    return found


def measure_results(
    slots: Sequence[Slot],
    sources: Sequence[ArrayOrigin | None],
    a: list[Any],
    a64: list[Any],
    b: list[Any],
    b64: list[Any],
) -> list[dict[str, Any]]:
    """Return for each common result its norm in float64 and four distances.

    "as_run": candidate − baseline; "float64": the same of both float64 results; "rounding": [of the baseline, of the
    candidate], each as run − its own float64; "typical": of a gradient, the same pair of `find_typical_gaps`; "layers":
    norms, "rounding" and "typical" of each layer of an array that stacks them. Integers only have "as_run". A distance
    is null if a result is NaN.
    """
    rows, axes = [], find_layer_axes(slots)
    for n, (slot, source) in enumerate(zip(slots, sources, strict=True)):
        if source is None:
            continue
        ours, theirs = b[n], source.take(a)
        row: dict[str, Any] = {"role": slot.role, "meaning": slot.meaning, "size": int(ours.size), "type": slot.type}
        if slot.is_float:
            wide, their_wide = b64[n], source.take(a64)
            row |= {
                "norm": distance(their_wide, 0.0),
                "as_run": distance(ours, theirs),
                "float64": distance(wide, their_wide),
                "rounding": [distance(theirs, their_wide), distance(ours, wide)],
            }
            is_gradient = slot.role == "optimizer" and slot.meaning.startswith("mu.")
            if is_gradient:
                row["typical"] = find_typical_gaps((theirs, their_wide), (ours, wide))
            if (axis := axes[n]) is not None:
                layers = [[np.moveaxis(one, axis, 0) for one in pair] for pair in ((theirs, their_wide), (ours, wide))]
                row["layers"] = {
                    "norm": [distance(one, 0.0) for one in layers[0][1]],
                    "rounding": [[distance(*one) for one in zip(*pair, strict=True)] for pair in layers],
                }
                if is_gradient:
                    parts = zip(*layers[0], *layers[1], strict=True)
                    row["layers"]["typical"] = [find_typical_gaps((a, a64), (b, b64)) for a, a64, b, b64 in parts]
        else:
            row |= {"norm": None, "as_run": float((ours.astype(np.int64) != theirs.astype(np.int64)).sum())}
        rows.append(row)
    return rows


def distance(left: Any, right: Any) -> float | None:
    """Return the Euclidean norm of left − right in float64; None if it is no number."""
    gap = np.asarray(left, np.float64) - np.asarray(right, np.float64)
    found = float(np.sqrt(np.einsum("i,i->", gap.ravel(), gap.ravel())))
    return found if np.isfinite(found) else None


def find_typical_gaps(*pairs: tuple[Any, Any]) -> list[float]:
    """Return the median of |left − right| over the elements of each pair, without elements that differ in no pair.

    A few elements that are far off, as of a token that the last bit sends to another expert, do not move it.
    """
    gaps = [np.abs(np.asarray(left, np.float64) - np.asarray(right, np.float64)) for left, right in pairs]
    differ = np.any(gaps, axis=0)
    return [float(np.median(gap[differ])) if differ.any() else 0.0 for gap in gaps]


def to_float64(value: Any) -> Any:
    """Return an array with float64 in place of narrower floats."""
    return value.astype(np.float64) if jax.numpy.issubdtype(value.dtype, jax.numpy.floating) else value


def is_weight(step: RecordedStep, n: int) -> bool:
    """Return whether an input is an array of weights."""
    return step.inputs[n].role == "parameter" and step.inputs[n].is_float


def _must_match(slot: Slot) -> bool:
    # a count of the optimizer's, too: in later states its first value would be another step's
    return slot.role == "optimizer" or (slot.role in ("parameter", "data", "quantisation") and slot.is_float)


def _used(sources: Sequence[ArrayOrigin | None]) -> set[int]:
    """Return the baseline's inputs from which the candidate's are made."""
    return {place for source in sources if source for place in source.places}


def _raise_if_lost(step: RecordedStep, places: Sequence[int]) -> None:
    """Raise ValueError if the baseline lacks some inputs of the candidate."""
    if places:
        lost = ", ".join(step.inputs[n].meaning for n in places[:3])
        raise ValueError(f"the baseline has no counterpart of the candidate's {lost}: their states differ")


def _find_lost_state(
    steps: tuple[RecordedStep, RecordedStep],
    sources: Sequence[ArrayOrigin | None],
    moving: tuple[set[int], set[int]] | None,
) -> list[str]:
    """Return the names of arrays that only one arm's step carries from call to call.

    moving: the inputs of each arm that change; None: all that are carried may.
    """
    used = _used(sources)
    lost = [steps[0].inputs[n] for n in steps[0].fed if n not in used and (moving is None or n in moving[0])]
    lost += [steps[1].inputs[n] for n in steps[1].fed if sources[n] is None and (moving is None or n in moving[1])]
    return [slot.meaning for slot in lost if slot.role != "random numbers"]


def _unmatched(steps: tuple[RecordedStep, RecordedStep], sources: Sequence[ArrayOrigin | None]) -> list[str]:
    used = {place for source in sources if source for place in source.places}
    found = [f"baseline: {slot.meaning}" for n, slot in enumerate(steps[0].inputs) if n not in used]
    found += [
        f"candidate: {slot.meaning}" for slot, source in zip(steps[1].inputs, sources, strict=True) if source is None
    ]
    return found


def main(argv: Sequence[str]) -> int:
    """Write the result as JSON: {"error": sentence} if the steps cannot be compared."""
    jax.config.update("jax_enable_x64", True)
    began = time.monotonic()
    settings = FunctionSettings(**json.loads(Path(argv[0]).read_text(encoding="utf-8")))
    try:
        found = compare_steps(settings, lambda text: print(f"progress: {text}", file=sys.stderr, flush=True))
    except ValueError as error:
        found = {"error": str(error)}
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        found = {"error": f"the steps cannot be run here: {str(error).partition(chr(10))[0] or 'memory ran out'}"}
    found |= {"seconds": time.monotonic() - began, "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    Path(argv[1]).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
