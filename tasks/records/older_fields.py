"""Reads records of older stores, which have fields that no reader used."""

from typing import Any

from pydantic import model_validator


def ignore_older(*names: str) -> Any:
    """Return a validator that ignores these fields of a stored record."""

    def drop(value: Any) -> Any:
        return {key: item for key, item in value.items() if key not in names} if isinstance(value, dict) else value

    return model_validator(mode="before")(drop)
