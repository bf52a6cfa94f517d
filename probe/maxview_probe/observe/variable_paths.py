"""Finds the paths of arrays in a program's variables: `opt_state[0].mu['w']`."""

import gc
import types
from collections.abc import Sequence
from typing import Any

DEPTH = 10  # containers between a variable and an array
_CONTAINERS = (dict, list, tuple)


def find_paths(arrays: Sequence[Any]) -> dict[int, str]:
    """Return the id of each array → the path from the outermost container that holds it; of a module with its name.

    Local variables have no name here: their paths begin with the first step inside.
    """
    holders: dict[int, Any] = {}  # id of an object → one container that holds it
    steps: dict[int, str] = {}  # id of an object → the step from that container to it
    frontier, found = list(arrays), list[Any]()
    own = [arrays, holders, steps, found]
    for _ in range(DEPTH):
        ids = {id(one) for one in frontier}
        own.append(frontier)
        skipped = {id(one) for one in (*own, own)}
        found.clear()
        for holder in gc.get_referrers(*frontier) if frontier else ():
            if id(holder) in skipped or isinstance(holder, types.FrameType):
                continue
            for child, step in _steps(holder):
                if id(child) in ids and id(child) not in holders:
                    holders[id(child)], steps[id(child)] = holder, step
                    if not _is_module(holder):
                        found.append(holder)
        frontier = [one for one in found if id(one) not in holders]
    return {id(one): path for one in arrays if (path := _path(one, holders, steps))}


def _steps(holder: Any) -> list[tuple[Any, str]]:
    if isinstance(holder, dict):
        if _is_module(holder):
            return [(value, str(key)) for key, value in holder.items()]
        return [(value, f"[{key!r}]") for key, value in holder.items()]
    if isinstance(holder, tuple) and hasattr(holder, "_fields"):
        return [(value, f".{name}") for name, value in zip(holder._fields, holder, strict=True)]
    if isinstance(holder, _CONTAINERS):
        return [(value, f"[{n}]") for n, value in enumerate(holder)]
    if isinstance(holder, types.ModuleType | type | types.FunctionType | types.CellType):
        return []
    return [(value, f".{name}") for name, value in getattr(holder, "__dict__", {}).items()]


def _is_module(holder: Any) -> bool:
    return isinstance(holder, dict) and "__name__" in holder and "__builtins__" in holder


def _path(one: Any, holders: dict[int, Any], steps: dict[int, str]) -> str:
    found, seen = list[str](), set[int]()
    while id(one) in holders and id(one) not in seen:
        seen.add(id(one))
        found.append(steps[id(one)])
        one = holders[id(one)]
    return "".join(reversed(found))
