"""Turns measured distances of two steps (see `evaluate.compare_function`) into the answer and its figures."""

import linecache
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import atan2, hypot, inf, sqrt
from typing import Any

from maxview_probe.evaluate.limits import FAR, GROUP_SHARE, NOISE, SAME
from tasks.diff.judge.decide_by_function import CURVE_LIMIT, rounding_of_loss
from tasks.records.function import (
    FunctionComparison,
    FunctionPower,
    ResultGap,
    RoundingBand,
    RoundingError,
    name_result,
    show_relative,
)
from tasks.records.text import counted

NEAR = ("counter", "a batch")  # states with a run's own weights
TIES = ("weights × 0",)  # states in which functions with equal gradients almost everywhere may differ
SHOWN_PLACES, MAX_CODE = 3, 80
LONGER = 0.01  # share by which the updates of the chain "longer" are longer; as in `evaluate.compare_function`
LEAST_METRIC = 1e-3  # size of a smaller metric: auxiliary losses that are 0 in exact arithmetic
MIN_SIZE = 256  # values of a gradient whose rounding error is compared alone; of fewer values it is an accident
MAX_GAPS = 12
FIRST_MOMENT = "mu."  # of Adam: after the first step it is the gradient times a constant
STATES_FROM_OWN_RESULTS = ("step 1", "step 2")  # of each chain; in the other states all start from equal arguments
NARROW = ("f8", "bf16", "f16", "f32")

type Row = Mapping[str, Any]


def summarise_function(measured: Mapping[str, Any]) -> FunctionComparison:
    """Return the comparison of two steps from the JSON object that the experiment wrote."""
    facts: dict[str, Any] = {
        "seconds": round(measured.get("seconds", 0.0), 1),
        "peak_gib": round(measured.get("peak_kib", 0) / 2**20, 2),
        "devices": measured.get("devices", 1),
        "unmatched": tuple(measured.get("unmatched", ())),
        "evaluated": measured.get("evaluated", ""),
        "is_until_decided": measured.get("until_decided", False),
    }
    if "error" in measured:
        return FunctionComparison(answer="not evaluated", sentence=f"not evaluated: {measured['error']}", **facts)
    states = [(one["state"], list(_compared(one["results"]))) for one in measured["states"]]
    broken = _find_broken(measured["states"])
    if broken:
        return FunctionComparison(answer="not evaluated", sentence=f"not evaluated: {broken}", **facts)
    gaps = [gap for state, rows in states for gap in _gaps_of(state, rows)]
    beyond = [gap for gap in gaps if gap.float64 > SAME]
    swept, roots = measured.get("swept", ()), measured.get("roots", ("", ""))
    elsewhere = [gap for one in swept if one["state"] not in TIES for gap in find_swept_gaps(one)]
    changed = _changed_integers(measured["states"])
    ranges = [one for one in swept if len(set(one.get("as_run", ()))) > 1 and not find_swept_gaps(one)]
    is_beyond_run = not beyond and not changed and bool(elsewhere)
    beyond = beyond or ([] if changed else elsewhere)
    first = next((gap.state for gap in beyond), "")
    shown = sorted((gap for gap in beyond if gap.state == first), key=lambda gap: -gap.float64)
    gaps_of_conditions, doubts = judge_conditions(measured.get("conditions", ()), roots)
    doubts += [
        f"at {one['state']}, the results of the {('baseline', 'candidate')[one['as_run'].index(False)]} alone are not "
        "finite as run, although they are in float64"
        for one in ranges
    ]
    doubts += [
        f"at {one['state']}, a tie, they differ" for one in swept if one["state"] in TIES and find_swept_gaps(one)
    ]
    doubts += dict.fromkeys(measured.get("cycle_doubts", ()))
    if measured.get("other_period"):
        doubts.append("the metrics of one call are another one's, of all rows, and were not compared")
    kind = min((row["type"] for _, rows in states for row in rows), key=_width, default="")
    kind = min([kind, *measured.get("types", ())], key=_width)
    as_run = max((gap.as_run for gap in gaps if gap.as_run is not None), default=None)
    found = FunctionComparison(
        answer="another" if beyond or changed else "same",
        sentence="",
        results=len(states[0][1]),
        states=tuple(state for state, _ in states),
        swept=tuple(one["state"] for one in swept),
        is_beyond_run=is_beyond_run,
        doubts=tuple(doubts),
        gap=max((gap.float64 for gap in gaps), default=0.0),
        as_run=as_run,
        type=kind,
        gaps=tuple(shown[:MAX_GAPS]),
        differing=tuple(dict.fromkeys(gap.state for gap in beyond)),
        rounding=tuple(_rounding(states)),
        worst_gradient=_worst_gradient(states),
        band=_band(measured.get("curves", {})),
        power=_power(measured),
        not_evaluated=(*measured.get("not_evaluated", ()), *_say_lost(measured), *gaps_of_conditions),
        **facts,
    )
    turned = next((one["turned"] for one in swept if one["state"] == first), ())
    where = next((_say_condition(one, root) for one in turned for root in roots if one["file"].startswith(root)), "")
    claim, *more = _say(found, changed, where)
    return found.replace(sentence=claim + "".join(more), claim=claim)


def find_swept_gaps(state: Mapping[str, Any]) -> list[ResultGap]:
    """Return the differences at a state that no run reached, beyond rounding, the largest first.

    Far from a run's weights rounding grows: the limit is FAR there, SAME at a run's own weights, and NOISE times the
    effect of a last bit of the weights.
    """
    rows, near = state["results"], state["state"].startswith(NEAR)
    floats = [row for row in rows if "finite" in row]
    found = []
    for row, size in zip(floats, sizes_of(floats), strict=True):
        if row["finite"][0] != row["finite"][1]:
            found.append(_gap(state, row, inf))
        elif row["float64"] > (SAME if near else FAR) * size + NOISE * row.get("noise", 0.0):
            found.append(_gap(state, row, row["float64"] / size))
    found += [
        _gap(state, row, 1.0) for row in rows if "finite" not in row and row["as_run"] and not row.get("noise", 0.0)
    ]
    return sorted(found, key=lambda gap: -gap.float64)


def _gap(state: Mapping[str, Any], row: Row, size: float) -> ResultGap:
    return ResultGap(state=state["state"], role=row["role"], meaning=row["meaning"], float64=size, as_run=None)


def judge_conditions(arms: Sequence[Mapping[str, Any]], roots: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what the conditions that only one arm has leave unknown, and what they leave unsure; a sentence each.

    Unknown: conditions of one arm, without a counterpart in the other, that all went one way, and selections that
    both arms have, if the side that differs was never taken. roots: the checkouts.
    """
    if not arms:
        return [], []
    kinds = [Counter((*one["constants"], one["end"]) for one in arm["all"] if not one.get("side")) for arm in arms]
    gaps, doubts = list[str](), list[str]()
    sides = [
        _say_condition(one, root)
        for arm, root in zip(arms, roots, strict=True)
        for one in arm["one_sided"]
        if one.get("side")
    ]
    if sides:
        gaps.append(f"{_list_places(sides)} never took the side that differs, in every state that was tried")
    for n, (arm, root) in enumerate(zip(arms, roots, strict=True)):
        new = kinds[n] - kinds[1 - n]
        one_sided = [one for one in arm["one_sided"] if not one.get("side")]
        alone = [one for one in one_sided if new[(*one["constants"], one["end"])]]
        if not one_sided:
            continue
        places = _list_places([_say_condition(one, root) for one in one_sided])
        sentence = f"{places} went one way only, in every state that was tried"
        if alone and len(alone) == new.total():
            gaps.append(sentence)
        else:
            doubts.append(sentence)
    hidden = sum(arm["hidden"] for arm in arms)
    if hidden:
        doubts.append(f"{counted(hidden, 'condition')} of the difference cannot be watched")
    return gaps, doubts


def _list_places(places: Sequence[str]) -> str:
    once = list(dict.fromkeys(places))
    return "; ".join(once[:SHOWN_PLACES]) + (f" and {len(once) - SHOWN_PLACES} more" * (len(once) > SHOWN_PLACES))


def _say_lost(measured: Mapping[str, Any]) -> Iterable[str]:
    if lost := measured.get("lost_state"):
        more = f" and {len(lost) - SHOWN_PLACES} more" if len(lost) > SHOWN_PLACES else ""
        yield f"only one arm's step carries {', '.join(lost[:SHOWN_PLACES])}{more} from call to call"


def _say_condition(condition: Mapping[str, Any], root: str) -> str:
    """Return a condition's source line: `optimizer.py:81 if norm > 5000`."""
    file, line = condition["file"], condition["line"]
    if not file:
        return "a condition without a source line"
    text = linecache.getline(file, line).strip().rstrip(":")
    return f"{file.removeprefix(f'{root}/')}:{line}" + (
        # a headline ends a sentence's part at a colon
        f" `{text[:MAX_CODE]}{'…' * (len(text) > MAX_CODE)}`" if text and ": " not in text[:MAX_CODE] else ""
    )


def _compared(rows: Iterable[Row]) -> Iterable[Row]:
    """Yield the rows of floating-point results."""
    return (row for row in rows if row.get("norm") is not None or "float64" in row)


def _find_broken(states: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence about the first result that is no number; empty if all are."""
    for state in states:
        for row in _compared(state["results"]):
            if row["norm"] is None or row["float64"] is None:
                how, arm = "in float64", "baseline" if row["norm"] is None else "candidate"
            elif row["as_run"] is None:
                how, arm = "as run", "baseline" if row["rounding"][0] is None else "candidate"
            else:
                continue
            name = name_result(row["role"], row["meaning"])
            return f"{name} of the {arm} is NaN or infinite {how} at {state['state']}"
    return ""


def _changed_integers(states: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the first integer result that differs, with its state; empty if none does."""
    for state in states:
        for row in state["results"]:
            if "float64" not in row and row["as_run"] and row["role"] != "random numbers":
                return f"{name_result(row['role'], row['meaning'])} at {state['state']}"
    return ""


def _gaps_of(state: str, rows: Sequence[Row]) -> Iterable[ResultGap]:
    sizes = sizes_of(rows)
    for row, size in zip(rows, sizes, strict=True):
        yield ResultGap(
            state=state,
            role=row["role"],
            meaning=row["meaning"],
            float64=row["float64"] / size,
            as_run=None if row["as_run"] is None else row["as_run"] / size,
        )


def sizes_of(rows: Sequence[Row]) -> list[float]:
    """Return the size to which each result's difference is relative.

    An array of a group (all weights, all first moments) has its own norm and a share of the group's: a gradient that is
    0 in exact arithmetic is noise of 1e-17 in float64, and noise differs. A metric has its larger value's size: an
    auxiliary loss that only the candidate computes differs by 100 %.
    """
    groups: dict[str, float] = defaultdict(float)
    for row in rows:
        groups[_group(row)] = hypot(groups[_group(row)], row["norm"])
    return [
        max(row["norm"], row["float64"] - row["norm"]) + LEAST_METRIC
        if _group(row) == "metric"
        else (row["norm"] + GROUP_SHARE * groups[_group(row)]) or 1.0
        for row in rows
    ]


def _group(row: Row) -> str:
    role: str = row["role"]
    if role in ("parameter", "optimizer"):
        return f"{role} {row['meaning'].partition('.')[0] if role == 'optimizer' else ''}"
    return "metric"


def _rounding(states: Sequence[tuple[str, Sequence[Row]]]) -> Iterable[RoundingError]:
    """Yield the rounding errors of loss, gradient norm, gradients and parameters, over states with equal arguments."""
    chosen = [rows for state, rows in states if state not in STATES_FROM_OWN_RESULTS]
    kinds: dict[str, Callable[[Row], bool]] = {
        "loss": lambda row: row["role"] == "metric" and row["meaning"].split(".")[-1] == "loss",
        "gradient norm": lambda row: row["role"] == "metric" and row["meaning"].split(".")[-1] == "grad_norm",
        "gradients": _is_gradient,
        "parameters": lambda row: row["role"] == "parameter",
    }
    for quantity, belongs in kinds.items():
        errors = [_relative([row for row in rows if belongs(row)]) for rows in chosen]
        if known := [error for error in errors if error is not None]:
            baseline, candidate = _median_pair(known)
            yield RoundingError(quantity=quantity, baseline=baseline, candidate=candidate)


def _is_gradient(row: Row) -> bool:
    return bool(row["role"] == "optimizer" and row["meaning"].startswith(FIRST_MOMENT))


def _relative(rows: Sequence[Row]) -> tuple[float, float] | None:
    size = hypot(*(row["norm"] for row in rows))
    if not rows or not size or any(None in row["rounding"] for row in rows):
        return None
    return tuple(hypot(*(row["rounding"][side] for row in rows)) / size for side in (0, 1))  # type: ignore[return-value]


def _worst_gradient(states: Sequence[tuple[str, Sequence[Row]]]) -> RoundingError | None:
    """Return the gradient whose rounding error grew by the largest factor; None if none grew.

    The factor is the median of the states. It has to grow in every state: in one state the last bit of a token can
    choose other experts, in either arm. Such tokens make most of the whole error, but not of the typical one, so the
    larger factor of the two counts. Of stacked layers each has its own gradient: beside many layers, one that rounds
    worse would not show.
    """
    errors: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for state, rows in states:
        if state not in STATES_FROM_OWN_RESULTS:
            for row in (part for array in rows if _is_gradient(array) for part in _layers_of(array)):
                whole, typical = _relative([row]), _typical(row)
                for measure, error in (("whole", whole), ("typical", typical)):
                    if row["size"] >= MIN_SIZE and error and min(error) > 0:
                        errors[row["meaning"].removeprefix(FIRST_MOMENT), measure].append(error)
    grew = {key: _median_pair(pairs) for key, pairs in errors.items() if all(right > left for left, right in pairs)}
    if not grew:
        return None
    worst = max(grew, key=lambda key: grew[key][1] / grew[key][0])
    return RoundingError(quantity=worst[0], baseline=grew[worst][0], candidate=grew[worst][1])


def _typical(row: Row) -> tuple[float, float] | None:
    """Return the median errors of a gradient's elements, relative to the elements' root mean square."""
    left, right = row.get("typical", (0.0, 0.0))
    return (left / unit, right / unit) if (unit := row["norm"] / sqrt(row["size"])) else None


def _median_pair(errors: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the pair with the median ratio; of an even number, the geometric mean of the two in the middle."""
    ordered = sorted(errors, key=lambda pair: atan2(pair[1], pair[0]))
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return sqrt(lower[0] * upper[0]), sqrt(lower[1] * upper[1])


def _layers_of(row: Row) -> Iterable[Row]:
    """Yield a row for each layer of an array that stacks layers; else the row itself."""
    layers = row.get("layers")
    if layers is None:
        yield row
        return
    size = row["size"] // len(layers["norm"])
    typical = layers.get("typical") or [(0.0, 0.0)] * len(layers["norm"])
    for n, (norm, *rounding, both) in enumerate(zip(layers["norm"], *layers["rounding"], typical, strict=True)):
        found = {"size": size, "norm": norm, "rounding": rounding, "typical": both}
        yield {"meaning": f"{row['meaning']}, layer {n}", **found}


def _band(curves: Mapping[str, Sequence[float]]) -> RoundingBand | None:
    base = curves.get("baseline") or ()
    others = [curve for name, curve in curves.items() if name.startswith("perturbed")]
    if not base or not others:
        return None
    return RoundingBand(
        steps=len(base),
        loss=base[-1],
        rms=sqrt(sum(_rms(base, other) ** 2 for other in others) / len(others)),
        arms=_rms(base, curves["candidate"]),
    )


def _power(measured: Mapping[str, Any]) -> FunctionPower | None:
    """Return the power of float64 and of the losses, for a change of the length of all updates."""
    updates = measured.get("updates", ())
    whole = hypot(*(one["norm"] or 0.0 for one in updates))
    found = [SAME * (one["norm"] + GROUP_SHARE * whole) / one["update"] for one in updates if one["update"]]
    if not found:
        return None
    curves = measured.get("curves", {})
    band, longer = _band(curves), curves.get("longer")
    shift = _rms(curves["baseline"], longer) if longer else 0.0
    loss = LONGER * CURVE_LIMIT * rounding_of_loss(band) / shift if band and shift else None
    return FunctionPower(float64=min(found), loss=loss)


def _rms(left: Sequence[float], right: Sequence[float]) -> float:
    gaps = [b - a for a, b in zip(left, right, strict=True)]
    return sqrt(sum(gap**2 for gap in gaps) / len(gaps))


def _width(kind: str) -> int:
    return next((n for n, name in enumerate(NARROW) if kind.startswith(name)), len(NARROW))


def _say_power(power: FunctionPower | None) -> str:
    """Return the smallest change of the learning rate that would have been found, as text."""
    if power is None:
        return ""
    alone = "" if power.loss is None else f"; the losses alone would show one of {show_relative(power.loss)} or more"
    return f"; float64 would show a learning rate that differs by {show_relative(power.float64)}{alone}"


def _say(found: FunctionComparison, changed: str, where: str = "") -> list[str]:
    """Return the parts of the sentence; the first one is the answer alone."""
    kind = f" ({found.type})" if found.type else ""
    as_run = f"; as run they differ by up to {show_relative(found.as_run)}{kind}" if found.as_run else ""
    if found.answer == "same":
        steps = counted(len(found.states), "step") + (
            f" and {counted(len(found.swept), 'state')} that no run reached" if found.swept else ""
        )
        equal = f"equal to {found.gap:.1g}" if found.gap else "equal in every bit"
        told = f"same function: {found.results} results of {steps} are {equal} in float64"
        return [told, as_run, _say_power(found.power)]
    if not found.gaps:
        return [f"another function: {changed} differs"]
    worst = found.gaps[0]
    name = name_result(worst.role, worst.meaning)
    if found.is_beyond_run:
        how = "is finite in one arm only" if worst.float64 == inf else f"differs by {worst.float64:.1g}"
        line = f": {where}" if where else ""
        return [f"another function: {name} {how} in float64 at a state that no run reached, {worst.state}{line}"]
    return [f"another function: {name} differs by {worst.float64:.1g} in float64 at {worst.state}", as_run]
