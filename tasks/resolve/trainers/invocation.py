"""The record of how a run is started and which files it writes, for every kind of trainer."""

from configs.schema import Frozen
from tasks.records import RunFiles


class Invocation(Frozen):
    """How one run is started: its arguments, the variables that its trainer needs, and its output files."""

    argv: tuple[str, ...]
    environment: dict[str, str] = {}  # the target's variables override these
    files: RunFiles = RunFiles()
