"""Prints how two checkpoints differ: the largest difference first, then what one of them alone has."""

from collections.abc import Sequence

from rich.console import Console

from tasks.publish.text import plain
from tasks.records import ArrayDifference, CheckpointDifference, ValueDifference

MOST_ROWS = 20
_WHY = {
    "random numbers": "streams of random numbers, which one implementation keeps in its checkpoint",
    "quantisation": "what quantisation keeps beside the weights",
    "other state": "state of one implementation alone",
}


def show_difference(found: CheckpointDifference, *, as_json: bool) -> None:
    """The table for people, or everything about every array for programs."""
    if as_json:
        print(found.model_dump_json(indent=1))
        return
    console = Console(highlight=False, soft_wrap=True)
    compared = [array for array in found.arrays if array.values is not None]
    differing = [array for array in compared if not array.exact]
    word = "[green]✓ equal[/]" if found.equal else "[red]✗ different[/]"
    console.print(f"{word}  {plain(found.path)}  against  {plain(found.other_path)}  ({found.seconds:.2f} s)")
    here, there = (sum(len(names) for names in side) for side in zip(*map(_names, found.arrays), strict=True))
    ratio = f"{len(differing)} of {len(compared)} differ" if differing else f"{len(compared)} equal bit for bit"
    console.print(f"{here} arrays here, {there} there: {ratio}")
    if differing:
        _show_rows(console, differing)
    for side, lacking in (("here", True), ("there", False)):
        _show_alone(console, side, [array for array in found.arrays if bool(array.names) == lacking and _alone(array)])
    _show_sharding(console, [array for array in compared if array.sharding != array.other_sharding])


def _names(array: ArrayDifference) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return array.names, array.other_names


def _alone(array: ArrayDifference) -> bool:
    return not (array.names and array.other_names)


def _show_rows(console: Console, differing: Sequence[ArrayDifference]) -> None:
    """A line each, as long as it is: names are, and a table would fold them."""
    console.print(f"{'norm':>10} {'largest':>10} {'at':>16} {'differing':>24}  array", style="bold")
    for array in differing[:MOST_ROWS]:
        values = array.values or ValueDifference(values=0)
        dtypes = " → ".join(dict.fromkeys((array.dtype, array.other_dtype)))
        odd = f"  {values.not_finite:,} not finite" if values.not_finite else ""
        place = ", ".join(map(str, values.where))
        count = f"{values.differing:,} of {values.values:,}"
        name = f"{plain(_name_pair(array))}  {dtypes}{odd}"
        console.print(f"{values.norm:>10.4g} {values.largest:>10.4g} {place:>16} {count:>24}  {name}")
    if len(differing) > MOST_ROWS:
        console.print(f"and {len(differing) - MOST_ROWS} more; --json has all")


def _name_pair(array: ArrayDifference) -> str:
    names = [name[0] + (f" … ({len(name)} layers)" if len(name) > 1 else "") for name in _names(array)]
    return " ↔ ".join(dict.fromkeys(names))


def _show_alone(console: Console, side: str, alone: Sequence[ArrayDifference]) -> None:
    for role in dict.fromkeys(array.role for array in alone):
        names = [name for array in alone if array.role == role for name in (*array.names, *array.other_names)]
        why = _WHY.get(role, "missing on the other side")
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        console.print(f"only {side}: {len(names)} {role}: {why}: {plain(shown)}")


def _show_sharding(console: Console, moved: Sequence[ArrayDifference]) -> None:
    if moved:
        first = moved[0]
        layouts = f"{first.sharding or 'not written down'} here, {first.other_sharding or 'not written down'} there"
        console.print(f"{len(moved)} lay otherwise over the devices, first {plain(first.names[0])}: {plain(layouts)}")
