"""Describes the options of flows for Prefect's run form, as keys of pydantic's JSON schema."""

from typing import Any

from pydantic import Field

from configs.names import Kind, list_names


def doc(description: str, **schema: Any) -> Any:
    """Return a pydantic field with its help text, and the keys `schema` in its JSON schema.

    Prefect 3.8 overwrites a field's description with the docstring's, but keeps the extra keys of its schema.
    """
    return Field(description=description, json_schema_extra={"description": description} | schema)


def dropdown(kind: Kind, *more: str) -> dict[str, Any]:
    """Return the JSON schema of a dropdown: the words `more`, then the names of the files in configs/KIND."""
    return {"type": "string", "enum": [*more, *list_names(kind)]}


def or_empty(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a field that may be left empty."""
    return {"anyOf": [schema, {"type": "null"}]}


def number_fields(schema: dict[str, Any]) -> None:
    """Add a position to each field of a group's JSON schema: Prefect's database does not store the fields' order."""
    for position, field in enumerate(schema["properties"].values()):
        field["position"] = position
