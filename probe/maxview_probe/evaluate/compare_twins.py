"""Runs pairs of recorded steps in float64 from equal arguments, and measures their differences: no step is trained.

    python …/start.py compare_twins SETTINGS.json DONE

The settings are {"pairs": [fields of `RecordedPair`]}. Each pair's JSON object is written into its file as soon as it
is known. The file DONE is written last.
"""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np

from maxview_probe.evaluate.compare_function import distance, to_float64
from maxview_probe.evaluate.match import ArrayOrigin, match
from maxview_probe.evaluate.plant import plant
from maxview_probe.evaluate.recorded_step import RecordedStep, Slot, mlir_context
from maxview_probe.evaluate.run_program import RunnableProgram
from maxview_probe.evaluate.widen import NoFunction, widen_program

STEPS = 3  # chained; at a warm-up's step 0 the learning rate is 0
PROGRAMS = 30  # kept: a case's, which are small beside results
RESULTS = 5  # kept: of the last sides
READ = ("data", "parameter", "optimizer", "quantisation")  # roles of arguments that a function is of
SEGMENTS = "segment"  # in the name of the array with the number of each token's text, 0 for padding

Arrays: TypeAlias = Sequence[Any]
T = TypeVar("T")


class NotMapped(ValueError):
    """An array of the right side cannot be made from the left side's arrays."""


@dataclass(frozen=True)
class RecordedPair:
    """Two recordings, and how the right side's arrays are made from the left side's."""

    result: str  # file of the result
    left: str
    right: str
    batch: str = "same"  # "reversed": the sequences in reverse order; "texts alone": a sequence per text
    parameters: dict[str, Any] = field(default_factory=dict)  # end of a name → {"stack" | "concatenate", "axis"}
    steps: int = STEPS  # number of steps to compare
    exact: bool = False  # compare the recorded arguments, bit for bit; run the steps only if their programs differ
    planted: str = ""  # kind of change to plant into the right side's program


class Wide:
    """One step in float64."""

    def __init__(self, folder: str, planted: str = ""):
        self.step = RecordedStep(Path(folder))
        with mlir_context():
            text, self.change = plant(self.step.text, planted) if planted else (self.step.text, "")
            self.text = widen_program(text)

    def chain(self, program: RunnableProgram, first: Arrays, batches: Sequence[dict[int, Any]]) -> Iterator[list[Any]]:
        """Yield the results of each step, each from the state after the step before and its own batch."""
        given = program.put([to_float64(one) for one in first])
        for batch in ({}, *batches):
            for n, value in batch.items():
                (given[n],) = program.put([to_float64(value)])
            results = program.run(given)
            yield [np.asarray(one) for one in results]
            for n, output in self.step.fed.items():
                given[n] = results[output]


class Twins:
    """Evaluates pairs. Keeps programs and the last results: most pairs of a case share a side."""

    def __init__(self) -> None:
        self.sides: dict[str, Wide] = {}  # folder → step, without planted changes
        self.programs: dict[str, RunnableProgram] = {}  # text → program
        self.results: dict[str, list[list[Any]]] = {}  # digest of text and arguments → the results of each step

    def read(self, folder: str) -> Wide:
        """Return the step in a folder. Raises ValueError, NoFunction."""
        found = self.sides.pop(folder) if folder in self.sides else Wide(folder)
        return _keep(self.sides, folder, found, RESULTS)

    def run(self, wide: Wide, first: Arrays, batches: Sequence[dict[int, Any]]) -> list[list[Any]]:
        """Return the results of each step. first: the arguments. batches: those of each step after the first."""
        digest = sha256(f"{wide.text}{wide.step.fed}{list(map(list, batches))}".encode())
        for one in (*first, *(value for batch in batches for value in batch.values())):
            digest.update(np.ascontiguousarray(one).view(np.uint8).data)
        key = digest.hexdigest()
        if key not in self.results:
            program = self.programs.pop(wide.text, None) or RunnableProgram(wide.text, wide.step.devices, quickly=True)
            _keep(self.programs, wide.text, program, PROGRAMS)
            return _keep(self.results, key, list(wide.chain(program, first, batches)), RESULTS)
        return _keep(self.results, key, self.results.pop(key), RESULTS)

    def compare(self, pair: RecordedPair) -> dict[str, Any]:
        """Return the measured differences of a pair. Raises ValueError with a sentence if it cannot be compared."""
        if pair.exact:
            found = compare_arguments(RecordedStep(Path(pair.left)), RecordedStep(Path(pair.right)))
            if self.read(pair.left).text != self.read(pair.right).text:  # a process may bake a rule into its program
                found["programs"] = self.compare(replace(pair, exact=False))
            return found
        left = self.read(pair.left)
        right = Wide(pair.right, pair.planted) if pair.planted else self.read(pair.right)
        step, own = left.step, right.step
        known = [*step.inputs, *step.unread.values()]  # what only the right side reads is the left side's, too
        inputs = join(match(known, own.inputs), known, own.inputs, pair.parameters)
        if pair.batch == "texts alone":
            places = {slot.meaning: n for n, slot in enumerate(known) if slot.role == "data"}
            for n, slot in enumerate(own.inputs):
                if slot.role == "data" and slot.meaning in places:
                    inputs[n] = ArrayOrigin((places[slot.meaning],), lambda values: values[0])
        lost = [slot for slot, source in zip(own.inputs, inputs, strict=True) if source is None and _must_match(slot)]
        if lost:
            names = ", ".join(f"{slot.meaning} {list(slot.shape)}" for slot in lost[:3])
            more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
            raise NotMapped(
                f"the left side has no counterpart of the right side's {names}{more}: give the sides equal shapes, or "
                "set `parameters`: the end of such a name, and the left side's arrays that make it"
            )

        def given(number: int) -> list[Any]:
            theirs = [*step.first, *step.unread_values(number)]
            for n, value in step.batch(number).items():
                theirs[n] = value
            theirs = arrange_batch(pair.batch, known, theirs, own)
            values = [source.take(theirs) if source else own.first[n] for n, source in enumerate(inputs)]
            return [one.astype(like.dtype) for one, like in zip(values, own.first, strict=True)]

        def batch(number: int) -> dict[int, Any]:
            every = given(number)
            return {n: every[n] for n in own.batch(0)}

        outputs = join(match(step.outputs, own.outputs), step.outputs, own.outputs, pair.parameters)
        theirs = self.run(left, step.first, [step.batch(n) for n in range(1, STEPS)])
        ours = self.run(right, given(0), [batch(n) for n in range(1, pair.steps)])
        states = [
            {"state": f"step {n}", "results": measure_twins(own.outputs, outputs, *both)}
            for n, both in enumerate(zip(theirs, ours, strict=False))
        ]
        used = {place for source in outputs if source for place in source.places}
        unmatched = [f"left: {slot.meaning}" for n, slot in enumerate(step.outputs) if n not in used]
        unmatched += [f"right: {slot.meaning}" for slot, one in zip(own.outputs, outputs, strict=True) if one is None]
        digests = [digest_sizes(one[-1]) for one in (theirs, ours)]
        facts = {"change": right.change, "digests": digests, "one_program": left.text == right.text}
        facts["updates"] = measure_updates((step, own), outputs, (step.first, given(0)), (theirs[0], ours[0]))
        facts["unread"] = find_unread(step, own, texts=pair.batch == "texts alone")
        return {"states": states, "unmatched": unmatched} | facts


def _keep(kept: dict[str, T], key: str, value: T, most: int) -> T:
    """Put a value at the end of `kept`, and drop the first one if there are more than `most`; return the value."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
    return value


def compare_arguments(left: RecordedStep, right: RecordedStep) -> dict[str, Any]:
    """Return for each argument of both steps the number of values whose bits differ."""
    sides = [
        {(slot.role, slot.meaning): (slot, value) for slot, value in zip(one.inputs, one.first, strict=True)}
        for one in (left, right)
    ]
    rows = []
    for key in sides[0].keys() & sides[1].keys():
        (slot, ours), (_, theirs) = (side[key] for side in sides)
        different = ours.size if ours.shape != theirs.shape else _count_different(ours, theirs)
        row = {"role": slot.role, "meaning": slot.meaning, "size": int(ours.size), "type": slot.type, "norm": None}
        rows.append(row | {"different": int(different)})
    unmatched = [f"left: {meaning}" for _, meaning in sides[0].keys() - sides[1].keys()]
    unmatched += [f"right: {meaning}" for _, meaning in sides[1].keys() - sides[0].keys()]
    return {"states": [{"state": "resumed", "results": rows}], "unmatched": unmatched, "exact": True}


def _count_different(left: Any, right: Any) -> int:
    pairs = (np.ascontiguousarray(one).view(np.uint8).reshape(one.size, -1) for one in (left, right))
    return int(np.any(np.not_equal(*pairs), axis=1).sum())


def find_unread(left: RecordedStep, right: RecordedStep, *, texts: bool) -> dict[str, str]:
    """Return the meaning of each argument of both sides that one side's program does not read, and which side.

    texts: also the texts' numbers if neither side reads them.
    """
    sides: dict[str, str] = {}
    for side, own, other in (("left", left, right), ("right", right, left)):
        reads = {(slot.role, slot.meaning) for slot in other.inputs}
        sides |= {
            one.meaning: side for one in own.unread.values() if one.role in READ and (one.role, one.meaning) in reads
        }
    if texts:
        both = {one.meaning for one in left.unread.values()} & {one.meaning for one in right.unread.values()}
        sides |= dict.fromkeys((meaning for meaning in sorted(both) if SEGMENTS in meaning), "neither")
    return sides


def arrange_batch(batch: str, slots: Sequence[Slot], values: list[Any], own: RecordedStep) -> list[Any]:
    """Return the left side's arguments with the sequences of its batch in another order, or with a text in each."""
    data = [n for n, slot in enumerate(slots) if slot.role == "data" and len(slot.shape) > 1]
    if batch == "reversed":
        return [np.flip(value, 0) if n in data else value for n, value in enumerate(values)]
    if batch == "texts alone":
        rows = next((slot.shape[0] for slot in own.inputs if slot.role == "data" and len(slot.shape) > 1), 0)
        return split_texts(slots, values, data, rows)
    return values


def split_texts(slots: Sequence[Slot], values: list[Any], data: Sequence[int], rows: int) -> list[Any]:
    """Return the arguments with one text per row, padded with 0. Raises ValueError if `rows` are too few."""
    numbers = next((values[n] for n in data if SEGMENTS in slots[n].meaning), None)
    if numbers is None:
        raise ValueError("the batch does not say where a text ends")
    places = []
    for row, line in enumerate(numbers):
        ends = [0, *(np.flatnonzero(np.diff(line)) + 1).tolist(), len(line)]
        places += [(row, begin, end) for begin, end in pairwise(ends) if line[begin] != 0]
    if len(places) > rows:
        raise ValueError(f"the batch has {len(places)} texts, and the right side {rows} sequences: set a larger batch")
    found = list(values)
    for n in data:
        alone = np.zeros((rows, *values[n].shape[1:]), values[n].dtype)
        for target, (row, begin, end) in enumerate(places):
            text = values[n][row, begin:end]
            alone[target, : end - begin] = (text > 0).astype(text.dtype) if SEGMENTS in slots[n].meaning else text
        found[n] = alone
    return found


def join(
    sources: list[ArrayOrigin | None], theirs: Sequence[Slot], ours: Sequence[Slot], parameters: dict[str, Any]
) -> list[ArrayOrigin | None]:
    """Return the sources with those of arrays that are made from several, as a twin's file says."""
    names = {(slot.role, slot.meaning): n for n, slot in enumerate(theirs)}
    found = list(sources)
    for n, slot in enumerate(ours):
        for end, how in parameters.items():  # before what was matched by shape alone
            if slot.meaning.endswith(end):
                parts = how["stack"] or how["concatenate"]
                path = slot.meaning.removesuffix(end)
                places = tuple(names[slot.role, path + part] for part in parts if (slot.role, path + part) in names)
                if len(places) == len(parts):
                    found[n] = ArrayOrigin(places, _joiner(how, slot.shape))
    return found


def _joiner(how: dict[str, Any], shape: tuple[int, ...]) -> Callable[[Sequence[Any]], Any]:
    make = np.stack if how["stack"] else np.concatenate

    def joined(values: Sequence[Any]) -> Any:
        made = make(values, axis=how["axis"])
        if made.shape != shape:
            raise NotMapped(f"`parameters` makes an array of {made.shape} where the right side has {shape}")
        return made

    return joined


def measure_twins(
    slots: Sequence[Slot], sources: Sequence[ArrayOrigin | None], left: Arrays, right: Arrays
) -> list[dict[str, Any]]:
    """Return for each common result both norms, the distance, and the factor that fits the right side best.

    "rest" is the distance to factor · left. Integers have the number of different ones. null: a value is no number.
    """
    rows = []
    for n, (slot, source) in enumerate(zip(slots, sources, strict=True)):
        if source is None:
            continue
        ours, theirs = right[n], source.take(left)
        row: dict[str, Any] = {"role": slot.role, "meaning": slot.meaning, "size": int(ours.size), "type": slot.type}
        if slot.is_float:
            norm = distance(theirs, 0.0)
            if norm is not None and np.array_equal(ours, theirs):
                factor, rest = (1.0, 0.0) if norm else (None, None)
                row |= {"norm": norm, "right": norm, "float64": 0.0, "factor": factor, "rest": rest}
            else:
                row |= {"norm": norm, "right": distance(ours, 0.0)}
                row |= _fit(np.asarray(theirs, np.float64).ravel(), np.asarray(ours, np.float64).ravel())
        else:
            row |= {"norm": None, "different": int((ours.astype(np.int64) != theirs.astype(np.int64)).sum())}
        rows.append(row)
    return rows


def measure_updates(
    steps: tuple[RecordedStep, RecordedStep],
    sources: Sequence[ArrayOrigin | None],
    before: tuple[Arrays, Arrays],
    after: tuple[Arrays, Arrays],
) -> list[dict[str, Any]]:
    """Return the rows of the weights' changes in one step: of plain gradient descent they are all one sees."""
    moved = []
    for step, given, results in zip(steps, before, after, strict=True):
        start = {output: given[n] for n, output in step.fed.items()}
        moved.append([one - to_float64(start[n]) if _is_weight(step, n) else one for n, one in enumerate(results)])
    kept = [source if _is_weight(steps[1], n) else None for n, source in enumerate(sources)]
    kept = [source if source and all(_is_weight(steps[0], n) for n in source.places) else None for source in kept]
    return [row for row in measure_twins(steps[1].outputs, kept, *moved) if row["float64"] is not None and row["norm"]]


def _is_weight(step: RecordedStep, output: int) -> bool:
    slot = step.outputs[output]
    return slot.role == "parameter" and slot.is_float and output in step.fed.values()


def _fit(left: Any, right: Any) -> dict[str, float | None]:
    """Return the distance of two arrays, and the factor of `left` that fits `right` best, with its own distance."""
    square = float(left @ left)
    factor = float(left @ right) / square if square > 0 else None
    rest = None if factor is None else distance(right, factor * left)
    return {"float64": distance(right, left), "factor": factor, "rest": rest}


def digest_sizes(results: Arrays) -> str:
    """Return eight hex digits that are equal for equal functions: of the results' norms, to ten digits."""
    return sha256("".join(f"{distance(one, 0.0) or 0.0:.9e} " for one in results).encode()).hexdigest()[:8]


def _must_match(slot: Slot) -> bool:
    return slot.role in ("parameter", "optimizer", "data", "quantisation") and slot.is_float


def main(argv: Sequence[str]) -> int:
    """Write a JSON object per pair: {"error": sentence} if it cannot be compared."""
    jax.config.update("jax_enable_x64", True)
    gc.freeze()  # collections leave out what was imported
    twins = Twins()
    for settings in json.loads(Path(argv[0]).read_text(encoding="utf-8"))["pairs"]:
        pair, began = RecordedPair(**settings), time.monotonic()
        try:
            found = twins.compare(pair)
        except (ValueError, NoFunction) as error:
            kinds = {"no_function": isinstance(error, NoFunction), "not_mapped": isinstance(error, NotMapped)}
            found = {"error": str(error)} | kinds
        found["seconds"] = round(time.monotonic() - began, 2)
        Path(pair.result).write_text(json.dumps(found), encoding="utf-8")
    Path(argv[1]).touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
