"""Checks or converts names from users, branches and logs, so that they are safe as names of folders in a store."""

import hashlib
import re

from tasks.store.atomic import StoreError

MAX_LENGTH = 100  # characters; a file name may have 255 bytes, so suffixes of temporary files fit

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_OTHER = re.compile(r"[^A-Za-z0-9._+-]+")


def check_name(name: str, what: str) -> str:
    """Return `name` if it can name a folder in the store, else raise StoreError. `what`: the kind of name, in words."""
    if not isinstance(name, str) or not _SAFE.fullmatch(name):
        raise StoreError(
            f"{what} {name!r} cannot name a folder: begin with a letter or digit and use only letters, digits "
            "and . _ + - (no slash, no space)"
        )
    if len(name) > MAX_LENGTH:
        raise StoreError(
            f"{what} {name[:20]!r}… has {len(name)} characters, at most {MAX_LENGTH} are possible: shorten it"
        )
    return name


def safe_name(text: str) -> str:
    """Return a folder name for any text, e.g. `feat/x` → `feat-x-3b5c7d1f`; a valid name is unchanged.

    Changed names end with eight hex digits of the text's SHA-256, so two branches do not share a folder.
    """
    if _SAFE.fullmatch(text) and len(text) <= MAX_LENGTH:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    words = _OTHER.sub("-", text).strip("-._+")[: MAX_LENGTH - 9].rstrip("-._+")
    return f"{words}-{digest}" if words else f"x-{digest}"
