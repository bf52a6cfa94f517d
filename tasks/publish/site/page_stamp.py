"""Makes and checks the stamp of a page: a digest of its record and of the code and templates that drew it."""

import hashlib
import re
from functools import cache
from pathlib import Path

HEAD = 4_000  # the stamp is in the first bytes of a page
_STAMP = re.compile(r'<meta name="maxview-stamp" content="([0-9a-f]+)">')


def is_current(page: Path, record: bytes) -> bool:
    """Return whether the page exists and was drawn from this record by the current code and templates."""
    try:
        with page.open("rb") as file:
            found = _STAMP.search(file.read(HEAD).decode("utf-8", "replace"))
    except FileNotFoundError:
        return False
    return found is not None and found[1] == make_stamp(record)


def make_stamp(record: bytes) -> str:
    """Return the stamp of a page that the current code and templates draw from this record."""
    return hashlib.sha256(_digest_drawing().encode() + record).hexdigest()[:16]


@cache
def _digest_drawing() -> str:
    """Return the digest of all code, templates, scripts and styles in tasks/publish."""
    files = sorted(
        path for path in Path(__file__).parents[1].rglob("*") if path.suffix in (".py", ".j2", ".js", ".css")
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
