"""Turns what an arm asks for into the MaxText that it runs: an installed one, one built with uv, or a git checkout."""

import os
from collections.abc import Mapping
from pathlib import Path

from configs.comparison import Arm
from configs.errors import ConfigError
from tasks.resolve.identify import SOURCE, Checkout
from tasks.resolve.software import make_maxtext_environment
from tasks.trainers.maxtext import find_maxtext

PYTHON_VARIABLE = "MAXVIEW_MAXTEXT_PYTHON"


def place_maxtext(
    arm: Arm, cache: Path, checkout: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Checkout:
    """The MaxText of an arm, in the environment that it names or that is built for it in the folder `cache`.

    checkout: the clean checkout of its ref, whose source then runs in that environment. Raises ConfigError and
    SoftwareError, which say what to type.
    """
    software: tuple[str, ...] = ()
    if arm.packages:
        python, software = make_maxtext_environment(arm.packages, cache), arm.packages
    elif arm.python:
        python, software = arm.python, (f"python {arm.python}",)
    else:
        python = _python_of(arm, environ)
    # never resolved: that of a virtual environment is a link
    maxtext = find_maxtext(Path(python).expanduser().absolute(), checkout)
    if arm.image:
        software = (f"image {arm.image}",)
    return Checkout(
        commit=None,
        dirty=False,
        versions=maxtext.versions | {SOURCE: maxtext.digest},
        folder=maxtext.source,
        python=maxtext.python,
        software=software,
        maxtext=maxtext,
    )


def _python_of(arm: Arm, environ: Mapping[str, str]) -> str:
    named = environ.get(PYTHON_VARIABLE)
    if not named:
        raise ConfigError(
            [
                f"{arm.name}: which MaxText? Say `--with {arm.name}:maxtext==0.2.5` and it is installed, "
                f"`--with {arm.name}:/path/to/python` where it is, or `export {PYTHON_VARIABLE}=/path/to/python`"
            ]
        )
    return named
