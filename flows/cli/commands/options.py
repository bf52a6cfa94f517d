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

Fresh = Annotated[bool, Parameter(help="Do again what has finished before.", negative="")]
With = Annotated[
    list[str] | None,
    Parameter(
        name="--with",
        help="ARM:PACKAGE, again for more: what one arm runs apart from the other, for example branch:jax==0.11.0; "
        "branch:project for what its pyproject.toml asks for; branch:/path/to/python for an environment that exists.",
        negative="",
    ),
]
Model = Annotated[str | None, Parameter(help="The model file; the target's own by default.")]
Branch = Annotated[
    str | None, Parameter(help="For main-vs-branch: the branch, tag or commit to judge; HEAD by default.")
]
Baseline = Annotated[
    str | None,
    Parameter(
        help="For main-vs-branch: a branch, tag or commit; main by default. For every comparison: a baseline file, a "
        "folder of them (folder/), or `blessed` for configs/baselines: then only the second arm is trained."
    ),
]
Repository = Annotated[
    str | None, Parameter(help="A clone's folder or an address that has both; maxview's own checkout by default.")
]

DEFAULT_OUT = "maxview-out"


def check_out(out: str) -> None:
    """Raise StoreError with what to type if `out` can be no output folder: before something slow is begun."""
    from tasks.store import open_store

    open_store(out)


def absolute_place(out: str) -> str:
    """A path or address that means the same in another working directory."""
    if "://" in out:
        return out
    place = Path(out).absolute()
    return str(place.resolve() if ".." in place.parts else place)  # behind a link, `..` is another folder
