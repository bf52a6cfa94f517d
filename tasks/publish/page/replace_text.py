"""Writes the files of a page, which can be recomputed from records."""

from collections.abc import Iterable
from pathlib import Path

from tasks.store.atomic import write_bytes_atomically


def replace_text(path: Path, text: str) -> None:
    """Write a text atomically, but without syncing the disk. Raises StoreError.

    If a power cut damages a page, remove it, and `maxview site build` draws it again; an empty page has no stamp, so it
    need not be removed.
    """
    data = text.encode()
    if not path.is_file() or path.read_bytes() != data:  # most files are unchanged; a rename would wait for the disk
        replace_bytes(path, data)


def replace_bytes(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write bytes, or pieces of them, in the same way."""
    write_bytes_atomically(path, data, sync=False, hint=" with --out")
