"""Converts records and their polars tables to standard JSON and back.

A run record is `{"document", "version", "record", "frames", "not_finite"}`. `record` has no tables; `frames` contains
the tables by column with types. `not_finite` lists JSON pointers to the strings in `record` that stand for NaN or
infinities.
"""

from typing import Any

import polars as pl
from pydantic import BaseModel, ValidationError

from tasks.records.json_numbers import number_from_json, number_to_json
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.store.atomic import StoreError
from tasks.store.documents import REMEDY, describe_errors, dump_json, load_json

VERSION = 1  # of a run record's format
_DOCUMENT = "maxview run record"
# name in JSON → column type, without lists and structs
_FLAT: dict[str, pl.DataType] = {
    str(dtype): dtype
    for dtype in (
        *(pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt64()),
        *(pl.Float32(), pl.Float64(), pl.String(), pl.Boolean(), pl.Null()),
    )
}


def run_record_to_json(record: RunRecord) -> str:
    """Return the text of `record.json`."""
    not_finite: list[str] = []
    fields = record.model_dump(exclude={"reading": {"steps"}, "metrics": True})
    document = {
        "document": _DOCUMENT,
        "version": VERSION,
        "record": _without_non_finite(fields, "", not_finite),
        "frames": {
            "steps": frame_to_json(record.reading.steps),
            "metrics": None if record.metrics is None else frame_to_json(record.metrics),
        },
        "not_finite": not_finite,
    }
    return dump_json(document, indent=None)


def run_record_from_json(text: str, name: str) -> RunRecord:
    """Return the record in `text`. Raises StoreError naming the file `name` if it is damaged or of another version."""
    document = load_json(text, name)
    if document.get("document") != _DOCUMENT:
        raise StoreError(f"{name}: is not a run record; {REMEDY}")
    if document.get("version") != VERSION:
        raise StoreError(
            f"{name}: is a run record of version {document.get('version')!r}, "
            f"this maxview reads version {VERSION}; {REMEDY}"
        )
    try:
        fields: dict[str, Any] = document["record"]
        for pointer in document["not_finite"]:
            _restore_number(fields, pointer)
        metrics = document["frames"]["metrics"]
        fields["reading"]["steps"] = frame_from_json(document["frames"]["steps"])
        fields["metrics"] = None if metrics is None else frame_from_json(metrics)
        return RunRecord.model_validate(fields)
    except ValidationError as error:
        raise StoreError(f"{name}: is damaged or of another version: {describe_errors(error)}; {REMEDY}") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
        raise StoreError(f"{name}: is damaged ({type(error).__name__}: {error}); {REMEDY}") from error


def model_to_json(model: BaseModel) -> str:
    """Return the JSON text of a record other than a run record.

    NaN and infinities become strings, which only float fields convert back. Raises StoreError for such a number in a
    run's plan, because config values have no declared type.
    """
    not_finite: list[str] = []
    text = dump_json(_without_non_finite(model.model_dump(), "", not_finite))
    if isinstance(model, RunPlan) and not_finite:
        raise StoreError(f"{not_finite[0][1:].replace('/', '.')} is not a finite number: give it a finite value")
    return text


def _without_non_finite(value: Any, pointer: str, pointers: list[str]) -> Any:
    """Return `value` with NaN and infinities as strings; appends their JSON pointers (RFC 6901) to `pointers`."""
    if isinstance(value, float):
        written = number_to_json(value)
        if isinstance(written, str):
            pointers.append(pointer)
        return written
    if isinstance(value, dict):
        return {k: _without_non_finite(v, f"{pointer}/{_escape(str(k))}", pointers) for k, v in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)  # of strings, numbers or pairs of them
    if isinstance(value, list | tuple):
        return [_without_non_finite(v, f"{pointer}/{i}", pointers) for i, v in enumerate(value)]
    return value


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _restore_number(fields: Any, pointer: str) -> None:
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    parent = fields
    for key in keys[:-1]:
        parent = parent[int(key)] if isinstance(parent, list) else parent[key]
    last: Any = int(keys[-1]) if isinstance(parent, list) else keys[-1]
    parent[last] = number_from_json(parent[last])


def frame_to_json(frame: pl.DataFrame) -> dict[str, Any]:
    """Return `{"rows": n, "types": {column: type}, "columns": {column: [values]}}`; NaN and infinities become strings.

    Raises StoreError for other column types than _FLAT, lists and structs, for example dates.
    """
    return {
        "rows": frame.height,  # a table without columns still has a height
        "types": {name: _type_to_json(name, dtype) for name, dtype in frame.schema.items()},
        "columns": {column.name: _map_floats(column.to_list(), column.dtype, number_to_json) for column in frame},
    }


def frame_from_json(value: dict[str, Any]) -> pl.DataFrame:
    """Return the table that `frame_to_json` converted. Raises KeyError, TypeError, ValueError or PolarsError for
    invalid values.
    """
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
