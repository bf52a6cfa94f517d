"""Python runs this module at startup. If MAXVIEW_OBSERVE is set, it watches which lines run, as the settings say.

An import hook then starts the recorder after JAX's import.

At its end, this module runs the `sitecustomize` that it shadows: the next one on sys.path.
"""

import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from types import ModuleType
from typing import Any

from load_maxview_probe import load_maxview_probe

HERE = os.path.dirname(os.path.abspath(__file__))
VARIABLE = "MAXVIEW_OBSERVE"


class AfterJax:
    """A meta path finder that removes itself when JAX is first imported, and lets JAX's loader start the recorder."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Return JAX's spec with a loader that starts the recorder after the import; None for other modules."""
        if name != "jax":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("jax")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_start(module: ModuleType) -> None:
            execute(module)
            start_recorder()

        spec.loader.exec_module = execute_and_start  # type: ignore[method-assign]
        return spec


def start_recorder() -> None:
    """Start the recorder. A failure is printed, and the trainer then runs without the recorder."""
    try:
        importlib.import_module("maxview_probe.observe.begin").begin(os.environ[VARIABLE])
    except Exception as error:
        sys.stderr.write(f"[maxview] nothing is observed: {type(error).__name__}: {error}\n")


def watch_lines(settings_file: str) -> bool:
    """Note the lines that this process executes, if the settings name a checkout; return whether this is all."""
    try:
        with open(settings_file, encoding="utf-8") as file:
            settings = json.load(file)
        for name in ("read_files", "ran_lines"):
            importlib.import_module(f"maxview_probe.observe.{name}").begin(settings, os.path.dirname(settings_file))
        return bool(settings.get("lines_only"))
    except Exception as error:
        sys.stderr.write(f"[maxview] no lines are noted: {type(error).__name__}: {error}\n")
        return False


def run_next() -> None:
    """Run the next `sitecustomize` on sys.path, which this module shadows."""
    others = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get(VARIABLE):
    load_maxview_probe()
    if not watch_lines(os.environ[VARIABLE]):
        sys.meta_path.insert(0, AfterJax())
run_next()
