"""The names of flow runs in Prefect's user interface."""

import re
from collections.abc import Callable
from functools import wraps

from prefect.runtime import flow_run

from tasks.records.text import shorten, visible

MAX_NAME_LENGTH = 400  # characters: enough for a name that lists all cases of a comparison
GENERATED = re.compile(r"[a-z]+-[a-z]+")  # a random name by Prefect or its run form, such as witty-otter


def unless_named(describe: Callable[[], str]) -> Callable[[], str]:
    """Return a function that returns the name of the current flow run.

    The name is the user's, e.g. from the run form. A name like those that Prefect generates (GENERATED) is replaced by
    the result of `describe`.
    """

    @wraps(describe)
    def name() -> str:
        given = flow_run.name
        return describe() if not given or GENERATED.fullmatch(given) else show_name(given)

    return name


def show_name(text: str) -> str:
    """Return an untrusted text as a flow run's name: one line, shortened, control characters made visible."""
    return shorten(visible(text), MAX_NAME_LENGTH)
