"""The record of an arm's trainer, `TrainerSource`, made for maxview's trainer, MaxText or a custom program.

An arm is one of the two compared versions.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from configs.comparison import Arm, Trainer
from configs.custom_trainer import CommandTemplate
from configs.errors import ConfigError
from configs.installed import installed_versions, source_digest, trainer_commit
from configs.schema import Frozen
from tasks.records import CodeVersion, Commit
from tasks.resolve.python_environments import ask_python, make_environment, make_maxtext_environment
from tasks.resolve.trainers.custom_command import CustomCommand, digest_program
from tasks.resolve.trainers.maxtext import MaxText, find_maxtext

PYTHON_VARIABLE = "MAXVIEW_MAXTEXT_PYTHON"  # environment variable: path of a Python that has MaxText
SOURCE = "trainer source"  # key in `versions`: the digest of the trainer's own source


def versions_of(python: str) -> dict[str, str]:
    """Return the package versions of the interpreter `python`, by name. Raises ConfigError if it cannot be queried."""
    if python == sys.executable:
        return installed_versions()
    return ask_python(python).versions


class TrainerSource(Frozen):
    """The trainer of an arm: its source, its package versions and the Python that runs it."""

    commit: str | None  # SHA; None: unknown
    dirty: bool  # there are uncommitted changes
    versions: dict[str, str]  # package → version; SOURCE → digest
    ref: str | None = None  # as the user named the commit, or the name of a working tree; None: no ref
    tree: str = ""  # git's hash of the checkout's files; empty: no ref
    version: CodeVersion | None = None  # of the checkout, for display; None: no ref
    repository: str | None = None  # folder or address with the ref; None: no ref, or maxview's checkout
    commits: tuple[Commit, ...] = ()  # ancestors of `commit` that the other arm lacks
    # The checkout, or the folder in it from which MaxText is imported. None: the trainer is installed, or is a custom
    # program in its own folder.
    folder: str | None = None
    code: str = ""  # `digest_trainer` of `folder`; empty: unknown
    python: str = sys.executable
    software: tuple[str, ...] = ()  # declared differences from the other arm, e.g. "jax==0.11.0"
    # At most one of these two fields is set. If both are None, the trainer is maxview's.
    maxtext: MaxText | None = None
    command: CustomCommand | None = None

    @property
    def kind(self) -> Trainer:
        """The kind of trainer, as a comparison's file names it."""
        return "maxtext" if self.maxtext else "command" if self.command else "maxview"


def read_trainer_source(root: Path, python: str = sys.executable, *, sha: str | None = None) -> TrainerSource:
    """Return maxview's trainer in the folder `root`, run by `python`, with its commit, versions and source digest.

    sha: the commit, if the folder is a clean checkout of it; None: git determines the commit.
    """
    commit, dirty = (sha, False) if sha else trainer_commit(root)
    versions = versions_of(python) | {SOURCE: source_digest(root)[:12]}
    return TrainerSource(commit=commit, dirty=dirty, versions=versions, python=python)


def choose_python(arm: Arm, build: Callable[[], str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the arm's interpreter (None: the arm names none) and its declared software differences, as texts.

    build: returns the interpreter of an environment with the arm's packages.
    """
    python, software = None, arm.packages
    if arm.packages:
        python = build()
    elif arm.python:
        # Links are not resolved: a virtual environment's Python is a symbolic link to one outside of the environment.
        python, software = str(Path(arm.python).expanduser().absolute()), (f"python {arm.python}",)
    return python, (f"image {arm.image}",) if arm.image else software


def resolve_maxtext(arm: Arm, cache: Path, checkout: Path | None = None) -> TrainerSource:
    """Return the MaxText of an arm.

    Its environment is built in the folder `cache` from the arm's `packages`. Without packages, it is the environment of
    the arm's `python`, else of $MAXVIEW_MAXTEXT_PYTHON. checkout: the checkout of the arm's ref, whose MaxText then
    runs in that environment. Raises ConfigError, and SoftwareError if the build fails.
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

    checkout: the clean checkout of the arm's ref; None: the program is in the template's folder. Raises ConfigError,
    and SoftwareError if an environment cannot be built.
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
    # A checkout has no .git: the caller adds its commit.
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
