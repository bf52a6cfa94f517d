"""Finds the trainer's source line of an operation among its stack frames, and shortens paths for display."""

import re
from collections.abc import Iterable

from tasks.observe.inject.maxview_observe.places import LIBRARIES
from tasks.records import CodeLine

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/|.*/checkouts/[0-9a-f]{40,64}/")  # or commits' checkouts

type Frame = tuple[str, str, int]  # function, file, line


def find_source_line(frames: Iterable[Frame], root: str = "") -> CodeLine:
    """Return the innermost frame of the trainer, else of a library. frames: innermost first. root: arm's folder."""
    listed = list(frames)
    own = next((frame for frame in listed if not is_library(frame[1])), listed[0] if listed else None)
    if own is None:
        return CodeLine()
    function, path, line = own
    return CodeLine(file=shorten_path(path, root), line=line, function=function, path=path)


def name_place(source: CodeLine) -> str:
    """Return a name for a source line that stays equal if lines move: class and method, else file and function.

    Empty for libraries.
    """
    if is_library(source.path):  # Linen and NNX call other library functions around equal work
        return ""
    if "." in source.function:
        return source.function
    return f"{source.file.rpartition('/')[2]} {source.function or source.line}"


def is_library(path: str) -> bool:
    """Return whether a file belongs to JAX, to a package around it, or to Python itself."""
    return LIBRARIES.search(path) is not None


def shorten_path(path: str, root: str = "") -> str:
    """Return a file's path relative to site-packages, to a commit's checkout or to the arm's folder."""
    below = _PACKAGES.sub("", path)
    if below == path and root and path.startswith(root.rstrip("/") + "/"):
        return path[len(root.rstrip("/")) + 1 :]
    return below
