"""Tells whether a page was made of this very record in the way in which pages are made now."""

import hashlib
import re
from functools import cache
from pathlib import Path

HEAD = 4_000  # bytes of a page in which its stamp stands
_STAMP = re.compile(r'<meta name="maxview-stamp" content="([0-9a-f]+)">')


def is_current(page: Path, record: bytes) -> bool:
    """Whether the page was made of this record, in the way in which pages are made now."""
    try:
        with page.open("rb") as file:
            found = _STAMP.search(file.read(HEAD).decode("utf-8", "replace"))
    except FileNotFoundError:
        return False
    return found is not None and found[1] == make_stamp(record)


def make_stamp(record: bytes) -> str:
    """What stands in a page, that shows whether it is out of date: of its record, and of all that draws it."""
    return hashlib.sha256(_way().encode() + record).hexdigest()[:16]


@cache
def _way() -> str:
    """A word for the way in which pages are made."""
    files = sorted(
        path for path in Path(__file__).parents[1].rglob("*") if path.suffix in (".py", ".j2", ".js", ".css")
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
