"""Why two functions cannot be compared."""

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from maxview_probe.observe.places import LIBRARIES, relative_path


class CannotCompare(ValueError):
    """Two functions cannot be compared; the sentence names the reason."""


class UntriedWarning(UserWarning):
    """Two functions are the same where they were evaluated, but some states remain untried or differ harmlessly."""


_MUTATIONS = (
    "item assignment",
    "immutable",
    "different trace level",
    "cannot be mutated",
    "read-only",
)
_VALUES = ("Tracer", "concrete", "Concret")
_DEVICES = ("Unknown backend", "cuDNN is not detected", "Number of devices")
_INSTALLED = re.compile(r"/(?:site|dist)-packages/")


@contextmanager
def in_user_terms(name: str, what: str) -> Iterator[None]:
    """Turn an error of the block into a `CannotCompare`. name: of the function. what: that was tried, "traced"."""
    try:
        yield
    except CannotCompare:
        raise
    except Exception as error:
        text = _first_line(error)
        where = find_line(error)
        kind = type(error).__name__
        if any(word in text for word in _MUTATIONS) or "TraceContextError" in kind:
            sentence = f"{name} changes an array or a module in place{where}: return the new value instead"
        elif isinstance(error, jax.errors.UnexpectedTracerError):
            sentence = f"{name} keeps an array in a variable outside of it{where}: take and return it instead"
        elif any(word in text for word in _DEVICES):
            sentence = f"{name} needs other devices than this machine has{where}: {text}"
        elif any(word in kind for word in _VALUES) or "Tracer" in text:
            sentence = f"{name} cannot be traced by JAX: it uses the value of an array in Python{where}"
        else:
            sentence = f"{name} cannot be {what}{where}: {kind}: {text}"
        raise CannotCompare(sentence) from None


def find_line(error: BaseException) -> str:
    """Return the user's innermost line in an error's traceback, as " at norm.py:8"; "" if there is none."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not LIBRARIES.search(one.filename)]
    frames = [one for one in frames if not _INSTALLED.search(one.filename)] or frames
    return f" at {relative_path(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


def _first_line(error: BaseException) -> str:
    line, _, more = str(error).strip().partition("\n")
    return re.sub(r"\s+", " ", line + more if line.endswith(":") else line)[:300]


def name_functions(old: Callable[..., Any], new: Callable[..., Any]) -> tuple[str, str]:
    """Return the names of two functions; "old" and "new" if they have no names that differ."""
    names = [getattr(one, "__name__", "") for one in (old, new)]
    if names[0] == names[1] or any(not name or "<" in name or len(name) > 40 for name in names):
        return "old", "new"
    return names[0], names[1]


def shorten(file: str) -> str:
    """Return a file's path as people write it: below the working folder, else its last two parts."""
    path = Path(file)
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return "/".join(path.parts[-2:])
