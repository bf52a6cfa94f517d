"""Converts polars tables to JSON objects with columns and their types, and back without loss."""

from typing import Any

import polars as pl

from tasks.records import number_from_json, number_to_json
from tasks.store.atomic import StoreError

_FLAT: dict[str, pl.DataType] = {
    str(dtype): dtype
    for dtype in (
        *(pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt64()),
        *(pl.Float32(), pl.Float64(), pl.String(), pl.Boolean(), pl.Null()),
    )
}


def frame_to_json(frame: pl.DataFrame) -> dict[str, Any]:
    """Return `{"rows": n, "types": {column: type}, "columns": {column: [values]}}`; NaN and infinities become strings.

    Raises StoreError for column types that JSON cannot represent (dates, binary, categories).
    """
    return {
        "rows": frame.height,  # a table without columns still has a height
        "types": {name: _type_to_json(name, dtype) for name, dtype in frame.schema.items()},
        "columns": {column.name: _map_floats(column.to_list(), column.dtype, number_to_json) for column in frame},
    }


def frame_from_json(value: dict[str, Any]) -> pl.DataFrame:
    """Return the table that `frame_to_json` converted. Raises KeyError, TypeError, ValueError or PolarsError for
    invalid values."""
    types = {name: _type_from_json(dtype) for name, dtype in value["types"].items()}
    columns = value["columns"]
    if list(columns) != list(types):
        raise ValueError(f"columns {list(columns)} do not match their types {list(types)}")
    series = [
        pl.Series(name, _map_floats(columns[name], dtype, number_from_json), dtype=dtype, strict=True)
        for name, dtype in types.items()
    ]
    for column in series:
        if len(column) != value["rows"]:
            raise ValueError(f"column {column.name} has {len(column)} of {value['rows']} rows")
    return pl.DataFrame(series)


def _type_to_json(name: str, dtype: pl.DataType) -> Any:
    if isinstance(dtype, pl.List):
        return {"list": _type_to_json(name, dtype.inner)}  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return {"struct": {field.name: _type_to_json(name, field.dtype) for field in dtype.fields}}  # type: ignore[arg-type]
    if str(dtype) not in _FLAT:
        raise StoreError(
            f"column {name!r} has the type {dtype}, which a record cannot hold: turn it into text or numbers"
        )
    return str(dtype)


def _type_from_json(value: Any) -> pl.DataType:
    if isinstance(value, dict):
        if set(value) == {"list"}:
            return pl.List(_type_from_json(value["list"]))
        if set(value) == {"struct"}:
            return pl.Struct({k: _type_from_json(v) for k, v in value["struct"].items()})
    if not isinstance(value, str) or value not in _FLAT:
        raise ValueError(f"unknown column type {value!r}")
    return _FLAT[value]


def _map_floats(values: list[Any] | None, dtype: Any, change: Any) -> Any:
    """Return a column's values with `change` applied to all floats, also within lists and structs."""
    if values is None:
        return None
    if dtype.is_float():
        return [change(value) for value in values]
    if isinstance(dtype, pl.List):
        return [_map_floats(value, dtype.inner, change) for value in values]
    if isinstance(dtype, pl.Struct):
        return [
            v and {field.name: _map_floats([v[field.name]], field.dtype, change)[0] for field in dtype.fields}
            for v in values
        ]
    return values
