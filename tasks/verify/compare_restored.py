"""Compares the state that a resumed run gives its first step with the state that was saved, array by array."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from maxview_probe.observe.array_notes import note_array, type_of
from maxview_probe.observe.digests import digest_bits, view_bits
from maxview_probe.observe.meaning import Place, number_equal
from tasks.records.restored import NotedArray, NotedState, Restored, RestoredArray
from tasks.verify.array_pairs import pair_places

DATA = "data"
STATE = ("parameter", "optimizer", "counter", "random numbers", "quantisation", "other state")
LOST = ("parameter", "optimizer")  # roles of arrays that no run can do without: unsaved, they begin anew
_CASTS = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float32")
_SCALE = 1e-5  # relative spread of the ratios of an array that is a multiple of the saved one
_SEED = "random numbers"


def compare_restored(
    saved: NotedState,
    restored: NotedState,
    *,
    fresh: NotedState | None = None,
    others: Sequence[NotedState] = (),
    read: Sequence[str] = (),
) -> Restored:
    """Return what became of each saved array in the first arguments of a run that restored it, faults first.

    fresh: the first arguments of a run that restored nothing. others: states of other steps of the run that saved.
    `saved` may be a checkpoint, whose arrays have other names; the arguments without a counterpart are then a batch.
    """
    names = {one.name for one in restored.arrays}
    same_program = saved.step is not None and {one.name for one in saved.arrays if one.role != DATA} <= names
    ours, theirs = _places(saved, restored, same_program=same_program)
    begins = _by_name(fresh)
    steps = [(state, _by_name(state)) for state in others if state.call != saved.call]
    holders = _holders(saved)
    rows: list[RestoredArray] = []
    missing: list[NotedArray] = []
    new: list[NotedArray] = []
    for pair in pair_places(ours, theirs):
        if len(pair.ours) > 1 or len(pair.theirs) > 1:
            rows += _compare_stack(pair.ours, pair.theirs, pair.layer_axis)
        elif pair.ours and pair.theirs:
            rows.append(_compare(pair.ours[0], pair.theirs[0], begins, steps, holders))
        else:
            missing += pair.ours
            new += pair.theirs
    for source, array in _pair_rest(missing, new):
        missing.remove(source)
        new.remove(array)
        rows.append(_compare(source, array, begins, steps, holders))
    rows += [RestoredArray(name=one.name, role=one.role, word="missing", is_fault=False) for one in missing]
    rows += [_describe_unsaved(one, begins, saved) for one in new if one.role != DATA]
    rows.sort(key=lambda row: (not row.is_fault, row.word == "equal", row.role != "parameter", row.name))
    note = _describe_batch(saved, restored, others) if same_program else ""
    return Restored(source=saved.title, arrays=tuple(rows), read=tuple(read), notes=(note,) if note else ())


def _describe_batch(saved: NotedState, restored: NotedState, others: Sequence[NotedState]) -> str:
    """Return a note if a resumed run's first batch is that of another call of the run that saved; else ""."""
    fed = {one.name for state in others for one in state.arrays if one.fed}
    batch = [one for one in restored.arrays if one.role == DATA and one.name not in fed]
    names = {one.name for one in batch}
    noted = [state for state in others if batch and names <= _by_name(state).keys()]
    holders = [state for state in noted if all(_is_held(one, _by_name(state)) for one in batch)]
    # the state after the last call has no batch; one batch for all steps tells nothing
    if not holders or len(holders) == len(noted) or any(state.call == saved.call for state in holders):
        return ""
    return f"its first batch is that of step {holders[0].call}, not of step {saved.call}"


def _is_held(array: NotedArray, arrays: Mapping[str, NotedArray]) -> bool:
    return array.name in arrays and _is_equal(arrays[array.name], array)


def find_saved(states: Sequence[NotedState], restored: NotedState) -> NotedState:
    """Return the state, of those of the run that saved, that a resumed run has most arrays of; of equal ones the last.

    Arrays as in the first state are no vote for it: it is before every save, and they were not restored. If all are,
    the last state is returned.
    """
    first, *later = states
    arrays: dict[Any, NotedArray] = {(one.role, one.meaning): one for one in restored.arrays}
    arrays |= {one.name: one for one in restored.arrays}
    fed = {one.name for state in states for one in state.arrays if one.fed}
    found = {one.name: arrays.get(one.name) or arrays.get((one.role, one.meaning)) for one in first.arrays}
    begins = _by_name(first)
    votes = {
        name: array
        for name, array in found.items()
        if array is not None and (name in fed or not fed) and not _is_equal(begins[name], array)
    }
    if not later or not votes:
        return states[-1]

    def distance(state: NotedState) -> tuple[float, int]:
        return sum(_distance(one, votes[one.name]) for one in state.arrays if one.name in votes), -state.call

    return min(later, key=distance)


def _distance(source: NotedArray, array: NotedArray) -> float:
    """Return 0 for equal arrays, up to 1 for unlike ones."""
    if _is_equal(source, array):
        return 0.0
    left, right = _numbers(source.sample), _numbers(array.sample)
    if left.shape != right.shape:
        return 1.0
    size = math.sqrt(float(np.sum(left**2)) + float(np.sum(right**2)))
    gap = float(np.sqrt(np.sum((left - right) ** 2)))
    return min(1.0, gap / size) if size and math.isfinite(gap) else 1.0


def _places(
    saved: NotedState, restored: NotedState, *, same_program: bool
) -> tuple[dict[Place, NotedArray], dict[Place, NotedArray]]:
    """Return the arrays by role and path; arrays of one program by their names, without the batch."""
    fed = {one.name for one in saved.arrays if one.fed or one.role != DATA or saved.step is None}
    if not same_program:
        return _meant(one for one in saved.arrays if one.name in fed), _meant(restored.arrays)
    sides = ({(one.role, one.name): one for one in state.arrays if one.name in fed} for state in (saved, restored))
    left, right = sides
    return dict[Place, NotedArray](left), dict[Place, NotedArray](right)  # type: ignore[arg-type]


def _meant(arrays: Iterable[NotedArray]) -> dict[Place, NotedArray]:
    listed = list(arrays)
    named = number_equal((one.role, one.meaning) for one in listed)
    return dict(zip(named, listed, strict=True))  # type: ignore[arg-type]


def _by_name(state: NotedState | None) -> Mapping[str, NotedArray]:
    return {one.name: one for one in state.arrays} if state is not None else {}


def _holders(state: NotedState) -> Mapping[str, NotedArray]:
    """Return digest → the only array that has it."""
    found: dict[str, NotedArray | None] = {}
    for one in state.arrays:
        if one.digest and not one.zeros:
            found[one.digest] = None if one.digest in found else one
    return {digest: one for digest, one in found.items() if one is not None}


def _pair_rest(missing: Sequence[NotedArray], new: Sequence[NotedArray]) -> list[tuple[NotedArray, NotedArray]]:
    """Return the pairs of arrays with other names: of equal bits, else the only two of one shape and kind of type."""
    pairs, left, right = [], list(missing), list(new)
    for key in (lambda one: one.digest, lambda one: (one.shape, _kind(one.dtype))):
        for source in list(left):
            alike = [one for one in right if key(one) and key(one) == key(source)]
            if len(alike) == 1 and sum(key(one) == key(source) for one in left) == 1:
                pairs.append((source, alike[0]))
                left.remove(source)
                right.remove(alike[0])
    return pairs


def _kind(dtype: str) -> str:
    return "float" if "float" in dtype else "int" if "int" in dtype else dtype


def _is_equal(source: NotedArray, array: NotedArray) -> bool:
    if source.parts or array.parts:
        return bool(array.parts) and [one.digest for one in source.parts] == [one.digest for one in array.parts]
    if source.digest != array.digest:
        # NNX counts in unsigned integers
        counters = source.role == array.role == "counter" and source.shape == array.shape
        return counters and source.sample == array.sample
    return _kind(source.dtype) == _kind(array.dtype)


def _compare(
    source: NotedArray,
    array: NotedArray,
    begins: Mapping[str, NotedArray],
    steps: Sequence[tuple[NotedState, Mapping[str, NotedArray]]],
    holders: Mapping[str, NotedArray],
) -> RestoredArray:
    """Return what became of one saved array."""
    facts: dict[str, Any] = {"name": array.name, "role": array.role}
    if _is_equal(source, array):
        return RestoredArray(**facts, word="equal", is_fault=False)
    fresh = begins.get(array.name)
    if fresh is not None and _is_equal(fresh, array):
        is_zero = f" ({'0' if array.sample == (0,) else 'zeros'})" if array.zeros else ""
        return RestoredArray(**facts, word="untouched", detail=f"untouched since initialisation{is_zero}")
    if array.zeros:
        return RestoredArray(**facts, word="zeros", detail=f"zeros, {_size(source)} was saved")
    if array.parts:
        return RestoredArray(**facts, **_describe_parts(source, array))
    for state, arrays in steps:
        if (other := arrays.get(source.name)) is not None and _is_equal(other, array):
            updates = "1 update" if state.call == 1 else f"{state.call} updates"
            return RestoredArray(**facts, word="older", detail=f"the value after {updates}")
    if cast := _find_cast(source, array):
        text, is_exact = cast
        return RestoredArray(**facts, word="cast", detail=f"cast: {text}", is_fault=not is_exact)
    holder = holders.get(array.digest)
    if holder is not None and holder.name != source.name:
        return RestoredArray(**facts, word="moved", detail=f"the value of {holder.name}")
    if source.turned and array.digest == source.turned:
        return RestoredArray(**facts, word="moved", detail="transposed")
    if source.shape != array.shape:
        return RestoredArray(**facts, word="other", detail=f"another shape: {source.shape} → {array.shape}")
    if layers := _compare_slices(source, array, fresh):
        return RestoredArray(**facts, **layers)
    return RestoredArray(**facts, word="other", detail=_describe_other(source, array))


def _size(array: NotedArray) -> str:
    """Return the value of a scalar, else the norm, of an array."""
    if len(array.sample) == 1:
        return str(array.sample[0])
    return f"norm {array.norm:.3g}" if array.norm is not None else "another value"


def _find_cast(source: NotedArray, array: NotedArray) -> tuple[str, bool] | None:
    """Return the types of a cast and whether it keeps every value; None if the values are no cast ones."""
    if source.shape != array.shape or _kind(source.dtype) != "float" or _kind(array.dtype) != "float":
        return None
    saved, given = _numbers(source.sample), _numbers(array.sample)
    if source.dtype != array.dtype and np.array_equal(_rounded(saved, array.dtype), given, equal_nan=True):
        kept = np.array_equal(saved, given, equal_nan=True)
        return f"{source.dtype} → {array.dtype}", kept and _bits_of(array.dtype) > _bits_of(source.dtype)
    for name in _CASTS:
        is_narrow = _bits_of(name) < min(_bits_of(source.dtype), _bits_of(array.dtype))
        if not is_narrow or (name in array.narrow) is False or name in source.narrow:
            continue
        if np.array_equal(_rounded(saved, name), given, equal_nan=True):
            return f"{source.dtype} → {name} → {array.dtype}", False
    return None


def _bits_of(name: str) -> int:
    kind = type_of(name)
    return kind.itemsize if kind is not None else 0


def _rounded(values: Any, name: str) -> Any:
    kind = type_of(name)
    if kind is None:
        return np.full_like(values, np.nan)
    with np.errstate(all="ignore"):
        return values.astype(kind).astype(np.float64)


def _numbers(sample: Sequence[float | int | str]) -> Any:
    return np.array([float(one) for one in sample], np.float64)


def _describe_other(source: NotedArray, array: NotedArray) -> str:
    saved, given = _numbers(source.sample), _numbers(array.sample)
    if len(array.sample) == 1 and len(source.sample) == 1:
        return f"{source.sample[0]} → {array.sample[0]}"
    chosen = (saved != 0) & np.isfinite(saved) & np.isfinite(given)
    if chosen.any() and not given[saved == 0].any():
        ratios = given[chosen] / saved[chosen]
        middle = float(np.median(ratios))
        if middle and float(np.ptp(ratios)) <= _SCALE * abs(middle) and abs(middle - 1) > _SCALE:
            return f"× {middle:.6g}"
    return f"other values: {_size(source)} → {_size(array)}"


def _compare_slices(source: NotedArray, array: NotedArray, fresh: NotedArray | None) -> dict[str, Any] | None:
    """Return the word for an array of which only some layers differ; None if all do on every axis."""
    for axis, theirs in array.slices.items():
        ours = source.slices.get(axis, ())
        if len(ours) != len(theirs):
            continue
        different = [n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
        where = f"{_list(different)} along axis {axis}"
        if sorted(ours) == sorted(theirs):
            return {"word": "moved", "detail": f"layers {where} exchanged"}
        if len(different) == len(theirs):
            continue
        zero = _zero_slice(array, axis)
        if all(theirs[n] == zero for n in different):
            return {"word": "zeros", "detail": f"zeros in {where}"}
        anew = fresh.slices.get(axis, ()) if fresh is not None else ()
        if len(anew) == len(theirs) and all(theirs[n] == anew[n] for n in different):
            return {"word": "untouched", "detail": f"{where} untouched since initialisation"}
        return {"word": "other", "detail": f"other values in {where}, equal in the others"}
    return None


def _zero_slice(array: NotedArray, axis: int) -> str:
    shape = (*array.shape[:axis], *array.shape[axis + 1 :])
    kind = type_of(array.dtype)
    return digest_bits(view_bits(np.zeros(shape, kind))) if kind is not None else ""


def _list(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:4]))
    return f"{shown}, …" if len(numbers) > 4 else shown


def _compare_stack(
    ours: Sequence[NotedArray], theirs: Sequence[NotedArray], axis: int | None
) -> Iterable[RestoredArray]:
    """Yield a row per stacked array: equal if each slice is the array of its layer."""
    stack, layers = (ours[0], theirs) if len(ours) == 1 else (theirs[0], ours)
    shown = theirs[0] if len(theirs) == 1 else None
    slices = stack.slices.get(axis, ()) if axis is not None else ()
    for number, layer in enumerate(layers):
        array = shown or layer
        name = f"{array.name}[layer {number}]" if shown is not None else array.name
        if len(slices) != len(layers):
            yield RestoredArray(name=name, role=array.role, word="other", detail="its layers cannot be compared")
        elif slices[number] == layer.digest:
            yield RestoredArray(name=name, role=array.role, word="equal", is_fault=False)
        elif layer.digest in slices:
            detail = f"layer {slices.index(layer.digest)} of the other layout"
            yield RestoredArray(name=name, role=array.role, word="moved", detail=detail)
        else:
            yield RestoredArray(name=name, role=array.role, word="other", detail="other values")


def _describe_parts(source: NotedArray, array: NotedArray) -> dict[str, Any]:
    """Return the word for an array of which each process holds a part."""
    if all(part.zeros for part in array.parts):
        return {"word": "zeros"}
    pairs = [(a, b) for a, b in zip(source.parts, array.parts, strict=True) if a.digest != b.digest]
    for name in _CASTS:
        if all(np.array_equal(_rounded(_numbers(a.sample), name), _numbers(b.sample)) for a, b in pairs):
            return {"word": "cast", "detail": f"cast: {source.dtype} → {name}"}
    return {"word": "other", "detail": f"other values in {len(pairs)} of {len(array.parts)} parts"}


def _describe_unsaved(array: NotedArray, begins: Mapping[str, NotedArray], saved: NotedState) -> RestoredArray:
    """Return the row of an argument without a counterpart: the checkpoint lacks it, or the program that saved does.

    Another implementation has random streams and counters of its own; weights and moments it must have.
    """
    if saved.step is not None and array.role not in LOST:
        text = "the program that saved has none"
        return RestoredArray(name=array.name, role=array.role, word="not saved", detail=text, is_fault=False)
    fresh = begins.get(array.name)
    anew = ", begins anew" if fresh is not None and _is_equal(fresh, array) else ""
    text = f"not in the checkpoint{anew}"
    is_fault = array.role in LOST or (bool(anew) and array.role in ("counter", _SEED))
    return RestoredArray(name=array.name, role=array.role, word="not saved", detail=text, is_fault=is_fault)


def note_values(name: str, place: Place, values: Any, boxes: Sequence[Any] = ()) -> NotedArray:
    """Return the note of an array that was read from a checkpoint; with `boxes`, of these parts of it."""
    facts: dict[str, Any] = {"name": name, "role": place[0], "meaning": place[1], "shape": tuple(values.shape)}
    if not boxes:
        return NotedArray(**facts, **note_array(values))
    cut = [values[tuple(slice(*ends) for ends in box)] for box in boxes]
    parts = [{"box": box, **note_array(part, is_whole=False)} for box, part in zip(boxes, cut, strict=True)]
    return NotedArray.model_validate({**facts, "dtype": values.dtype.name, "parts": parts})
