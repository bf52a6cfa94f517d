"""Loads the templates of the pages in a Jinja environment that escapes all text, and their scripts and styles."""

import base64
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import BytecodeCache, Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tasks.records.text import visible
from tasks.store.mirror import working_copies

COMPILED = ".templates"  # folder of compiled templates, beside the working copies of buckets

TEMPLATES = Path(__file__).parents[1] / "templates"


def make_environment(*folders: Path, **known: Any) -> Environment:
    """Return an environment that escapes all values and fails on undefined names.

    folders: folders with templates, beside the shared ones. known: name → global value.
    """
    environment = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_find_cache(),
    )
    environment.filters["visible"] = visible
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # spaces would be a tenth of the index page
    environment.globals.update(known)
    return environment


def _find_cache() -> BytecodeCache | None:
    """Return the cache of compiled templates, whose compilation takes longer than a page; None if it is not writable.

    Jinja recompiles a template whose text has changed.
    """
    folder = working_copies() / COMPILED
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None


@cache
def read_asset(name: str | Path) -> str:
    """Return the text of a script or style sheet: a name in `templates/`, or a path."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def load_assets(*scripts: str | Path, styles: Sequence[str | Path] = ("page.css",)) -> dict[str, str]:
    """Return the joined scripts and styles of a page, and their hashes for its content security policy.

    Each is a name in `templates/`, or a path.
    """
    script, style = ("".join(map(read_asset, names)) for names in (scripts, styles))
    return {
        "script": Markup(script), "script_hash": hash_of(script), "style": Markup(style), "style_hash": hash_of(style),
    }  # fmt: skip


def hash_of(text: str) -> str:
    """Return the hash by which a content security policy allows this script or style, and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
