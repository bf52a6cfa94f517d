"""Parts that several records share: a value's position in a log (`Source`), a run's number, ignored old fields."""

from typing import Any

from pydantic import Field, model_validator

from configs.frozen import Frozen


def run_number() -> Any:
    """Return a pydantic field for a run's number within its arm (compared version), from 0; JSON omits 0.

    A record from a single log has 0; `tasks/diff/examine/arms.py` sets the number when it combines an arm's runs.
    """
    return Field(default=0, ge=0, exclude_if=lambda run: run == 0)


class Source(Frozen):
    """The position of a value in a file: 1-based line and 0-based byte offset."""

    line: int
    offset: int
    run: int = run_number()  # the file is the log of this run
    file: str = Field(
        default="", exclude_if=lambda file: not file
    )  # name of a compiled program's text: the file is that


def ignore_older(*names: str) -> Any:
    """Return a pydantic validator that drops the fields `names`, which older versions stored, from a record's data."""

    def drop(value: Any) -> Any:
        return {key: item for key, item in value.items() if key not in names} if isinstance(value, dict) else value

    return model_validator(mode="before")(drop)
