"""Turns what describes and names a flow run into what Prefect's UIs and its command line can show."""

from typing import Any

import pydantic

from tasks.publish.text import shorten, visible

LONGEST_NAME = 400  # of a flow run: every case of a comparison fits


def Field(*, description: str, json_schema_extra: dict[str, Any] | None = None, **limits: Any) -> Any:
    """Pydantic's field for an `Annotated` parameter of a flow.

    Prefect 3.8 writes what a parameter's docstring says, or nothing, over the description of such a field; what is in
    the further keys of its schema stays.
    """
    extra = {"description": description} | (json_schema_extra or {})
    return pydantic.Field(description=description, json_schema_extra=extra, **limits)


def show_name(text: str) -> str:
    """A flow run's name out of its parameters, which anybody may have written: on one line, and nothing in it acts."""
    return shorten(visible(text), LONGEST_NAME)
