"""Options that several commands have, and functions for the output folder."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.json_option import Json as Json
from tasks.resolve.options import DEFAULT_OUT as DEFAULT_OUT
from tasks.resolve.options import CompareMore, CompareOptions

Out = Annotated[str, Parameter(help=CompareOptions.model_fields["out"].description)]
Case = Annotated[
    list[str] | None, Parameter(name="--case", help=CompareOptions.model_fields["cases"].description, negative="")
]
Set = Annotated[
    list[str] | None, Parameter(name="--set", help=CompareMore.model_fields["overrides"].description, negative="")
]
Full = Annotated[bool, Parameter(name="--full", help="Print every row, reason and checkpoint.", negative="")]


def check_store(out: str) -> None:
    """Raise StoreError with the remedy if `out` cannot be a store. Creates a missing folder.

    To be called before slow work.
    """
    from tasks.store.store import open_store

    open_store(out)


def absolute_place(out: str) -> str:
    """Return a path as an absolute path, and an address (gs://…) unchanged."""
    if "://" in out:
        return out
    place = Path(out).absolute()
    return str(place.resolve() if ".." in place.parts else place)  # after a symbolic link, `..` is another folder
