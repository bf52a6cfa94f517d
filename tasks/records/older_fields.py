"""Lets records load files of older versions, which contain fields that no longer exist."""

from typing import Any

from pydantic import model_validator


def ignore_older(*names: str) -> Any:
    """Return a pydantic validator that drops the fields `names` from a stored record."""

    def drop(value: Any) -> Any:
        return {key: item for key, item in value.items() if key not in names} if isinstance(value, dict) else value

    return model_validator(mode="before")(drop)
