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
        other = (
            f"{path}: cannot be written ({error.strerror or error}); choose a folder that you can write to with --out"
        )
        raise StoreError(explain_full(path, error) or other) from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


def replace_text(path: Path, text: str) -> None:
    """A text that follows from records, whole or not at all. It is not waited for until it is on the disk: what a power
    cut takes of a page, `maxview site build` draws again once the page is removed. Raises StoreError.

    A page that a power cut leaves empty has no stamp, and is drawn again at once."""
    data = text.encode()
    if path.is_file() and path.read_bytes() == data:  # most of what is drawn again: a new name waits for the disk
        return
    with replacing(path) as file:
        file.write(data)
