"""Turns the measured differences of a pair (see experiments/inside/compare_twins.py) into the answer for a twin."""

from collections.abc import Iterator, Mapping, Sequence
from math import hypot
from typing import Any

from tasks.experiments.function_figures import FIRST_MOMENT, SAME, sizes_of
from tasks.extensions.invariants.twin_files import Twin
from tasks.extensions.invariants.twin_records import TwinAnswer, TwinGap, TwinResult
from tasks.records.function import name_result, show_relative
from tasks.records.text import counted
from tasks.resolve.trainers.maxtext import show_value

EXACT = 1e-11  # distance to factor · left, relative to the result, up to which the factor is exact
MIN_FACTOR = 1e-6  # distance from 1 above which a factor is named: a smaller one is told by its size
MAX_GAPS = 6
ORDER = ("random numbers", "data", "counter", "parameter", "optimizer", "other")  # causes before consequences
SIZE = {"left": "norm", "right": "right"}  # side → its size in a row; None: not every value is a finite number

type Row = Mapping[str, Any]


def judge_twin(twin: Twin, case: str, measured: Mapping[str, Any]) -> TwinResult:
    """Return the answer for a twin in a case from the JSON object that the evaluation wrote."""
    if "error" in measured:
        place = f"{twin.mapped_at}: " if measured.get("not_mapped") and twin.mapped_at else ""
        excused, seconds = measured.get("no_function", False), measured.get("seconds", 0.0)
        return answer(twin, case, "not evaluated", place + measured["error"], is_excused=excused, seconds=seconds)
    states = [(one["state"], one["results"]) for one in measured["states"]]
    if measured.get("exact"):
        return _judge_exact(twin, case, measured)
    facts: dict[str, Any] = {"seconds": measured.get("seconds", 0.0), "change": measured.get("change", "")}
    facts["digests"] = tuple(measured.get("digests", ()))
    if infinite := next((rows for _, rows in states if any(map(_is_broken, rows))), None):
        broken = next(row for row in infinite if _is_broken(row))
        sentence = f"{name_result(broken['role'], broken['meaning'])} is NaN or infinite in float64"
        for side, other in (("left", "right"), ("right", "left")):
            if all(row[SIZE[side]] is not None for row in infinite if "float64" in row):
                return answer(twin, case, "another", f"{sentence} on the {other} side only", **facts)
        return answer(twin, case, "not evaluated", sentence, **facts)
    changed = next((row for _, rows in states for row in rows if row.get("different") and _counts(row)), None)
    gaps = {state: list(_gaps(state, rows)) for state, rows in states}
    worst = max((gap.float64 for found in gaps.values() for gap in found), default=0.0)
    results = sum("float64" in row for row in states[0][1])
    beyond = [gap for found in gaps.values() for gap in found if gap.float64 > SAME]
    lost = [name for name in measured.get("unmatched", ()) if "rng" not in name.lower()]
    common = "parameter" if twin.trains else "metric"
    if not beyond and changed is None and not any(row["role"] == common for row in states[0][1]):
        names = f" ({', '.join(lost[:2])})" if lost else ""
        return answer(twin, case, "not evaluated", f"the sides have no weights in common{names}")
    facts |= {"gap": worst, "results": results}
    facts["gradients"] = _of_gradients(states[0][1])
    if not beyond and changed is None:
        equal = f"equal to {worst:.1g}" if worst else "equal in every bit"
        text = f"{results} results of {counted(len(states), 'step')} are {equal}"
        if measured.get("one_program"):
            text += ": both sides are one program"
        return answer(twin, case, "same", text, **facts)
    first = beyond[0].state if beyond else states[0][0]
    shown = sorted((gap for gap in beyond if gap.state == first), key=lambda gap: -gap.float64)
    facts["gaps"] = tuple(shown[:MAX_GAPS])
    return answer(twin, case, "another", _say(facts["gradients"], shown, changed), **facts)


def _judge_exact(twin: Twin, case: str, measured: Mapping[str, Any]) -> TwinResult:
    """Return the answer of a resumed run: every argument of its first step is equal bit for bit, or not."""
    rows, lost = measured["states"][0]["results"], measured.get("unmatched", ())
    seconds = measured.get("seconds", 0.0)
    different = sorted((row for row in rows if row["different"]), key=lambda row: ORDER.index(_kind_of(row)))
    if not different and not lost:
        text = f"{len(rows)} arguments of the next step are equal in every bit"
        return answer(twin, case, "same", text, results=len(rows), gap=0.0, seconds=seconds)
    names = [f"{row['role']} {row['meaning']}" for row in different] + list(lost)
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    text = f"{len(names)} of {len(rows)} arguments of the next step differ: {', '.join(names[:2])}{more}"
    return answer(twin, case, "another", text, results=len(rows), seconds=seconds)


def _kind_of(row: Row) -> str:
    return row["role"] if row["role"] in ORDER else ORDER[-1]


def answer(twin: Twin, case: str, word: TwinAnswer, sentence: str, **facts: Any) -> TwinResult:
    """Return a result."""
    left, right = (
        tuple(f"{key}={show_value(value)}" for key, value in (twin.both | side).items()) if is_all else None
        for side, is_all in zip(twin.sides, (not twin.command, not (twin.command or twin.is_about_more)), strict=True)
    )
    return TwinResult(
        twin=twin.name, title=twin.title, why=twin.why, case=case, answer=word, sentence=sentence,
        settings=(left, right), **facts,
    )  # fmt: skip


def _is_broken(row: Row) -> bool:
    return "float64" in row and None in (row["norm"], row["right"], row["float64"])


def _counts(row: Row) -> bool:
    """Whether a differing integer is a difference: random streams are counted in each API's own way."""
    return bool(row["role"] not in ("random numbers", "other state"))


def _gaps(state: str, rows: Sequence[Row]) -> Iterator[TwinGap]:
    floats = [row for row in rows if "float64" in row]
    for row, size in zip(floats, sizes_of(floats), strict=True):
        factor = None
        if row["factor"] is not None and row["rest"] is not None and row["rest"] <= EXACT * row["norm"]:
            factor = row["factor"] if abs(row["factor"] - 1) > MIN_FACTOR else None
        yield TwinGap(
            state=state, role=row["role"], meaning=row["meaning"], float64=row["float64"] / size, factor=factor
        )


def _of_gradients(rows: Sequence[Row]) -> float | None:
    found = [row for row in rows if row["role"] == "optimizer" and row["meaning"].startswith(FIRST_MOMENT)]
    size = hypot(*(row["norm"] for row in found))
    return hypot(*(row["float64"] for row in found)) / size if size else None


def _say(gradients: float | None, shown: Sequence[TwinGap], changed: Row | None) -> str:
    if not shown:
        return f"{changed['meaning'] if changed else 'an integer'} differs"
    own = [gap for gap in shown if gap.role == "optimizer" and gap.meaning.startswith(FIRST_MOMENT)]
    factors = {f"{gap.factor:.6g}" for gap in own if gap.factor is not None}
    if own and len(factors) == 1 and all(gap.factor is not None for gap in own):
        name = own[0].meaning.removeprefix(FIRST_MOMENT)
        which = "the gradient of " + name if len(own) == 1 else f"{len(own)} gradients ({name}, …)"
        return f"{which} × {own[0].factor:.3f}, exactly, at {own[0].state}"
    if gradients is not None and gradients > SAME and shown[0].state == "step 0":
        return f"gradients differ by {show_relative(gradients)} in float64"
    return f"{shown[0].sentence} in float64 at {shown[0].state}"
