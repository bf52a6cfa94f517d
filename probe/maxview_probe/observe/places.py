"""Finds the trainer's source line of an operation in its traceback."""

import os
import re
import sys
from types import FrameType
from typing import Any

# Files of Python, JAX and packages around JAX. Their frames are skipped: the place is the trainer's calling line.
LIBRARIES = re.compile(
    r"/(?:site|dist)-packages/(?:jax|jaxlib|flax|optax|orbax|chex|absl|qwix|aqt|penzai|equinox|haiku)/"
    r"|/lib/python3[.\d]*/(?!(?:site|dist)-packages/)|<frozen|/maxview_probe/|/jax/_src/"
)
MAX_CALLS = 24  # frames of a chain of calls
_cache: dict[int, list[list[Any]]] = {}  # id of a traceback → its place, and those of the calls around it
_held: list[Any] = []  # keeps the tracebacks alive whose ids are keys of _cache


def place_of_equation(equation: Any) -> list[Any]:
    """Return `[file, line, function, short file]` of the innermost frame outside of libraries, else empty fields."""
    found = chain_of_equation(equation)
    return found[0] if found else ["", 0, "", ""]


def chain_of_equation(equation: Any) -> list[list[Any]]:
    """Return the place of an equation and those of the calls around it, innermost first; at most MAX_CALLS.

    The list of a traceback is always the same object.
    """
    traceback = equation.source_info.traceback
    if traceback is None:
        return []
    found = _cache.get(id(traceback))
    if found is None:
        _held.append(traceback)
        found = _cache[id(traceback)] = _read(traceback)
    return found


def place_of_caller() -> list[Any]:
    """Return the fields of `place_of_equation` of the innermost running frame outside of libraries."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not LIBRARIES.search(frame.f_code.co_filename):
            code = frame.f_code
            return [code.co_filename, frame.f_lineno, code.co_name, relative_path(code.co_filename)]
        frame = frame.f_back
    return ["", 0, "", ""]


def _read(traceback: Any) -> list[list[Any]]:
    own = [frame for frame in traceback.frames if not LIBRARIES.search(frame.file_name)]
    return [
        [frame.file_name, frame.line_num, frame.function_name, relative_path(frame.file_name)]
        for frame in own[:MAX_CALLS]
    ]


def relative_path(file: str) -> str:
    """Return a file's path relative to its folder on sys.path, equal for two checkouts; else its whole path."""
    folders = [os.path.join(os.path.abspath(place), "") for place in sys.path]
    above = max((folder for folder in folders if file.startswith(folder)), key=len, default="")
    return file.removeprefix(above)
