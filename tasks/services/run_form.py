"""The parameters of flows in Prefect's run form, and the names of flow runs."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

import pydantic
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run

from configs.comparison import Kind, list_names, load_comparison
from configs.errors import ConfigError
from tasks.records.text import shorten, visible
from tasks.resolve.refs import LONGEST_NAME as LONGEST_REF
from tasks.services.outage import unless_away

LONGEST_NAME = 400  # characters: enough for every case of a comparison


def Field(*, description: str, json_schema_extra: dict[str, Any] | None = None, **limits: Any) -> Any:
    """Return a pydantic field for an `Annotated` parameter of a flow.

    Prefect 3.8 overwrites a field's description with the docstring's, but keeps the extra keys of its schema.
    """
    extra = {"description": description} | (json_schema_extra or {})
    return pydantic.Field(description=description, json_schema_extra=extra, **limits)


def choices(kind: Kind) -> dict[str, Any]:
    """A dropdown in the run form, whose server refuses other names when the form is sent.

    The names are checked again when they are resolved, with a suggestion.
    """
    return {"enum": list(list_names(kind))}


def choices_or_none(kind: Kind) -> dict[str, Any]:
    """The same for a parameter that may be left empty."""
    return {"anyOf": [{"type": "string"} | choices(kind), {"type": "null"}]}


def several(kind: Kind, *more: str) -> dict[str, Any]:
    """The same for a list of names; `more`: words that stand for several."""
    return {"items": {"type": "string", "enum": [*list_names(kind), *more]}}


# parameters of the flows that compare two arms
Cases = Annotated[
    list[str],
    Field(
        description="Cases, for example 03_dropout; empty: those of the comparison; all: every case",
        json_schema_extra=several("cases", "all"),
    ),
]
Target = Annotated[
    str | None,
    Field(description="Where to run; empty: the comparison's own target", json_schema_extra=choices_or_none("targets")),
]
Model = Annotated[
    str | None,
    Field(description="Model file; empty: the target's own model", json_schema_extra=choices_or_none("models")),
]
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


def tag_run(comparison: str, cases: Sequence[str], target: str | None, refs: Sequence[str | None] = ()) -> None:
    """Tag this flow run with what it compares, so that both UIs can filter by it; outside of a flow run do nothing."""
    if flow_run.id is None:
        return
    facts = [("comparison", comparison), *(("case", case) for case in cases), ("target", target)]
    facts += [("branch", ref) for ref in refs]
    tags = {show_name(f"{name}:{value}") for name, value in facts if value}
    with unless_away(), get_client(sync_client=True) as client:
        client.update_flow_run(UUID(flow_run.id), tags=sorted({*flow_run.tags, *tags}))


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
