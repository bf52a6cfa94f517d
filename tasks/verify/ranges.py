"""Checks that the files of an item contain all byte ranges that its index refers to."""

from collections.abc import Mapping

from tasks.records import Problem
from tasks.verify.array_index import FileRange, Index, name_some


def check_ranges(index: Index, files: Mapping[str, int]) -> list[Problem]:
    """Return the index's problems, then one problem per missing or short file. files: path below the item → bytes."""
    problems = list(index.problems)
    owners = {key: spec.name for spec in index.arrays.values() for key in spec.chunk_keys()}
    needed: dict[str, int] = {}
    users: dict[str, list[tuple[str, FileRange]]] = {}
    for key, place in [("the index itself", node) for node in index.nodes] + list(index.chunks.items()):
        if place is not None:
            needed[place.file] = max(needed.get(place.file, 0), place.offset + place.length)
            users.setdefault(place.file, []).append((key, place))
    for file, length in sorted(needed.items()):
        size = files.get(file)
        if size is not None and size >= length:
            continue
        lost = {owners.get(key, key) for key, place in users[file] if place.offset + place.length > (size or 0)}
        what = name_some(lost)
        if size is None:
            message = f"is missing; lost with it: {what}"
        elif size == 0:
            message = f"is empty; lost: {what}"
        else:
            message = f"is cut off: {size:,} of at least {length:,} bytes are there; lost: {what}"
        problems.append(Problem(check="ranges", path=file, message=message))
    return problems
