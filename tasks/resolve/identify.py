"""Turns a trainer, installed or checked out, into the facts that tell its runs apart, and these into an identity."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.comparison import Trainer
from configs.environment import pass_on
from configs.errors import ConfigError
from configs.installed import PACKAGES, installed_versions, source_digest, trainer_commit
from configs.schema import Frozen
from tasks.trainers.command import AnyCommand
from tasks.trainers.maxtext import MaxText

SOURCE = "trainer source"  # the entry of `versions` that is the digest of our own code
NAME_LENGTH = 64  # of a run's name
ASK_TIMEOUT_S = 60.0
# read where the other Python is: it may lack everything but its standard library
VERSIONS_CODE = """
import importlib.metadata, json, platform, sys
versions = {"python": platform.python_version()}
for package in sys.argv[1:]:
    try:
        versions[package] = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""


def versions_of(python: str) -> dict[str, str]:
    """The versions that a run by the interpreter `python` will import. Raises ConfigError if it cannot be asked."""
    if python == sys.executable:
        return installed_versions()
    argv = [python, "-I", "-c", VERSIONS_CODE, *PACKAGES]
    try:  # what an arm has installed may run as it starts
        done = subprocess.run(
            argv, capture_output=True, text=True, check=True, timeout=ASK_TIMEOUT_S, env=pass_on(os.environ)
        )
        versions: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise ConfigError([f"{python}: is no Python that tells its packages ({error})"]) from error
    return versions


def hash_identity(facts: Mapping[str, Any]) -> str:
    """The run's identity: equal facts, equal hash, on every machine."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def name_run(case: str, arm: str, repeat: int, identity: str) -> str:
    """A folder's name that people recognise, of at most NAME_LENGTH characters."""
    words, end = f"{case}-{arm}", f"-r{repeat}-{identity[:10]}"
    room = NAME_LENGTH - len(end)
    if len(words) > room:
        words = f"{words[: room - 9]}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
    return words + end


class Checkout(Frozen):
    """The trainer of an arm: its source, and the Python that runs it. Without a folder it is the one installed here."""

    commit: str | None
    dirty: bool
    versions: dict[str, str]
    ref: str | None = None  # as the user named the commit
    repository: str | None = None  # where that was looked up, unless here
    folder: str | None = None
    python: str = sys.executable
    software: tuple[str, ...] = ()  # what this arm declares apart from the other, e.g. "jax==0.11.0"
    # the trainer, if it is not ours
    maxtext: MaxText | None = None
    command: AnyCommand | None = None

    @property
    def trainer(self) -> Trainer:
        """Whose trainer it is."""
        return "maxtext" if self.maxtext else "command" if self.command else "maxview"


def read_checkout(root: Path, python: str = sys.executable, *, sha: str | None = None) -> Checkout:
    """The commit, the versions and the source digest of the trainer in the folder `root`, run by `python`.

    sha: the commit, where the folder holds exactly its files.
    """
    commit, dirty = (sha, False) if sha else trainer_commit(root)
    versions = versions_of(python) | {SOURCE: source_digest(root)[:12]}
    return Checkout(commit=commit, dirty=dirty, versions=versions, python=python)
