"""The templates of the pages: one Jinja environment that escapes, and the scripts and styles that stand beside them."""

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

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


def hash_of(text: str) -> str:
    """What a page's policy names a script or a style by, so that it runs no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
