"""Programs that are started by their path. This folder comes first on the PYTHONPATH of an observed process.

The modules in it import only the standard library and each other, and load `maxview_probe` from the folder above.
"""

from pathlib import Path

INJECTED = Path(__file__).parent  # the folder for PYTHONPATH
START = INJECTED / "start.py"
FORK_RUNS = INJECTED / "fork_runs.py"
