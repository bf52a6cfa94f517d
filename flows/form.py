"""Turns the description of a flow's parameter into one that Prefect's run form shows."""

from typing import Any

import pydantic


def Field(*, description: str, json_schema_extra: dict[str, Any] | None = None, **limits: Any) -> Any:
    """Pydantic's field for an `Annotated` parameter of a flow.

    Prefect 3.8 writes what a parameter's docstring says, or nothing, over the description of such a field; what is in
    the further keys of its schema stays.
    """
    extra = {"description": description} | (json_schema_extra or {})
    return pydantic.Field(description=description, json_schema_extra=extra, **limits)
