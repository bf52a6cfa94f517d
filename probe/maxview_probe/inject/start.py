"""Runs a module of `maxview_probe` in a Python that need not have it installed.

    python …/maxview_probe/inject/start.py MODULE ARGUMENT…

MODULE is a name below the package, such as `turns.take_turns`.
On Linux the kernel kills this process when the process that started it is gone.
"""

import ctypes
import runpy
import signal
import sys

from load_maxview_probe import PACKAGE, load_maxview_probe

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Make `maxview_probe` importable, and run the module as `__main__`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    sys.path.pop(0)  # this folder
    load_maxview_probe()
    module = f"{PACKAGE}.{sys.argv[1]}"
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
