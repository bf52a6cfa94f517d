"""What the flows that compare two arms are given, as their run forms show it."""

from typing import Annotated

from tasks.resolve.refs import LONGEST_NAME
from tasks.services.run_form import Field

Cases = Annotated[
    list[str], Field(description="Cases, for example 03_dropout; empty: those of the comparison; all: every case")
]
Model = Annotated[str | None, Field(description="Model file; empty: the target's own model")]
Overrides = Annotated[
    list[str], Field(description="Config values for both arms, each key=value, for example remat_policy=none")
]
Branch = Annotated[
    str | None,
    Field(max_length=LONGEST_NAME, description="main-vs-branch: the branch, tag or commit to judge; empty: HEAD"),
]
Baseline = Annotated[
    str | None,
    Field(max_length=LONGEST_NAME, description="main-vs-branch: what to judge it against; empty: main"),
]
Repository = Annotated[
    str | None, Field(description="main-vs-branch: clone or address with both; empty: maxview's own checkout")
]
Software = Annotated[list[str], Field(description="Packages or a Python for one arm, for example branch:jax==0.11.0")]
