"""Finds the function of a trainer that is given an argument of the step and does not read it.

An argument that reaches no operation leaves no trace in the step's program. The functions around the program's
operations did run, and their source shows which parameters they do not read.
"""

import ast
import gzip
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tasks.programs.source_lines import is_library, shorten_path

_PLACE = re.compile(r'loc\("([^"]+\.py)":(\d+)')  # of an operation in a lowered program
_BOUND = frozenset({"self", "cls"})

type Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_dropped(program: Path, meaning: str, root: str = "") -> str:
    """Return the first place that drops an argument, such as `attention.py:91 (attend is given ids and …)`; else "".

    program: the lowered step with its places. meaning: of the argument, such as `segment_ids`: parameters of that name
    count, also with a suffix. root: the folder of the source. Files that cannot be read or parsed are left out.
    """
    lines: dict[str, set[int]] = defaultdict(set)
    try:
        with gzip.open(program, "rt", encoding="utf-8") as text:
            for file, line in (found.groups() for row in text for found in _PLACE.finditer(row)):
                lines[file].add(int(line))
    except OSError:
        return ""
    for file, its in lines.items():
        if is_library(file):
            continue
        for function, name in _unread(Path(file), its, meaning.rpartition(".")[2]):
            line = min(n for n in its if function.lineno <= n <= (function.end_lineno or 0))
            return f"{shorten_path(file, root)}:{line} ({function.name} is given {name} and does not read it)"
    return ""


def _unread(file: Path, lines: set[int], leaf: str) -> Iterator[tuple[Function, str]]:
    """Yield each function of a file around one of the lines, with its parameter that it does not read."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not any(node.lineno <= n <= (node.end_lineno or 0) for n in lines):
            continue
        read = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
        for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            own_name = one.arg == leaf or one.arg.startswith(f"{leaf}_") or one.arg.endswith(f"_{leaf}")
            if own_name and one.arg not in read | _BOUND:
                yield node, one.arg
