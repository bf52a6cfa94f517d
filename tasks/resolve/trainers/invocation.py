"""The record that every kind of trainer is turned into: how one run is started, and which files it leaves."""

from configs.schema import Frozen
from tasks.records import RunFiles


class Invocation(Frozen):
    """A run in its folder: the arguments, the variables that its trainer needs, and its output files."""

    argv: tuple[str, ...]
    environment: dict[str, str] = {}  # the target's settings win over them
    files: RunFiles = RunFiles()
