"""Writes a file piece by piece under a name that it takes only when it is whole."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tasks.store.atomic import StoreError
from tasks.store.disk import explain_full


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that gets its name only if the block ends without an error. Raises StoreError."""
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
        other = (
            f"{path}: cannot be written ({error.strerror or error}); choose a folder that you can write to with --out"
        )
        raise StoreError(explain_full(path, error) or other) from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


def replace_text(path: Path, text: str) -> None:
    """Write a text that can be recomputed from records, atomically. Raises StoreError.

    Does not sync the disk. If a power cut damages a page, remove it, and `maxview site build` draws it again; an empty
    page has no stamp, so it need not be removed.
    """
    data = text.encode()
    if path.is_file() and path.read_bytes() == data:  # the usual case; renaming a new file would wait for the disk
        return
    with replacing(path) as file:
        file.write(data)
