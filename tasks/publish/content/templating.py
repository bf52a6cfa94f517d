"""The templates of the pages: one Jinja environment that escapes, and the scripts and styles that stand beside them."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tasks.records.text import visible


def make_environment(**known: Any) -> Environment:
    """Templates that escape what they are given and fail on a name that they lack; `known`: for all of them."""
    environment = Environment(
        loader=PackageLoader("tasks.publish"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # the blanks would be a tenth of a front
    environment.globals.update(known)
    return environment


@cache
def read_asset(name: str) -> str:
    """The text of a script or style sheet of ours."""
    return (Path(__file__).parents[1] / "templates" / name).read_text(encoding="utf-8")


def load_assets(*scripts: str, styles: Sequence[str] = ("page.css",)) -> dict[str, str]:
    """What a page's head and end take: its script and style, and what its policy names them by."""
    script, style = ("".join(map(read_asset, names)) for names in (scripts, styles))
    return {
        "script": Markup(script), "script_hash": hash_of(script), "style": Markup(style), "style_hash": hash_of(style),
    }  # fmt: skip


def hash_of(text: str) -> str:
    """What a page's policy names a script or a style by, so that it runs no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
