"""Finds the trainer and the Python of an arm whose trainer is MaxText or a custom program."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from configs.comparison import Arm
from configs.custom_trainer import CommandTemplate
from configs.errors import ConfigError
from configs.installed import trainer_commit
from tasks.resolve.python_environments import make_environment, make_maxtext_environment
from tasks.resolve.trainers.custom_command import CustomCommand, digest_program
from tasks.resolve.trainers.maxtext import find_maxtext
from tasks.resolve.trainers.trainer_source import SOURCE, TrainerSource, versions_of

PYTHON_VARIABLE = "MAXVIEW_MAXTEXT_PYTHON"


def choose_python(arm: Arm, build: Callable[[], str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the interpreter for an arm (None: it chooses none) and its declared software differences, as texts.

    build: returns the interpreter of an environment with the arm's packages.
    """
    python, software = None, arm.packages
    if arm.packages:
        python = build()
    elif arm.python:
        # not resolved: a virtual environment's interpreter is a symbolic link to one outside the environment
        python, software = str(Path(arm.python).expanduser().absolute()), (f"python {arm.python}",)
    return python, (f"image {arm.image}",) if arm.image else software


def resolve_maxtext(arm: Arm, cache: Path, checkout: Path | None = None) -> TrainerSource:
    """Return the MaxText of an arm.

    Its environment is built in the folder `cache` from the arm's `packages`, or is the environment of the arm's
    `python`, else of $MAXVIEW_MAXTEXT_PYTHON. checkout: the checkout of the arm's ref, whose MaxText then runs in that
    environment. Raises ConfigError and SoftwareError, with the options to set.
    """
    python, software = choose_python(arm, lambda: make_maxtext_environment(arm.packages, cache))
    named = python or os.environ.get(PYTHON_VARIABLE)
    if not named:
        raise ConfigError(
            [
                f"{arm.name}: no MaxText is given. Install it with `--with {arm.name}:maxtext==0.2.5`, or name an "
                f"environment with `--with {arm.name}:/path/to/python` or `export {PYTHON_VARIABLE}=/path/to/python`; "
                "for nightly runs, set `packages` or `python` of the arm in the comparison's file"
            ]
        )
    maxtext = find_maxtext(Path(named).expanduser().absolute(), checkout)
    return TrainerSource(
        commit=None,
        dirty=False,
        versions=maxtext.versions | {SOURCE: maxtext.digest},
        folder=maxtext.source,
        python=maxtext.python,
        software=software,
        maxtext=maxtext,
    )


def resolve_custom_command(
    arm: Arm, template: CommandTemplate, cache: Path, checkout: Path | None = None
) -> TrainerSource:
    """Return the custom program of an arm, with the Python that replaces `{python}`: by default maxview's own.

    checkout: the clean checkout of its ref. Raises ConfigError and SoftwareError, with the options to set.
    """
    folder = checkout or Path(template.folder or "").expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError([f"{arm.name}: command.folder: {folder} is no folder"])
    python, software = choose_python(arm, lambda: make_environment(arm.packages, folder, cache))
    python = python or sys.executable
    if arm.command is not None:  # the arm's own command is a declared difference
        software = (*software, f"command {' '.join(template.argv)}")
    # A command without `{python}` uses an interpreter that is unknown here, with unknown package versions.
    versions = versions_of(python) if "python" in template.names else {}
    # A checkout has no .git, so the caller of this function adds the commit.
    commit, dirty = trainer_commit(folder, ()) if checkout is None else (None, False)
    return TrainerSource(
        commit=commit,
        dirty=dirty,
        versions=versions | {SOURCE: digest_program(folder, template)},
        folder=str(folder) if checkout is not None else None,
        python=python,
        software=software,
        command=CustomCommand(template=template, folder=str(folder), python=python),
    )
