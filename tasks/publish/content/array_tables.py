"""Turns the difference of two checkpoints into sentences and two tables: one of kinds of arrays, one of all arrays."""

from configs.frozen import Frozen
from tasks.records.compared_case import Verdict
from tasks.records.compared_checkpoints import ArrayDifference, ArrayRole, CheckpointDifference
from tasks.records.text import counted, visible

WHY_ALONE: dict[ArrayRole, str] = {
    "random numbers": "streams of random numbers, which one implementation keeps in its checkpoint",
    "quantisation": "what quantisation keeps beside the weights",
    "other state": "state of one implementation alone",
}
LACKING = "missing on the other side"
NAMED = 3  # largest number of arrays without a partner that a line names


class RoleCount(Frozen):
    """Numbers of arrays of one kind."""

    role: ArrayRole
    here: int  # number of arrays of the first checkpoint
    there: int  # number of arrays of the second one
    equal: int  # number of equal pairs; a pair can be a stack of all layers on one side and arrays on the other
    differing: int  # number of other pairs
    alone: int  # number of arrays without a partner on the other side
    why: str  # the reason for arrays without a partner; empty if there are none


class ArrayLine(Frozen):
    """A row of the table: a pair of arrays, or an array without a partner."""

    role: ArrayRole
    names: tuple[str, ...]
    other_names: tuple[str, ...]
    shapes: str  # `[64, 4]`, or `[64, 4] → [4, 64]` if they differ
    dtypes: str
    word: str  # the size of the difference, or why the array has no partner
    verdict: Verdict  # decides the colour


def count_roles(found: CheckpointDifference) -> list[RoleCount]:
    """Return one row per kind of array that occurs, parameters first."""
    counts = []
    for role in ("parameter", "optimizer", "counter", "random numbers", "quantisation", "other state"):
        arrays = [array for array in found.arrays if array.role == role]
        if not arrays:
            continue
        alone = [array for array in arrays if not (array.names and array.other_names)]
        counts.append(
            RoleCount(
                role=role,
                here=sum(len(array.names) for array in arrays),
                there=sum(len(array.other_names) for array in arrays),
                equal=sum(array.exact for array in arrays),
                differing=sum(not array.exact for array in arrays) - len(alone),
                alone=sum(len(array.names) + len(array.other_names) for array in alone),
                why=WHY_ALONE.get(role, LACKING) if alone else "",
            )
        )
    return counts


def list_arrays(found: CheckpointDifference) -> list[ArrayLine]:
    """Return a row per pair and per array without a partner, in the order of `found.arrays`."""
    return [_line(array) for array in found.arrays]


def _line(array: ArrayDifference) -> ArrayLine:
    sides = [(array.names, array.shape, array.dtype), (array.other_names, array.other_shape, array.other_dtype)]
    there = [(str(list(shape)), visible(dtype)) for names, shape, dtype in sides if names]
    alone = not (array.names and array.other_names)
    if alone:
        side = "baseline" if array.names else "candidate"
        word = f"{side} alone: {WHY_ALONE.get(array.role, LACKING)}"
    else:
        word = describe_values(array) if array.values is not None else "not compared: the shapes differ"
    differs = array.is_state if alone else not array.exact
    return ArrayLine(
        role=array.role,
        names=tuple(map(visible, array.names)),
        other_names=tuple(map(visible, array.other_names)),
        shapes=" → ".join(dict.fromkeys(shape for shape, _ in there)),
        dtypes=" → ".join(dict.fromkeys(dtype for _, dtype in there)),
        word=word,
        verdict="changed" if differs else "same",
    )


def describe_values(array: ArrayDifference) -> str:
    """Return the size of the difference in words, `equal bit for bit` or `equal values of another type`."""
    values = array.values
    if array.exact or values is None:
        return "equal bit for bit"
    if not values.differing:
        return "equal values of another type"
    odd = f", {values.not_finite:,} not finite" if values.not_finite else ""
    place = f" at {list(values.where)}" if values.where else ""
    return (
        f"{values.differing:,} of {counted(values.values, 'value')} differ{odd}: norm {values.norm:.4g}, "
        f"largest {values.largest:.4g}{place}"
    )


def describe_counts(found: CheckpointDifference, here: str = "here", there: str = "there") -> str:
    """Return a sentence such as `39 arrays here, 69 there: 39 equal bit for bit`."""
    left, right = (
        sum(len(array.names) for array in found.arrays),
        sum(len(array.other_names) for array in found.arrays),
    )
    compared = found.compared
    differing = sum(not array.exact for array in compared)
    ratio = f"{differing} of {len(compared)} differ" if differing else f"{len(compared)} equal bit for bit"
    return f"{counted(left, 'array')} {here}, {right} {there}: {ratio}"


def describe_alone(found: CheckpointDifference) -> list[str]:
    """Return lines on arrays without a partner: `only there: 30 random numbers: REASON: a, b and 28 more`."""
    lines = []
    for side, is_here in (("here", True), ("there", False)):
        alone = [array for array in found.arrays if not (array.other_names if is_here else array.names)]
        for role in dict.fromkeys(array.role for array in alone):
            names = [name for array in alone if array.role == role for name in (*array.names, *array.other_names)]
            shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
            lines.append(f"only {side}: {len(names)} {role}: {WHY_ALONE.get(role, LACKING)}: {visible(shown)}")
    return lines


def name_pair(array: ArrayDifference) -> str:
    """Return both names of a pair, or one if they are equal; for several layers, the first name and the layer count."""
    sides = [names for names in (array.names, array.other_names) if names]
    names = [name[0] + (f" … ({len(name)} layers)" if len(name) > 1 else "") for name in sides]
    return visible(" ↔ ".join(dict.fromkeys(names)))
