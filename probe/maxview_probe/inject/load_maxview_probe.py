"""Makes the package `maxview_probe` importable, also in a Python where it is not installed.

Only this package is taken from beside this file: a whole folder on sys.path would replace the environment's JAX.
"""

import importlib.util
import os
import sys

PACKAGE = "maxview_probe"
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def load_maxview_probe() -> None:
    """Put the package into sys.modules; another version of it that is installed here is then not imported."""
    if PACKAGE in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(FOLDER, "__init__.py"), submodule_search_locations=[FOLDER]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)
