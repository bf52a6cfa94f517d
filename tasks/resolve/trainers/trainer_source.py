"""The trainer of an arm: its source, its versions and the Python that runs it."""

import sys
from pathlib import Path

from configs.comparison import Trainer
from configs.installed import installed_versions, source_digest, trainer_commit
from configs.schema import Frozen
from tasks.records import Commit
from tasks.resolve.ask_python import ask_python
from tasks.resolve.trainers.custom_command import CustomCommand
from tasks.resolve.trainers.maxtext import MaxText

SOURCE = "trainer source"  # the entry of `versions` that is the digest of our own code


def versions_of(python: str) -> dict[str, str]:
    """Return the package versions of the interpreter `python`. Raises ConfigError if it cannot be queried."""
    if python == sys.executable:
        return installed_versions()
    return ask_python(python).versions


class TrainerSource(Frozen):
    """The trainer of an arm: its source and the Python that runs it. No folder: the trainer installed here."""

    commit: str | None
    dirty: bool
    versions: dict[str, str]
    ref: str | None = None  # as the user named the commit
    repository: str | None = None  # the ref's repository; None: the installed trainer's own
    commits: tuple[Commit, ...] = ()  # the commits that the other arm lacks
    folder: str | None = None
    code: str = ""  # digest of the code in `folder`, see `digest_trainer`; empty: unknown
    python: str = sys.executable
    software: tuple[str, ...] = ()  # declared differences from the other arm, e.g. "jax==0.11.0"
    # at most one of the two; without either it is our own trainer
    maxtext: MaxText | None = None
    command: CustomCommand | None = None

    @property
    def trainer(self) -> Trainer:
        """The kind of trainer."""
        return "maxtext" if self.maxtext else "command" if self.command else "maxview"


def read_trainer_source(root: Path, python: str = sys.executable, *, sha: str | None = None) -> TrainerSource:
    """Return the trainer in the folder `root`, run by `python`, with its commit, versions and source digest.

    sha: the commit, if the folder holds exactly its files.
    """
    commit, dirty = (sha, False) if sha else trainer_commit(root)
    versions = versions_of(python) | {SOURCE: source_digest(root)[:12]}
    return TrainerSource(commit=commit, dirty=dirty, versions=versions, python=python)
