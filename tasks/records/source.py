"""The position of a value in a log: line, byte offset, and the run's number."""

from typing import Any

from pydantic import Field

from configs.schema import Frozen


def run_number() -> Any:
    """Return a pydantic field for the number of a run within its arm, from 0; JSON omits 0.

    A record from a single log has 0; `tasks/diff/arms.py` sets the number when it combines an arm's runs.
    """
    return Field(default=0, ge=0, exclude_if=lambda run: run == 0)


class Source(Frozen):
    """The position of a value in a file: 1-based line and 0-based byte offset.

    `run` selects the file: the log of that run, or, for numbers after the last run, the text of a compiled program.
    """

    line: int
    offset: int
    run: int = run_number()
