"""The trainer of an arm: its source, its versions and the Python that runs it."""

import sys
from pathlib import Path

from configs.comparison import Trainer
from configs.installed import installed_versions, source_digest, trainer_commit
from configs.schema import Frozen
from tasks.records import Commit
from tasks.resolve.ask_python import ask_python
from tasks.resolve.trainers.command import CustomCommand
from tasks.resolve.trainers.maxtext import MaxText

SOURCE = "trainer source"  # the entry of `versions` that is the digest of our own code


def versions_of(python: str) -> dict[str, str]:
    """The versions that a run by the interpreter `python` will import. Raises ConfigError if it cannot be asked."""
    if python == sys.executable:
        return installed_versions()
    return ask_python(python).versions


class TrainerSource(Frozen):
    """The trainer of an arm: its source, and the Python that runs it. Without a folder it is the one installed here."""

    commit: str | None
    dirty: bool
    versions: dict[str, str]
    ref: str | None = None  # as the user named the commit
    repository: str | None = None  # where that was looked up, unless here
    commits: tuple[Commit, ...] = ()  # those that lead to it and not to the other arm's
    folder: str | None = None
    python: str = sys.executable
    software: tuple[str, ...] = ()  # what this arm declares apart from the other, e.g. "jax==0.11.0"
    # the trainer, if it is not ours
    maxtext: MaxText | None = None
    command: CustomCommand | None = None

    @property
    def trainer(self) -> Trainer:
        """Whose trainer it is."""
        return "maxtext" if self.maxtext else "command" if self.command else "maxview"


def read_trainer_source(root: Path, python: str = sys.executable, *, sha: str | None = None) -> TrainerSource:
    """The commit, the versions and the source digest of the trainer in the folder `root`, run by `python`.

    sha: the commit, where the folder holds exactly its files.
    """
    commit, dirty = (sha, False) if sha else trainer_commit(root)
    versions = versions_of(python) | {SOURCE: source_digest(root)[:12]}
    return TrainerSource(commit=commit, dirty=dirty, versions=versions, python=python)
