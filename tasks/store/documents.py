"""Reads and writes JSON files; errors name the damaged file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from tasks.store.atomic import StoreError

REMEDY = "move it away to have it made again"


def model_from_json[M: BaseModel](model: TypeAdapter[M] | type[M]) -> Callable[[str, str], M]:
    """Return a function (text, file name) → record that reads the text of `model_to_json`, and raises StoreError."""
    adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)

    def parse(text: str, name: str) -> M:
        try:
            return adapter.validate_python(load_json(text, name))
        except ValidationError as error:
            raise StoreError(f"{name}: is damaged or of another version: {describe_errors(error)}; {REMEDY}") from error

    return parse


def read_document[T](path: Path, parse: Callable[[str, str], T]) -> T | None:
    """Return `parse(content, path)` of a file; None if the file is missing. Raises StoreError if it is unreadable."""
    if path.exists() and not path.is_file():
        raise StoreError(f"{path}: is a pipe, a device or a folder, not a file; remove it")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise StoreError(f"{path}: is damaged: invalid UTF-8 at byte {error.start}; {REMEDY}") from error
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror or error}); check the folder's rights") from error
    return parse(text, str(path))


def dump_json(value: Any, indent: int | None = 1) -> str:
    """Return JSON in ASCII with a final line break. Raises ValueError for NaN and infinities."""
    return json.dumps(value, indent=indent, allow_nan=False) + "\n"


def load_json(text: str, name: str) -> dict[str, Any]:
    """Return the JSON object in `text`. Raises StoreError naming the file `name` if `text` is no JSON object."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise StoreError(f"{name}: is not valid JSON ({error}); {REMEDY}") from error
    except ValueError as error:  # Python refuses to convert integers with thousands of digits
        raise StoreError(f"{name}: contains a number that maxview never writes ({error}); {REMEDY}") from error
    except RecursionError as error:
        raise StoreError(f"{name}: is nested deeper than any file of maxview; {REMEDY}") from error
    if not isinstance(value, dict):
        raise StoreError(f"{name}: holds a {type(value).__name__}, not an object; {REMEDY}")
    return value


def describe_errors(error: ValidationError) -> str:
    """Return the first three errors of pydantic, each as `key: message`, and the number of the others, if any."""
    details = error.errors(include_url=False)
    texts = [f"{'.'.join(map(str, d['loc']))}: {d['msg']}" for d in details[:3]]
    return "; ".join(texts) + (f"; and {len(details) - 3} more" if len(details) > 3 else "")
