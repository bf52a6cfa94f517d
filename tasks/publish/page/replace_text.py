"""Writes the files of a page without syncing the disk, because a lost page can be drawn again from its record."""

from collections.abc import Iterable
from pathlib import Path

from tasks.store.atomic import write_bytes_atomically


def replace_text(path: Path, text: str) -> None:
    """Write a text atomically, but without syncing the disk, unless the file already has it. Raises StoreError.

    A power cut can damage a page. Remove it, and `maxview site build` draws it again. A page that became empty has no
    stamp and is drawn again without being removed.
    """
    data = text.encode()
    if not path.is_file() or path.read_bytes() != data:  # most files are unchanged; a rename would wait for the disk
        replace_bytes(path, data)


def replace_bytes(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write bytes, or chunks of bytes, atomically, but without syncing the disk. Raises StoreError."""
    write_bytes_atomically(path, data, sync=False, hint=" with --out")
