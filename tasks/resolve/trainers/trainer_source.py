"""The record of an arm's trainer: its source, its package versions and the Python that runs it."""

import sys
from pathlib import Path

from configs.comparison import Trainer
from configs.installed import installed_versions, source_digest, trainer_commit
from configs.schema import Frozen
from tasks.records import Commit
from tasks.resolve.ask_python import ask_python
from tasks.resolve.trainers.custom_command import CustomCommand
from tasks.resolve.trainers.maxtext import MaxText

SOURCE = "trainer source"  # key in `versions`: the digest of the trainer's own source


def versions_of(python: str) -> dict[str, str]:
    """Return the package versions of the interpreter `python`, by name. Raises ConfigError if it cannot be queried."""
    if python == sys.executable:
        return installed_versions()
    return ask_python(python).versions


class TrainerSource(Frozen):
    """The trainer of an arm: its source and the Python that runs it."""

    commit: str | None  # SHA; None: unknown
    dirty: bool  # there are uncommitted changes
    versions: dict[str, str]  # package → version; SOURCE → digest
    ref: str | None = None  # as the user named the commit; None: no ref
    repository: str | None = None  # folder or address with the ref; None: the installed trainer's checkout
    commits: tuple[Commit, ...] = ()  # the commits that the other arm lacks
    folder: str | None = None  # the checkout; None: the trainer is installed, or is a custom program in its own folder
    code: str = ""  # `digest_trainer` of `folder`; empty: unknown
    python: str = sys.executable
    software: tuple[str, ...] = ()  # declared differences from the other arm, e.g. "jax==0.11.0"
    # At most one of the two is set. If both are None, the trainer is maxview's.
    maxtext: MaxText | None = None
    command: CustomCommand | None = None

    @property
    def trainer(self) -> Trainer:
        """The kind of trainer, as a comparison's file names it."""
        return "maxtext" if self.maxtext else "command" if self.command else "maxview"


def read_trainer_source(root: Path, python: str = sys.executable, *, sha: str | None = None) -> TrainerSource:
    """Return maxview's trainer in the folder `root`, run by `python`, with its commit, versions and source digest.

    sha: the commit, if the folder is a clean checkout of it; None: git determines the commit.
    """
    commit, dirty = (sha, False) if sha else trainer_commit(root)
    versions = versions_of(python) | {SOURCE: source_digest(root)[:12]}
    return TrainerSource(commit=commit, dirty=dirty, versions=versions, python=python)
