"""Imports the modules of a package when one of its names is first used, so that a command loads only what it needs."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def import_on_use(package: str, file: str) -> Callable[[str], Any]:
    """Return the `__getattr__` (PEP 562) of a package.

    It knows the names that the package's file imports under `if TYPE_CHECKING:`, where mypy and import-linter read the
    same lines.
    """
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: node.module for node in imports for alias in node.names if node.module}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    return find
