"""Reads which lines the processes of a run executed: the files that the recorder left in a folder."""

import json
from collections.abc import Iterable
from pathlib import Path

from tasks.records.change import RanLines

PATTERN = "ran-*.json"
NOT_NOTED = "its processes left no notes of their lines"


def read_ran_lines(folders: Iterable[Path]) -> RanLines:
    """Return the lines of all processes together; with a `problem` if none of them has noted lines."""
    lines: dict[str, set[int]] = {}
    functions: dict[str, set[tuple[str, int]]] = {}
    ways: dict[str, dict[tuple[int, int], set[bool]]] = {}
    host: dict[str, set[int]] = {}
    opened: set[str] = set()
    problems: list[str] = []
    count = 0
    for path in sorted(file for folder in folders for file in folder.glob(PATTERN)):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            problems.append(f"{path.name} cannot be read")
            continue
        count += not found["problem"]
        problems += [found["problem"]] if found["problem"] else []
        opened.update(found["opened"])
        for file, numbers in found["lines"].items():
            lines.setdefault(file, set()).update(numbers)
        for file, numbers in found["host"].items():
            host.setdefault(file, set()).update(numbers)
        for file, started in found["functions"].items():
            functions.setdefault(file, set()).update((name, line) for name, line in started)
        for file, conditions in found["ways"].items():
            for line, offset, truths in conditions:
                ways.setdefault(file, {}).setdefault((line, offset), set()).update(truths)
    return RanLines(
        lines={file: frozenset(numbers) for file, numbers in lines.items()},
        functions={file: frozenset(started) for file, started in functions.items()},
        ways={
            file: tuple((line, frozenset(truths)) for (line, _), truths in sorted(found.items()))
            for file, found in ways.items()
        },
        host={file: frozenset(numbers) for file, numbers in host.items()},
        opened=frozenset(opened),
        problem="" if count else next(iter(problems), NOT_NOTED),
    )
