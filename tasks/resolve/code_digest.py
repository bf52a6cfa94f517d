"""Turns the text of a Python module into a digest of its code, without comments, docstrings and layout."""

import ast
import hashlib


def digest_code(text: str) -> str:
    """Return a digest of a module's code; empty if the text is not Python.

    Based on `ast.unparse` because `ast.dump` differs between versions of Python.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body[0] = ast.Pass()
    return hashlib.sha256(ast.unparse(tree).encode("utf-8", "surrogateescape")).hexdigest()[:16]
