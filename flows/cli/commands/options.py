"""The options that several commands have, and an output folder's name to what it means everywhere."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Out = Annotated[str, Parameter(name="--out", help="Folder or gs://bucket/prefix for runs, records and pages.")]
Case = Annotated[
    list[str] | None, Parameter(name="--case", help="A case, again for more; all: every case.", negative="")
]
Set = Annotated[list[str] | None, Parameter(name="--set", help="key=value for both arms, again for more.", negative="")]
Json = Annotated[bool, Parameter(name="--json", help="Print the records as JSON on standard output.", negative="")]

DEFAULT_OUT = "maxview-out"


def check_out(out: str) -> None:
    """Raise StoreError with what to type if `out` can be no output folder: before something slow is begun."""
    from tasks.store import open_store

    open_store(out)


def absolute_place(out: str) -> str:
    """A path or address that means the same in another working directory."""
    return out if "://" in out else str(Path(out).absolute())
