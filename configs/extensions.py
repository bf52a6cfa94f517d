"""Lists the extensions, which ask questions beside the pipeline, and finds the functions that they add to it.

An extension is a package of questions/: its command, its flow and the flow's steps, its work and its pages. The
pipeline imports none of them: it finds them here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal

# Packages in questions/, in the order in which they act. They are imported by name, because nothing below them
# may depend on them.
EXTENSIONS = ("preflight", "explain", "bisect", "invariants", "history", "restores", "cross_restore", "nightly")


@dataclass(frozen=True, kw_only=True)
class Extension:
    """What an extension adds: places of functions, `module:name` or empty, and the help of its command.

    The module is imported when the function is first called. Arguments and results are those of the pipeline's records.
    """

    command: str = ""  # a command of the command line, with the function's name
    summary: str = ""  # the command's line in the help
    group: Literal["Why", "Operate"] = "Why"  # the command's group in the help
    examples: tuple[str, ...] = ()  # arguments of the command that work as shown
    flow: str = ""  # a Prefect flow; the fields of its options are the rows of its run form
    # (request, target, store, jobs) → case → its comparison, for the cases that are not to be trained
    refuse_cases: str = ""
    after_run: str = ""  # (run, plans of its case): acts on a run that has ended, before its record is written
    read_past: str = ""  # (case, store) → level → differences of earlier equal runs
    # (comparison, plans of both arms if they can run here again, store, records of its runs) → the comparison with more
    after_case: str = ""
    after_publishing: str = ""  # (comparison, store, known records of its runs): keeps what it needs of the comparison
    after_night: str = ""  # (store): acts after a night's comparisons
    demo: str = ""  # (store's address, print a line): adds to the example site


def import_function(place: str) -> Callable[..., Any]:
    """Return the function at `module:name`."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


@cache
def load_extensions() -> MappingProxyType[str, Extension]:
    """Return name → EXTENSION of the package questions.NAME, which imports none of its modules."""
    return MappingProxyType({name: import_module(f"questions.{name}").EXTENSION for name in EXTENSIONS})


def find_functions(point: str) -> list[Callable[..., Any]]:
    """Return the functions of all extensions at a point of the pipeline, which is a field of `Extension`."""
    places = [getattr(extension, point) for extension in load_extensions().values()]
    return [import_function(place) for place in places if place]


def find_flow(name: str) -> Callable[..., Any]:
    """Return the flow of this name: an extension's, or the pipeline's in the module `flows.NAME`."""
    extension = load_extensions().get(name)
    return import_function(extension.flow if extension and extension.flow else f"flows.{name}:{name}")
