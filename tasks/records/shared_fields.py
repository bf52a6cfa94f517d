"""Parts that several records share: a value's position in a log (`Source`), a run's number, a record's format."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from configs.frozen import Frozen


def run_number() -> Any:
    """Return a pydantic field for a run's number within its arm (compared version), from 0; JSON omits 0.

    A record from a single log has 0; `tasks/diff/examine/arms.py` sets the number when it combines an arm's runs.
    """
    return Field(default=0, ge=0, exclude_if=lambda run: run == 0)


FORMAT = 1


class Source(Frozen):
    """The position of a value in a file: 1-based line and 0-based byte offset."""

    line: int
    offset: int
    run: int = run_number()  # the file is the log of this run
    file: str = Field(
        default="", exclude_if=lambda file: not file
    )  # name of a compiled program's text: the file is that


def _check_format(value: int) -> int:
    if value != FORMAT:
        why = f"has format {value}, and this maxview reads format {FORMAT}"
        raise ValueError(f"{why}: read it with the maxview that wrote it")
    return value


# of a stored record: the number changes when a record of before can no longer be read
Format = Annotated[int, AfterValidator(_check_format)]
