"""Turns the traceback of an operation into the trainer's own source line."""

import re
from typing import Any

_LIBRARIES = re.compile(
    r"/(?:site|dist)-packages/(?:jax|jaxlib|flax|optax|orbax|absl|qwix|aqt|equinox|haiku|chex)/"
    r"|/maxview_observe/|/lib/python3\.\d+/(?!site-packages|dist-packages)|<frozen"
)
_cache: dict[int, list[Any]] = {}
_held: list[Any] = []  # keeps the tracebacks whose ids are keys


def place_of_equation(equation: Any) -> list[Any]:
    """`[file, line, function]`: the innermost frame outside of libraries; `["", 0, ""]` where there is none."""
    traceback = equation.source_info.traceback
    if traceback is None:
        return ["", 0, ""]
    found = _cache.get(id(traceback))
    if found is None:
        _held.append(traceback)
        found = _cache[id(traceback)] = _read(traceback)
    return found


def _read(traceback: Any) -> list[Any]:
    for frame in traceback.frames:
        if not _LIBRARIES.search(frame.file_name):
            return [frame.file_name, frame.line_num, frame.function_name]
    return ["", 0, ""]
