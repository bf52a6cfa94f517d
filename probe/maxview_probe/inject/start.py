"""Runs a module of this folder in a Python that need not have maxview installed.

    python …/tasks/experiments/inside/start.py MODULE ARGUMENT…

Only the package `tasks` is taken from beside this file: a whole folder on sys.path would replace the environment's JAX.
On Linux the kernel kills this process when the process that started it is gone.
"""

import ctypes
import importlib.machinery
import importlib.util
import runpy
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Make `tasks` importable, and run the module as `__main__`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    sys.path.pop(0)  # this folder
    spec = importlib.machinery.PathFinder.find_spec("tasks", [str(ROOT)])
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["tasks"] = package
    spec.loader.exec_module(package)
    module = f"tasks.experiments.inside.{sys.argv[1]}"
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
