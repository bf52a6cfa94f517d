"""Computes digests of Python code that ignore comments, docstrings and layout."""

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType

FOLDERS = ("model", "configs")  # the packages that maxview's trainer imports from its checkout
CONFIG_SUFFIXES = (".yml", ".yaml")  # left out, because their values are part of every run's config
# a function that uses one of these can read the names of its local variables
NAME_READERS = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "f_locals"})


def digest_code(text: str) -> str:
    """Return a digest of a module's code; "" if the text is not valid Python.

    Based on `ast.unparse` because `ast.dump` differs between versions of Python.
    """
    try:
        tree = _strip(text)
    except (SyntaxError, ValueError):
        return ""
    return _hash(ast.unparse(tree).encode("utf-8", "surrogateescape"))


def digest_trainer(root: Path) -> str:
    """Return a digest of the code that maxview's trainer runs from the checkout `root`; "" if a module is invalid.

    Equal digests mean that the trainers do the same work on the host. A digest ignores, in modules below FOLDERS,
    comments, docstrings, layout, and names of local variables that the code cannot read. Digests of different Python
    versions differ. Modules and names of folders directly in `root` are included, because the trainer starts there:
    Python would import a folder `jax`.
    """
    digest = hashlib.sha256()
    try:
        for name, content in _modules(root):
            digest.update(f"{name}\0{content}\0".encode("utf-8", "surrogateescape"))
    except (SyntaxError, ValueError):
        return ""
    return digest.hexdigest()[:16]


def _modules(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (path, digest) of modules and folders (digest "") directly in `root`, and of files in FOLDERS.

    Leaves out configs and caches in FOLDERS. Only modules in FOLDERS are parsed; other files count byte by byte.
    """
    for path in sorted(root.iterdir()):
        if path.is_dir() or path.suffix in (".py", ".pyc", ".so", ".pth"):
            yield path.name, "" if path.is_dir() else _hash(path.read_bytes())
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*")):
        if path.is_file() and path.suffix not in CONFIG_SUFFIXES and path.parent.name != "__pycache__":
            name = path.relative_to(root).as_posix()
            if path.suffix != ".py":
                yield name, _hash(path.read_bytes())
                continue
            yield name, _digest_module(path.read_text("utf-8"))


@lru_cache(maxsize=2048)  # two versions share most modules
def _digest_module(text: str) -> str:
    return _hash(repr(_describe(_compile(text))).encode("utf-8", "surrogateescape"))


def _compile(text: str) -> CodeType:
    """Return the compiled code of a module, independent of its comments, docstrings and layout."""
    tree = _strip(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and isinstance(body[0], ast.Pass):
            del body[0]  # imports of `__future__` must not follow a `pass`
    # normalizes line breaks, which bytecode depends on
    return compile(ast.unparse(tree), "", "exec", dont_inherit=True)


def _describe(code: CodeType) -> tuple[object, ...]:
    """Return every part of a code object that affects its execution; names of locals only if the code can read them."""
    arguments = code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & flag) for flag in (0x04, 0x08))
    names = code.co_varnames if NAME_READERS & set(code.co_names) else code.co_varnames[:arguments]
    constants = tuple(_describe(one) if isinstance(one, CodeType) else _show(one) for one in code.co_consts)
    return (
        code.co_name, code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, names,
        code.co_nlocals, len(code.co_cellvars), len(code.co_freevars), code.co_names, code.co_code,
        code.co_exceptiontable, constants,
    )  # fmt: skip


def _show(constant: object) -> tuple[str, object]:
    """Return a constant's type and text, because 1, 1.0 and True are equal. The items of a set are sorted."""
    if isinstance(constant, frozenset):
        return "frozenset", sorted(repr(_show(one)) for one in constant)
    if isinstance(constant, tuple):
        return "tuple", [_show(one) for one in constant]
    return type(constant).__name__, repr(constant)


def _strip(text: str) -> ast.Module:
    """Return a module's syntax tree with `pass` in place of docstrings. Raises SyntaxError or ValueError."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body[0] = ast.Pass()
    return tree


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
