"""The place of a value: its position in a log, and the run's number."""

from typing import Any

from pydantic import Field

from configs.schema import Frozen


def run_number() -> Any:
    """Return a field for the number of the arm's repeat, from 0; 0 is omitted from JSON.

    A reading has one log; `tasks/diff/arms.py` sets the number when it combines an arm's runs.
    """
    return Field(default=0, ge=0, exclude_if=lambda run: run == 0)


class Source(Frozen):
    """The place of a value in a log: 1-based line and 0-based byte offset in the given file.

    For the text of a compiled program, `run` continues after the arm's runs.
    """

    line: int
    offset: int
    run: int = run_number()
