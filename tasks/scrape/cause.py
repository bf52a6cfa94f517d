"""One row of the tables that turn what ended a run into a class of death."""

import re
from dataclasses import dataclass

from tasks.records import DeathKind

JAX = "https://github.com/jax-ml/jax"
XLA = "https://github.com/openxla/xla"
MAXTEXT = "https://github.com/AI-Hypercomputer/maxtext"
KUBERNETES = "https://github.com/kubernetes/kubernetes"
PYTHON = "https://docs.python.org/3/library"


@dataclass(frozen=True)
class Cause:
    """One class, what its errors look like (`Type: message`, the lines below it), and where such a text is seen."""

    kind: DeathKind
    pattern: re.Pattern[str]
    source: str
    only_on: str | None = None  # the backend on which it means this
    only_before_steps: bool = False


def cause(kind: DeathKind, pattern: str, source: str, *, on: str | None = None, early: bool = False) -> Cause:
    """A row, with its pattern compiled; `on` and `early` say where alone it counts."""
    return Cause(kind, re.compile(pattern, re.MULTILINE), source, on, early)
