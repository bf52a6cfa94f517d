"""The parameters of flows in Prefect's run form, and the names of flow runs."""

from collections.abc import Sequence
from typing import Annotated, Any

import pydantic

from configs.comparison import Kind, list_names, load_comparison
from configs.errors import ConfigError
from tasks.records.text import shorten, visible
from tasks.resolve.refs import LONGEST_NAME as LONGEST_REF

LONGEST_NAME = 400  # characters: enough for every case of a comparison


def Field(*, description: str, json_schema_extra: dict[str, Any] | None = None, **limits: Any) -> Any:
    """Return a pydantic field for an `Annotated` parameter of a flow.

    Prefect 3.8 overwrites a field's description with the docstring's, but keeps the extra keys of its schema.
    """
    extra = {"description": description} | (json_schema_extra or {})
    return pydantic.Field(description=description, json_schema_extra=extra, **limits)


def choices(kind: Kind) -> dict[str, Any]:
    """Return the schema of a dropdown in the run form. Names are checked again at resolution, with a suggestion."""
    return {"enum": list(list_names(kind))}


# parameters of the flows that compare two arms
Cases = Annotated[
    list[str], Field(description="Cases, for example 03_dropout; empty: those of the comparison; all: every case")
]
Model = Annotated[str | None, Field(description="Model file; empty: the target's own model")]
Overrides = Annotated[
    list[str], Field(description="Config values for both arms, each key=value, for example remat_policy=none")
]
Branch = Annotated[
    str | None,
    Field(max_length=LONGEST_REF, description="main-vs-branch: the branch, tag or commit to judge; empty: HEAD"),
]
Baseline = Annotated[
    str | None,
    Field(
        max_length=LONGEST_REF,
        description="main-vs-branch: what to judge it against; empty: main. blessed: the runs in configs/baselines",
    ),
]
Repository = Annotated[
    str | None, Field(description="main-vs-branch: clone or address with both; empty: maxview's own checkout")
]
Software = Annotated[list[str], Field(description="Packages or a Python for one arm, for example branch:jax==0.11.0")]


def show_name(text: str) -> str:
    """Return a flow run's name from its parameters, which are untrusted: one line, without control characters."""
    return shorten(visible(text), LONGEST_NAME)


def name_comparison(
    comparison: str, cases: Sequence[str] | None, target: str | None, refs: tuple[str | None, str | None]
) -> str:
    """Return a comparison's flow run name: cases, arms and target. refs: the request's baseline and branch, if any."""
    try:
        spec = load_comparison(comparison)
    except ConfigError:  # the resolve step will report it
        return show_name(str(comparison))
    arms = [arm.name for arm in spec.arms]
    if spec.has_refs:
        arms = [(ref or arm.ref or arm.name).partition(":")[0] for ref, arm in zip(refs, spec.arms, strict=True)]
    return show_name(f"{', '.join(cases or spec.cases)}: {' vs '.join(arms)} on {target or spec.target}")
