"""Elements of Markdown and of Prefect's artifacts: keys, escaped texts, tables."""

import hashlib
import re
from collections.abc import Iterable, Sequence

from tasks.records.text import shorten, visible

MAX_KEY_LENGTH = 100  # characters
MAX_TEXT_LENGTH = 600  # characters of a text in an artifact; the page has the full text
_MARKDOWN = re.compile(r"([\\`*_\[\]|~])")


def artifact_key(*parts: str) -> str:
    """Return a Prefect artifact key for names: lowercase letters, digits and dashes, at most 100 characters.

    The names are joined by dashes. Underscores and dots become dashes: `01_base` gives `01-base`. If anything else is
    changed or cut off, a short hash is added, so that `feat/x` and `feat:x` do not overwrite each other.
    """
    wanted = "-".join(parts)
    key = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")
    if key == re.sub(r"[_.]", "-", wanted) and 0 < len(key) <= MAX_KEY_LENGTH:
        return key
    digest = hashlib.sha256(wanted.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{key[: MAX_KEY_LENGTH - 9].strip('-')}-{digest}".strip("-")


def escape_markdown(text: str) -> str:
    """Return the text for Markdown and its tables: shortened, and with escaped markup, HTML, links and `@name`."""
    escaped = _MARKDOWN.sub(r"\\\1", shorten(visible(text), MAX_TEXT_LENGTH))
    escaped = escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("://", ":&#47;&#47;").replace("www.", "www&#46;").replace("@", "&#64;")


def draw_table(heads: Sequence[str], alignment: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. alignment: one letter per column, l (left), r (right) or c (centre)."""
    marks = "|".join({"l": ":--", "r": "--:", "c": ":-:"}[side] for side in alignment)
    head, *others = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return "\n".join([head, f"|{marks}|", *others])
