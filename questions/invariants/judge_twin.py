"""Turns the measured differences of a pair (see `evaluate.compare_twins`) into the answer for a twin."""

from collections.abc import Iterator, Mapping, Sequence
from math import hypot
from typing import Any

from maxview_probe.evaluate.limits import SAME
from questions.invariants.twin_files import Twin
from questions.invariants.twin_records import TwinAnswer, TwinGap, TwinResult
from tasks.experiments.function_figures import FIRST_MOMENT, sizes_of
from tasks.records.function import name_result, show_relative
from tasks.records.text import counted
from tasks.resolve.trainers.maxtext import show_value

EXACT = 1e-11  # distance to factor · left, relative to the result, up to which the factor is exact
MIN_FACTOR = 1e-6  # distance from 1 above which a factor is named: a smaller one is told by its size
ROUNDED = 1e-6  # the same of an update: a weight after the step minus the weight before it has fewer digits
MAX_GAPS = 6
FAR_BEYOND = 10.0  # times the gradients' difference by which a result of the step differs that is named first
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
    facts["unread"] = measured.get("unread", {})
    if infinite := next((rows for _, rows in states if any(map(_is_broken, rows))), None):
        broken = next(row for row in infinite if _is_broken(row))
        sentence = f"{name_result(broken['role'], broken['meaning'])} is NaN or infinite in float64"
        for side, other in (("left", "right"), ("right", "left")):
            if all(row[SIZE[side]] is not None for row in infinite if "float64" in row):
                return answer(twin, case, "another", f"{sentence} on the {other} side only", **facts)
        return answer(twin, case, "not evaluated", sentence, **facts)
    changed = next((row for _, rows in states for row in rows if row.get("different") and _counts(row)), None)
    gaps = _keep_exact({state: list(_gaps(state, rows)) for state, rows in states}, states[0][1])
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
    facts["states"] = tuple(dict.fromkeys(gap.state for gap in beyond))
    shown = sorted((gap for gap in beyond if gap.state == first), key=lambda gap: -gap.float64)
    facts["gaps"] = tuple(shown[:MAX_GAPS])
    updates = measured.get("updates", ())
    sentence = _say(facts["gradients"], shown, changed, updates) + _say_unread(measured.get("unread", {}))
    return answer(twin, case, "another", sentence, **facts)


def _say_unread(unread: Mapping[str, str]) -> str:
    """Return the arguments that a side's program does not read. unread: meaning → left, right or neither."""
    which = {"left": "only the right side reads", "right": "only the left side reads", "neither": "neither side reads"}
    return "".join(f"; {which[side]} {meaning}" for meaning, side in unread.items())


def _judge_exact(twin: Twin, case: str, measured: Mapping[str, Any]) -> TwinResult:
    """Return the answer of a resumed run: every argument of its first step is equal bit for bit, or not.

    If the processes lower two programs, these decide, too: both are evaluated from equal arguments.
    """
    rows, lost = measured["states"][0]["results"], measured.get("unmatched", ())
    seconds = measured.get("seconds", 0.0)
    different = sorted((row for row in rows if row["different"]), key=lambda row: ORDER.index(_kind_of(row)))
    if not different and not lost:
        text = f"{len(rows)} arguments of the next step are equal in every bit"
        if (programs := measured.get("programs")) is not None:
            found = judge_twin(twin, case, programs)
            sentence = f"{text}; the resumed process lowers another program: {found.sentence}"
            return found.replace(sentence=sentence)
        text += ", and so is the program"
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


def _keep_exact(gaps: dict[str, list[TwinGap]], rows: Sequence[Row]) -> dict[str, list[TwinGap]]:
    """Return the gaps without the factors of single numbers, unless a factor is whole or the same at every state.

    Any number is some multiple of another one.
    """
    single = {(row["role"], row["meaning"]) for row in rows if row.get("size") == 1}
    factors: dict[tuple[str, str], list[float | None]] = {}
    for found in gaps.values():
        for gap in found:
            factors.setdefault((gap.role, gap.meaning), []).append(gap.factor)

    def is_exact(gap: TwinGap) -> bool:
        its = factors[gap.role, gap.meaning]
        if gap.factor is None or (gap.role, gap.meaning) not in single or _is_whole(gap.factor):
            return True
        return len(its) > 1 and all(one is not None and abs(one / gap.factor - 1) < MIN_FACTOR for one in its)

    return {
        state: [gap if is_exact(gap) else gap.replace(factor=None) for gap in found] for state, found in gaps.items()
    }


def _is_whole(factor: float) -> bool:
    """Whether a factor is an integer or 1 / an integer."""
    return factor == 0 or any(abs(one - round(one)) <= EXACT * abs(one) and round(one) for one in (factor, 1 / factor))


def _show_factor(factor: float) -> str:
    """Return a factor as text: `× 2.000`, `× 1/128`."""
    inverse = round(1 / factor) if factor else 0
    if abs(inverse) > 1 and _is_whole(factor):
        return f"× 1/{inverse}"
    return f"× {factor:.3f}"


def _of_gradients(rows: Sequence[Row]) -> float | None:
    found = [row for row in rows if row["role"] == "optimizer" and row["meaning"].startswith(FIRST_MOMENT)]
    size = hypot(*(row["norm"] for row in found))
    return hypot(*(row["float64"] for row in found)) / size if size else None


def _say(gradients: float | None, shown: Sequence[TwinGap], changed: Row | None, updates: Sequence[Row] = ()) -> str:
    """Return what differs: results that are off by a factor first, since a factor tells the cause."""
    if not shown:
        return f"{changed['meaning'] if changed else 'an integer'} differs"
    scaled = [gap for gap in shown if gap.role == "metric" and gap.factor is not None]
    lost = [f"{name_result(gap.role, gap.meaning)} {_show_factor(gap.factor or 0.0)}, exactly" for gap in scaled]
    if lost:
        rest = f"; gradients differ by {show_relative(gradients)} in float64" if gradients else ""
        return f"{lost[0]}, at {shown[0].state}{rest}"
    own = [gap for gap in shown if gap.role == "optimizer" and gap.meaning.startswith(FIRST_MOMENT)]
    if own and (factor := _common_factor([gap.factor for gap in own])) is not None:
        name = own[0].meaning.removeprefix(FIRST_MOMENT)
        which = "the gradient of " + name if len(own) == 1 else f"{len(own)} gradients ({name}, …)"
        return f"{which} {_show_factor(factor)}, exactly, at {own[0].state}"
    moved = [row for row in updates if row["float64"] > MIN_FACTOR * (row["norm"] or 0.0)]
    fits = [row["factor"] if row["rest"] <= ROUNDED * (row["right"] or 0.0) else None for row in moved]
    if moved and not own and (factor := _common_factor(fits)) is not None:
        which = "the update of " + moved[0]["meaning"] if len(moved) == 1 else f"the updates of {len(moved)} weights"
        return f"{which} {_show_factor(round(factor, 6))}, at {shown[0].state}"
    if gradients is not None and gradients > SAME and shown[0].state == "step 0":
        said = f"gradients differ by {show_relative(gradients)} in float64"
        worst = next((gap for gap in shown if gap.role == "metric"), None)
        if worst is not None and worst.float64 > FAR_BEYOND * gradients:  # such as an auxiliary loss of one part alone
            return f"{worst.sentence} at {worst.state}; {said}"
        return said
    return f"{shown[0].sentence} in float64 at {shown[0].state}"


def _common_factor(factors: Sequence[float | None]) -> float | None:
    """Return the factor that all results share, to six digits; None if they share none."""
    known = {f"{factor:.6g}" for factor in factors if factor is not None}
    return factors[0] if len(known) == 1 and None not in factors else None
