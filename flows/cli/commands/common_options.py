"""The options of commands that run no flow, and paths that mean the same in every working directory."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tasks.resolve.options import DEFAULT_OUT as DEFAULT_OUT
from tasks.resolve.options import CompareMore, CompareOptions

Out = Annotated[str, Parameter(help=CompareOptions.model_fields["out"].description)]
Case = Annotated[
    list[str] | None, Parameter(name="--case", help=CompareOptions.model_fields["cases"].description, negative="")
]
Set = Annotated[
    list[str] | None, Parameter(name="--set", help=CompareMore.model_fields["overrides"].description, negative="")
]
Json = Annotated[bool, Parameter(name="--json", help="Print the records as JSON on standard output.", negative="")]


def check_out(out: str) -> None:
    """Raise StoreError with the remedy if `out` cannot be an output folder, before slow work begins."""
    from tasks.store import open_store

    open_store(out)


def absolute_place(out: str) -> str:
    """Return a path or address that means the same in another working directory."""
    if "://" in out:
        return out
    place = Path(out).absolute()
    return str(place.resolve() if ".." in place.parts else place)  # behind a link, `..` is another folder
