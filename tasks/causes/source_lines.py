"""Turns the frames of an operation into the line of the trainer that it comes from."""

import re
from collections.abc import Iterable
from typing import NamedTuple

# packages between JAX and the trainer: the calling line identifies the trainer's code
LIBRARY = re.compile(
    r"/(?:site|dist)-packages/(?:jax|jaxlib|flax|optax|orbax|chex|absl|qwix|aqt|penzai)/|"
    r"/lib/python3[.\d]*/(?!(?:site|dist)-packages/)|<frozen |/jax/_src/"
)
_PACKAGES = re.compile(r".*/(?:site|dist)-packages/|.*/checkouts/[0-9a-f]{40,64}/")  # and checkouts of commits

type Frame = tuple[str, str, int]  # function, file, line


class SourceLine(NamedTuple):
    """A line of the trainer's source. `file` is below site-packages or the arm's folder, `path` the same in full."""

    function: str = ""
    file: str = ""
    line: int = 0
    path: str = ""

    def __str__(self) -> str:
        if not self.file:
            return "no source line"
        return f"{self.file}:{self.line}" + (f" {self.function}" if self.function else "")


def find_source_line(frames: Iterable[Frame], root: str = "") -> SourceLine:
    """Return the innermost frame of the trainer, else of a library. root: the arm's folder."""
    listed = list(frames)
    own = next((frame for frame in listed if not is_library(frame[1])), listed[0] if listed else None)
    if own is None:
        return SourceLine()
    function, path, line = own
    return SourceLine(function, shorten_path(path, root), line, path)


def name_place(source: SourceLine) -> str:
    """Return a name for a source line that is stable if lines move or a twin of its file is compared.

    The method, else file and function; empty for libraries.
    """
    if is_library(source.path):  # each API has libraries of its own around the same work
        return ""
    if "." in source.function:
        return source.function
    return f"{source.file.rpartition('/')[2]} {source.function or source.line}"


def is_library(path: str) -> bool:
    """Return whether a file belongs to JAX, to a package around it, or to Python itself."""
    return LIBRARY.search(path) is not None


def shorten_path(path: str, root: str = "") -> str:
    """Return a file's path below site-packages or the arm's folder."""
    below = _PACKAGES.sub("", path)
    if below == path and root and path.startswith(root.rstrip("/") + "/"):
        return path[len(root.rstrip("/")) + 1 :]
    return below
