"""Turns the text of Python modules into digests of their code, without comments, docstrings and layout."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

FOLDERS = ("model", "configs")  # what our trainer imports from its checkout
SEEN_IN_CONFIG = (".yml", ".yaml")  # their values are part of every run's config
NAMES_COUNT = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "f_locals"})


def digest_code(text: str) -> str:
    """Return a digest of a module's code; empty if the text is not Python.

    Based on `ast.unparse` because `ast.dump` differs between versions of Python.
    """
    try:
        tree = _strip(text)
    except (SyntaxError, ValueError):
        return ""
    return _hash(ast.unparse(tree).encode("utf-8", "surrogateescape"))


def digest_trainer(root: Path) -> str:
    """Return a digest of the code that our trainer runs from the checkout `root`; empty if a module is not Python.

    Equal digests mean equal work of the host: comments, docstrings, layout and the names of local variables are left
    out. Bytecode numbers local variables, so that their names do not matter. Other versions of Python give other
    digests. The names in `root` count because the trainer starts there: a folder `jax` would be imported.
    """
    digest = hashlib.sha256()
    try:
        for name, content in _modules(root):
            digest.update(f"{name}\0{content}\0".encode("utf-8", "surrogateescape"))
    except (SyntaxError, ValueError):
        return ""
    return digest.hexdigest()[:16]


def _modules(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of everything that can be imported from `root`, and a digest of the content that is."""
    for path in sorted(root.iterdir()):
        if path.is_dir() or path.suffix in (".py", ".pyc", ".so", ".pth"):
            yield path.name, "" if path.is_dir() else _hash(path.read_bytes())
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*")):
        if path.is_file() and path.suffix not in SEEN_IN_CONFIG and path.parent.name != "__pycache__":
            name = path.relative_to(root).as_posix()
            if path.suffix != ".py":
                yield name, _hash(path.read_bytes())
                continue
            yield name, _hash(repr(_describe(_compile(path.read_text("utf-8")))).encode("utf-8", "surrogateescape"))


def _compile(text: str) -> CodeType:
    """Return the code of a module as if it had no comments, docstrings and layout."""
    tree = _strip(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and isinstance(body[0], ast.Pass):
            del body[0]  # imports of `__future__` have to come first
    # unparsed, because bytecode depends on line breaks
    return compile(ast.unparse(tree), "", "exec", dont_inherit=True)


def _describe(code: CodeType) -> tuple[object, ...]:
    """Return all of a code object that its execution depends on."""
    arguments = code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & flag) for flag in (0x04, 0x08))
    names = code.co_varnames if NAMES_COUNT & set(code.co_names) else code.co_varnames[:arguments]
    constants = tuple(_describe(one) if isinstance(one, CodeType) else _show(one) for one in code.co_consts)
    return (
        code.co_name, code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, names,
        code.co_nlocals, len(code.co_cellvars), len(code.co_freevars), code.co_names, code.co_code,
        code.co_exceptiontable, constants,
    )  # fmt: skip


def _show(constant: object) -> tuple[str, object]:
    """Return a constant with its type, because 1, 1.0 and True are equal; a set's elements in one order."""
    if isinstance(constant, frozenset):
        return "frozenset", sorted(repr(_show(one)) for one in constant)
    if isinstance(constant, tuple):
        return "tuple", [_show(one) for one in constant]
    return type(constant).__name__, repr(constant)


def _strip(text: str) -> ast.Module:
    """Return the syntax tree of a module without docstrings. Raises SyntaxError or ValueError if it is not Python."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body[0] = ast.Pass()
    return tree


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
