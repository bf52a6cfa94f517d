"""Gives flows their parameters in Prefect's run form, and flow runs their names and tags."""

import re
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any
from uuid import UUID

import pydantic
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from pydantic import BaseModel

from configs.comparison import load_comparison
from configs.errors import ConfigError
from tasks.records.text import shorten, visible
from tasks.services.outage import unless_away

LONGEST_NAME = 400  # characters: enough for every case of a comparison
GENERATED = re.compile(r"[a-z]+-[a-z]+")  # a random name by Prefect or its run form, such as witty-otter


def with_parameters_of[Given: BaseModel, Result](
    options: type[Given],
) -> Callable[[Callable[[Given], Result]], Callable[..., Result]]:
    """Return a decorator that replaces a function's options record by its fields, each shown in Prefect's run form."""
    parameters = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.is_required() else field.default,
            annotation=Annotated[
                field.annotation, *field.metadata, pydantic.Field(json_schema_extra=field.json_schema_extra)
            ],
        )
        for name, field in options.model_fields.items()
    ]

    def make(function: Callable[[Given], Result]) -> Callable[..., Result]:
        @wraps(function)
        def run(**given: Any) -> Result:
            return function(options(**given))

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return make


def tag_run(comparison: str, cases: Sequence[str], target: str | None, refs: Sequence[str | None] = ()) -> None:
    """Tag this flow run with comparison, cases, target and refs, for Prefect's filters; does nothing outside of one."""
    if flow_run.id is None:
        return
    facts = [("comparison", comparison), *(("case", case) for case in cases), ("target", target)]
    facts += [("branch", ref) for ref in refs]
    tags = {show_name(f"{name}:{value}") for name, value in facts if value}
    with unless_away(), get_client(sync_client=True) as client:
        client.update_flow_run(UUID(flow_run.id), tags=sorted({*flow_run.tags, *tags}))


def unless_named(describe: Callable[[], str]) -> Callable[[], str]:
    """Return a function that names a flow run: by `describe`, unless the user has named it, e.g. in the run form."""

    @wraps(describe)
    def name() -> str:
        given = flow_run.name
        return describe() if not given or GENERATED.fullmatch(given) else show_name(given)

    return name


def show_name(text: str) -> str:
    """Return an untrusted text as a flow run's name: one line, shortened, control characters made visible."""
    return shorten(visible(text), LONGEST_NAME)


def name_comparison(
    comparison: str, cases: Sequence[str] | None, target: str | None, refs: tuple[str | None, str | None]
) -> str:
    """Return a comparison's flow run name: cases, arms and target. refs: the request's baseline and branch, if any."""
    try:
        spec = load_comparison(comparison)
    except ConfigError:  # the flow's resolve step will report the error
        return show_name(str(comparison))
    arms = [arm.name for arm in spec.arms]
    if spec.has_refs:
        arms = [(ref or arm.ref or arm.name).partition(":")[0] for ref, arm in zip(refs, spec.arms, strict=True)]
    return show_name(f"{', '.join(cases or spec.cases)}: {' vs '.join(arms)} on {target or spec.target}")
