"""Finds the statements of Python that differ between two checkouts, without comments, docstrings and layout."""

import ast
import copy
import difflib
import filecmp
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path

from configs.frozen import Frozen
from tasks.records.change import ChangedCode, ChangedStatement, Side, StatementKind
from tasks.records.plan import RunPlan
from tasks.resolve.trainers import trainer_class

MAX_STATEMENTS = 20_000  # of one file; a file with more of them is generated
PROSE = frozenset({".md", ".rst", ".txt", ".ipynb", ".png", ".svg", ".lock"})
_TEST = re.compile(r"(^|/)(tests?|testing|benchmarks?|docs?|\.github)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Statement(Frozen):
    fingerprint: str
    place: ChangedStatement


def changed_between(baseline: RunPlan, candidate: RunPlan) -> ChangedCode | None:
    """Return the difference of two plans' checkouts; None unless both have one."""
    if baseline.checkout is None or candidate.checkout is None:
        return None
    if baseline.checkout == candidate.checkout:
        return ChangedCode()
    files = candidate.version.different if candidate.version is not None else None
    is_read = trainer_class(candidate.trainer).is_read
    return find_changed_code(Path(baseline.checkout), Path(candidate.checkout), files, is_read)


def find_changed_code(
    baseline: Path, candidate: Path, files: Sequence[str] | None, is_read: Callable[[str], bool]
) -> ChangedCode:
    """Return the difference of two checkouts.

    files: those that differ, if known. is_read: whether the trainer may read a file. Files of tests, docs and
    benchmarks, and prose, do not count.
    """
    statements: list[ChangedStatement] = []
    replaced: list[ChangedStatement] = []
    others: list[str] = []
    problems: list[str] = []
    for file in sorted(files if files is not None else _list_different(baseline, candidate)):
        if not is_read(file) or _TEST.search(file) or Path(file).suffix in PROSE or Path(file).name.startswith("."):
            continue
        if not file.endswith(".py"):
            others.append(file)
            continue
        try:
            for one, is_replaced in _compare_file(baseline / file, candidate / file, file):
                (replaced if is_replaced else statements).append(one)
        except (SyntaxError, ValueError, RecursionError, OSError) as error:
            others.append(file)
            problems.append(f"{file} cannot be parsed ({error})")
    return ChangedCode(
        statements=tuple(statements), replaced=tuple(replaced), others=tuple(others), unread="; ".join(problems)
    )


def _list_different(left: Path, right: Path) -> Iterator[str]:
    """Yield the files below two folders that differ, or that only one of them has."""
    found = [set(_list_files(folder)) for folder in (left, right)]
    for file in found[0] | found[1]:
        if file not in found[0] & found[1] or not filecmp.cmp(left / file, right / file, shallow=False):
            yield file


def _list_files(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        for name in files:
            path = Path(place, name)
            if path.is_file():
                yield path.relative_to(folder).as_posix()


def _compare_file(left: Path, right: Path, file: str) -> Iterator[tuple[ChangedStatement, bool]]:
    """Yield the statements that only one version of a file has, and whether others replace them.

    A missing version has none.
    """
    texts = [
        path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else "" for path in (left, right)
    ]
    sides: tuple[Side, Side] = ("baseline", "candidate")
    found = [list(list_statements(text, file, side)) for text, side in zip(texts, sides, strict=True)]
    if max(map(len, found)) > MAX_STATEMENTS:
        raise ValueError(f"{max(map(len, found)):,} statements")
    prints = [[one.fingerprint for one in statements] for statements in found]
    changed_lines = _find_changed_lines(*(text.splitlines() for text in texts))
    matcher = difflib.SequenceMatcher(None, prints[0], prints[1], autojunk=False)
    for kind, begin, end, other_begin, other_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        added, removed = found[1][other_begin:other_end], found[0][begin:end]
        for one in (*added, *removed):
            lines = changed_lines[one.place.side == "candidate"]
            lambdas = tuple(line for line in one.place.lambdas if line in lines)
            count = len(lines.intersection(range(one.place.first, one.place.last + 1)))
            is_replaced = one.place.side == "baseline" and bool(added)
            yield one.place.replace(lambdas=lambdas, count=max(1, count)), is_replaced


def _find_changed_lines(left: Sequence[str], right: Sequence[str]) -> tuple[set[int], set[int]]:
    """Return the numbers of the lines that only one text has, 1-based, of either text."""
    found: tuple[set[int], set[int]] = (set(), set())
    for kind, begin, end, other_begin, other_end in difflib.SequenceMatcher(
        None, left, right, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            found[0].update(range(begin + 1, end + 1))
            found[1].update(range(other_begin + 1, other_end + 1))
    return found


def list_statements(text: str, file: str, side: Side) -> Iterator[_Statement]:
    """Yield the statements of a module in their order, each with a fingerprint of its code and its place in blocks."""
    tree, lines = ast.parse(text), text.splitlines()

    def place(
        kind: StatementKind,
        function: str,
        first: int,
        last: int,
        names: Sequence[str] = (),
        lambdas: Sequence[int] = (),
        guard: int = 0,
    ) -> ChangedStatement:
        return ChangedStatement(
            side=side, file=file, first=first, last=max(first, last), kind=kind, function=function, guard=guard,
            names=tuple(names), lambdas=tuple(lambdas), text=lines[first - 1].strip() if first <= len(lines) else "",
        )  # fmt: skip

    def walk(
        body: Sequence[ast.stmt],
        path: str,
        function: str,
        *,
        at_import: bool,
        guard: int = 0,
        local: Set[str] = frozenset(),
    ) -> Iterator[_Statement]:
        for node in body:
            if _is_no_code(node):
                continue
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                inner = f"{function}.{node.name}" if function else node.name
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                is_class = isinstance(node, ast.ClassDef)
                last = max(node.lineno, node.body[0].lineno - 1)
                header = place("class" if is_class else "function", inner, first, last, [node.name])
                header = header.replace(end=node.end_lineno or last)
                yield _Statement(fingerprint=f"{path}|{_dump_header(node)}", place=header)
                own = inner if is_class else f"{inner}.<locals>"
                inner_names = local if isinstance(node, ast.ClassDef) else _local_names(node)
                yield from walk(node.body, f"{path}/{node.name}", own, at_import=is_class, local=inner_names)
                continue
            blocks = list(_blocks(node))
            if not blocks:
                kind: StatementKind = "code"
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    kind = "import"
                elif at_import and (function or not isinstance(node, ast.Expr)):
                    kind = "definition"
                names = list(_bound_names(node))
                lambdas = [one.lineno for one in ast.walk(node) if isinstance(one, ast.Lambda)]
                last = node.end_lineno or node.lineno
                found = place(kind, _enclosing(function), node.lineno, last, names, lambdas, guard)
                if kind == "code":
                    found = found.replace(own=tuple(name for name in _own_names(node) if name in local))
                value = getattr(node, "value", None)
                if kind == "definition" and isinstance(value, ast.Dict):
                    found = found.replace(entries=len(value.keys))
                if _only_prints(node):
                    found = found.replace(prints=True)
                yield _Statement(fingerprint=f"{path}|{ast.dump(node)}", place=found)
                continue
            last = next((block[0].lineno - 1 for _, block in blocks if block), node.lineno)
            yield _Statement(
                fingerprint=f"{path}|{_dump_compound(node)}",
                place=place("code", _enclosing(function), node.lineno, last, guard=guard),
            )
            for name, block in blocks:
                place_in_blocks = f"{path}/{type(node).__name__}.{name}"
                yield from walk(block, place_in_blocks, function, at_import=at_import, guard=node.lineno, local=local)

    yield from walk(tree.body, "", "", at_import=True)


def _enclosing(function: str) -> str:
    return function.removesuffix(".<locals>")


def _is_no_code(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring, or `...`
        return True
    return isinstance(node, (ast.Pass, ast.Global, ast.Nonlocal))


def _blocks(node: ast.stmt) -> Iterator[tuple[str, Sequence[ast.stmt]]]:
    """Yield the blocks of a compound statement with their names."""
    for name in ("body", "orelse", "finalbody"):
        if block := getattr(node, name, None):
            yield name, block
    for number, handler in enumerate(getattr(node, "handlers", ())):
        yield f"handler {ast.dump(handler.type) if handler.type else ''} {number}", handler.body
    for number, case in enumerate(getattr(node, "cases", ())):
        yield f"case {ast.dump(case.pattern)} {number}", case.body


def _dump_compound(node: ast.stmt) -> str:
    heads = ("test", "target", "iter", "items", "subject")
    return type(node).__name__ + "".join(
        ast.dump(part) for head in heads for part in _as_list(getattr(node, head, None)) if isinstance(part, ast.AST)
    )


def _as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _dump_header(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    parts = [node.name, *map(ast.dump, node.decorator_list)]
    if isinstance(node, ast.ClassDef):
        parts += [ast.dump(one) for one in chain(node.bases, node.keywords)]
    else:
        parts += [ast.dump(_without_annotations(node.args))]
    return " ".join(parts)


def _without_annotations(arguments: ast.arguments) -> ast.arguments:
    """Return a function's arguments without types, which compute nothing."""
    found = copy.deepcopy(arguments)
    for one in ast.walk(found):
        if isinstance(one, ast.arg):
            one.annotation = None
    return found


_PRINTS = re.compile(r"^(print|(log|logger|logging|_logger|LOGGER)\.(debug|info|warning|error|log))$")
_PURE = frozenset({"float", "int", "str", "len", "round", "repr", "format", "min", "max", "sum", "abs", "type"})


def _only_prints(node: ast.stmt) -> bool:
    """Whether a statement prints or logs, and calls nothing else that may do something."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    inner = [one for part in (*node.value.args, *node.value.keywords) for one in ast.walk(part)]
    calls = [one for one in inner if isinstance(one, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom))]
    are_pure = all(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in _PURE for one in calls
    )
    return are_pure and _PRINTS.match(ast.unparse(node.value.func)) is not None


def _bound_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds, attributes included, and those of objects that its call may change."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not _only_prints(node):
        call = node.value
        parts = [*call.args, *(one.value for one in call.keywords)]
        parts += [call.func.value] if isinstance(call.func, ast.Attribute) else []
        for one in (one for part in parts for one in ast.walk(part)):
            if isinstance(one, ast.Name):
                yield one.id
        return
    for target in _targets_of(node):
        for one in ast.walk(target):
            if isinstance(one, ast.Name):
                yield one.id
            elif isinstance(one, ast.Attribute):
                yield one.attr


def _targets_of(node: ast.stmt) -> Sequence[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    target = getattr(node, "target", None)
    return [target] if target is not None else []


def find_readers(root: Path, files: Sequence[str], names: frozenset[str]) -> dict[str, set[int]]:
    """Return file → the lines of statements that read one of the names, as a name or as an attribute.

    A definition that reads a name makes its own names count, too: a constant made from another one.
    """
    trees = _parse_files(root, files)
    found: dict[str, set[int]] = {}
    wanted, known = set(names), set[str]()
    while wanted - known:
        known |= wanted
        for file, tree in trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.stmt) and _reads_in_head(node, known):
                    found.setdefault(file, set()).update(_lines_of_head(node))
            for node in _at_import(tree.body):
                if any(_reads(part, known) for part in ast.iter_child_nodes(node)):
                    wanted |= set(_bound_names(node))
    return found


def find_dependents(
    root: Path, files: Sequence[str], groups: Sequence[Sequence[ChangedStatement]]
) -> Iterator[dict[str, set[int]]]:
    """Yield for each group file → the lines of statements that read a name which one of the group binds.

    Names are followed through assignments, a function's own names inside of it, those of modules and classes, and
    attributes, everywhere. Arguments of calls are not followed.
    """
    trees = _parse_files(root, files)
    for group in groups:
        yield _find_dependents(trees, group)


def _find_dependents(trees: Mapping[str, ast.Module], changed: Sequence[ChangedStatement]) -> dict[str, set[int]]:
    everywhere: set[str] = set()
    own: dict[tuple[str, str], set[str]] = {}  # file and qualified name of a function → its own names that count
    for one in changed:
        own.setdefault((one.file, one.function), set()).update(one.own)
        everywhere.update(set(one.names) - set(one.own))
    found: dict[str, set[int]] = {}

    def follow(
        file: str, body: Sequence[ast.stmt], function: str, counting: set[str], visible: Set[str], local: Set[str]
    ) -> bool:
        """Whether a further name counts. counting: the function's own names; visible: also those around it."""
        more = False
        for node in body:
            if isinstance(node, ast.ClassDef):
                more |= follow(file, node.body, _join_names(function, node.name), counting, visible, local)
                continue
            if isinstance(node, _FUNCTIONS):
                name = _join_names(function, node.name)
                inner = own.setdefault((file, name), set())
                more |= follow(file, node.body, f"{name}.<locals>", inner, visible | inner, _local_names(node))
                continue
            if _reads_in_head(node, visible | everywhere):
                found.setdefault(file, set()).update(_lines_of_head(node))
                own_names = set(_own_names(node)) & local
                for at, names in ((counting, own_names), (everywhere, set(_bound_names(node)) - own_names)):
                    more |= not names <= at
                    at |= names
            for _, block in _blocks(node):
                more |= follow(file, block, function, counting, visible | counting, local)
        return more

    is_more = True
    while is_more:
        is_more = False
        for file, tree in trees.items():
            is_more |= follow(file, tree.body, "", set(), frozenset(), frozenset())
    return found


def _join_names(function: str, name: str) -> str:
    return f"{function}.{name}" if function else name


def _local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Return the names of a function's arguments and of what it assigns, without those that it declares global."""
    found, shared = set[str](), set[str]()
    for one in ast.walk(function):
        if isinstance(one, ast.arg):
            found.add(one.arg)
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            found.add(one.id)
        elif isinstance(one, (ast.Global, ast.Nonlocal)):
            shared.update(one.names)
    return frozenset(found - shared)


def _own_names(node: ast.stmt) -> Iterator[str]:
    """Yield the plain names among those that a statement binds, without its attributes: `self`, and not `rate`."""
    attributes = {
        one.attr for target in _targets_of(node) for one in ast.walk(target) if isinstance(one, ast.Attribute)
    }
    yield from (name for name in _bound_names(node) if name not in attributes)


def _parse_files(root: Path, files: Sequence[str]) -> dict[str, ast.Module]:
    trees = {}
    for file in files:
        try:
            trees[file] = ast.parse((root / file).read_text(encoding="utf-8", errors="surrogateescape"))
        except (SyntaxError, ValueError, RecursionError, OSError):
            continue
    return trees


def _reads_in_head(node: ast.stmt, names: Set[str]) -> bool:
    """Whether a statement reads one of the names outside of its blocks. Imports and headers of functions do not."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return False
    parts = [one for one in ast.iter_child_nodes(node) if not isinstance(one, (ast.stmt, ast.excepthandler))]
    return any(_reads(part, names) for part in parts)


def _lines_of_head(node: ast.stmt) -> range:
    bodies = [body[0].lineno - 1 for _, body in _blocks(node) if body]
    return range(node.lineno, max(node.lineno, *bodies[:1] or [node.end_lineno or node.lineno]) + 1)


def _at_import(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _at_import(node.body)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield node


def _reads(node: ast.AST, names: Set[str]) -> bool:
    return any(
        (isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id in names)
        or (isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load) and one.attr in names)
        for one in ast.walk(node)
    )
