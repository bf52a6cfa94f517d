"""Where in a log, and in which of an arm's runs, a value stands."""

from typing import Any

from pydantic import Field

from configs.schema import Frozen


def run_number() -> Any:
    """Which of an arm's repeats something is from, counted from 0; left out of what is written where it is the first.

    A reading knows of one log only: whoever puts the runs of an arm together sets it (`tasks/diff/arms.py`).
    """
    return Field(default=0, ge=0, exclude_if=lambda run: run == 0)


class Source(Frozen):
    """Where in a log a value stands: 1-based line, 0-based byte offset, both of the file as it was given.

    In the text of a compiled program `run` counts on from the arm's runs.
    """

    line: int
    offset: int
    run: int = run_number()
