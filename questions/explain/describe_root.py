"""Describes roots as text. A root is an operation at which the training steps of two arms begin to differ.

An arm is one of the two compared versions of a trainer. A row is one tensor: one result of one operation of a step.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from questions.explain.arm_values import Divergence
from questions.explain.tensor_rows import Chain, Leaf, TensorRow, leaves
from tasks.records.observation import Root, RootKind

NAME = "name"  # the primitive of JAX's `checkpoint_name`, with which a trainer names a tensor
_SHOWN = 80  # limit of characters of a parameter's value in a sentence


@dataclass(frozen=True)
class PlacedRoot:
    """One root, and its position in the baseline's program."""

    root: Root
    order: float  # index of the baseline's row; between two rows (3.5) for an operation that only the candidate has
    group: tuple[str, ...]  # equal for roots that are listed as one
    # the operation changes no result by itself: the arm computes an equal value in another way, and the difference
    # begins where its gradient does
    is_detour: bool = False
    is_of_result: bool = False  # a result that the forward pass makes, and that differs, depends on it
    is_behind_proof: bool = False  # a proved row is read: only the operation itself is in doubt
    is_behind_other: bool = False  # beside proved rows: the other arm's operation of this line is behind a root
    arm: str = ""  # whose chain it is
    chain: Chain = ()  # of calls around the operation


def describe_pair(left: Divergence, right: Divergence, ours: int, theirs: int) -> PlacedRoot:
    """Describe a root at the baseline's row `ours` and the candidate's row `theirs`, which were paired."""
    a, b = left.arm.rows[ours], right.arm.rows[theirs]
    if ours in left.own_draws.keys and theirs in right.own_draws.keys:
        kind, why, values = _other_keys(left, right, ours, theirs)
    else:
        kind, why, values = _reason(left, right, a, b)
    place = b.place if (b.short_file, b.function) != (a.short_file, a.function) or b.line != a.line else ""
    return _place_root(left, ours, float(ours), kind, why, values, place)


def describe_result(left: Divergence, right: Divergence, ours: int, theirs: int, meaning: str) -> PlacedRoot:
    """Describe a result of the step that differs, while all that it is made from leads to an equal loss."""
    a, b = left.arm.rows[ours], right.arm.rows[theirs]
    layer = f" in {b.layer}" if b.layer else ""
    why = f"this is {meaning} in {left.arm.observation.arm}; in {right.arm.observation.arm} it is that{layer}"
    place = b.place if b.place != a.place else ""
    return _place_root(left, ours, float(ours), "result", why, (a.values, b.values), place)


def describe_returned(
    side: Divergence, other: Divergence, origins: tuple[Leaf, Leaf], meaning: str, *, of_candidate: bool = False
) -> PlacedRoot:
    """Describe a result for which the arms return two tensors that both have. origins: in both; a row in `side`."""
    (_, n), (kind, there) = origins
    row, names = side.arm.rows[n], (side.arm.observation.arm, other.arm.observation.arm)
    what, place = f"its argument {other.arm.observation.arguments[there].meaning}", ""
    if kind == "row":
        place = other.arm.rows[there].place
        what = f"the {other.arm.rows[there].operation} at {place}"
    values = (row.values, "")
    return _place_root(
        side, n, float(n), "result", f"{names[0]} returns this as {meaning}, {names[1]} {what}",
        ("", row.values) if of_candidate else values, place,
    )  # fmt: skip


def _other_keys(left: Divergence, right: Divergence, ours: int, theirs: int) -> tuple[RootKind, str, tuple[str, str]]:
    keys = left.own_draws.keys[ours], right.own_draws.keys[theirs]
    names = left.arm.observation.arm, right.arm.observation.arm
    why = f"each arm draws with a key of its own: {names[0]}'s derives from {keys[0]}, {names[1]}'s from {keys[1]}"
    if left.arm.rows[ours].value == right.arm.rows[theirs].value:
        why += f"; evaluated with the draws of {names[0]}"
    return "key", why, keys


def _reason(left: Divergence, right: Divergence, a: TensorRow, b: TensorRow) -> tuple[RootKind, str, tuple[str, str]]:
    if a.operation != b.operation:
        return "operation", f"{a.operation} → {b.operation}", (a.operation, b.operation)
    constants = left.arm.constants(a), right.arm.constants(b)
    if constants[0] != constants[1] and len(constants[0]) == len(constants[1]):
        x, y = next((x, y) for x, y in zip(*constants, strict=True) if x != y)
        return "constant", f"constant {x} → {y}", (x, y)
    if a.shape != b.shape:
        return "operation", f"{a.type} → {b.type}", (a.type, b.type)
    if a.params != b.params:
        x, y = _other_parameter(a.params, b.params)
        return "operation", f"{x} → {y}", (x, y)
    if left.arm.inputs(a) != right.arm.inputs(b):
        return "operation", "it reads other tensors, which both arms have", (a.values, b.values)
    return "result", "equal tensors give another result", (a.values, b.values)


def _other_parameter(left: str, right: str) -> tuple[str, str]:
    """Return `name=value` of the left and `value` of the right for the first parameter that differs.

    Return the beginnings of both texts if their JSON was cut off.
    """
    try:
        ours, theirs = json.loads(left), json.loads(right)
        name = next(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name))
    except (ValueError, StopIteration):  # the JSON was cut off
        return left[:_SHOWN], right[:_SHOWN]
    return f"{name}={str(ours.get(name))[:_SHOWN]}", str(theirs.get(name))[:_SHOWN]


def describe_extra(side: Divergence, n: int, order: float, *, of_candidate: bool, stops: bool = False) -> PlacedRoot:
    """Describe a root at row `n`, which only the arm `side` has. stops: whether the row is a `stop_gradient`."""
    shown = "stopped" if stops else side.arm.rows[n].values
    what = "stops the gradient here" if stops else "has it"
    values = ("", shown) if of_candidate else (shown, "")
    found = _place_root(side, n, order, "extra", f"only {side.arm.observation.arm} {what}", values)
    return replace(found, is_detour=side.is_detour(n))


def _place_root(
    side: Divergence, n: int, order: float, kind: RootKind, why: str, values: tuple[str, str], candidate_place: str = ""
) -> PlacedRoot:
    row = side.arm.rows[n]
    at = f" in {row.layer}" if row.layer else ""
    other = f" ({candidate_place} in the other)" if candidate_place else ""
    other += f", by {row.made_by}" if row.made_by else ""
    root = Root(
        kind=kind, direction=row.direction, file=row.short_file, line=row.line, function=row.function, path=row.file,
        candidate_place=candidate_place, operation=row.operation, type=row.type, layer=row.layer, stack=row.stack,
        made_by=row.made_by,
        after=equal_up_to(side.arm.rows, n), baseline=values[0], candidate=values[1],
        sentence=f"{row.direction}, {row.operation} {row.type} at {row.place}{other}{at}: {why}",
    )  # fmt: skip
    group = (kind, row.direction, row.operation, row.place, candidate_place, why)
    read = [leaf[1] for origin in row.origins for leaf in leaves(origin) if leaf[0] == "row"]
    return PlacedRoot(
        root, order, group, is_of_result=n in side.of_results, is_behind_proof=not side.proved.isdisjoint(read),
        is_behind_other=side.is_behind_other(n), arm=side.arm.observation.arm, chain=row.chain,
    )  # fmt: skip


def equal_up_to(rows: Sequence[TensorRow], order: float) -> str:
    """Return the name, and the loop iteration or layer, of the last named tensor up to row `order`; empty if none."""
    for n in range(min(int(order), len(rows) - 1), -1, -1):
        row = rows[n]
        if row.operation == NAME:
            name = json.loads(row.params).get("name", "") if row.params.endswith("}") else ""
            return f"{name} in {row.layer}" if row.layer else str(name)
    return ""
