"""Turns the plotly.js inside the installed plotly package into one file that all pages of an output folder share."""

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tasks.store.atomic import StoreError


def install_plotly(folder: Path) -> Path:
    """Copies `plotly-<version>.min.js` into `folder` unless it is there; returns its path.

    The package is found, not imported. Raises StoreError when it cannot be found or the folder not be written.
    """
    spec = importlib.util.find_spec("plotly")
    roots = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    source = next((p for root in roots if (p := root / "package_data" / "plotly.min.js").is_file()), None)
    if source is None:
        raise StoreError("plotly.min.js: not in the installed plotly package; run `uv sync --reinstall-package plotly`")
    target = folder / f"plotly-{importlib.metadata.version('plotly')}.min.js"
    if not target.is_file() or target.stat().st_size != source.stat().st_size:
        with source.open("rb") as read, replacing(target) as write:
            shutil.copyfileobj(read, write)
    return target


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write piece by piece that takes its name only when the block ends well. Raises StoreError."""
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with open(descriptor, "wb") as file:
            yield file
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror or error}); choose a folder that you can write to with --out"
        ) from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
