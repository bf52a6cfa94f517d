"""Turns the trainer as it is installed into the facts that tell its runs apart: commit, versions, source, identity."""

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.schema import Frozen

PACKAGES = ("jax", "jaxlib", "libtpu", "flax", "optax", "orbax-checkpoint", "tensorstore", "numpy")
SOURCE = "trainer source"  # the entry of `versions` that is the digest of our own code
NAME_LENGTH = 64  # of a run's name


def trainer_commit(root: Path) -> tuple[str | None, bool]:
    """(commit, dirty) of the git checkout at `root`, which holds the trainer; (None, False) if it is not one.

    A checkout further up is not asked: an environment inside somebody else's project would pass for that project.
    """
    if not (root / ".git").exists():
        return None, False
    # inside a git hook these name another repository
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}

    def git(*words: str) -> str:
        argv = ["git", "-C", str(root), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", "model", "configs"))
    except (OSError, subprocess.CalledProcessError):
        return None, False  # no git on this machine, or no commit yet: the source's digest still tells runs apart


def source_digest(root: Path) -> str:
    """A hash over the trainer's source: what decides a run's outcome even between commits."""
    digest = hashlib.sha256()
    for path in sorted([*(root / "model").rglob("*.py"), *(root / "configs").glob("*.py")]):
        digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def installed_versions() -> dict[str, str]:
    """The versions of the packages that a run imports, Python included."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
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
    """The trainer as it is installed here: the same for every run of a request."""

    commit: str | None
    dirty: bool
    versions: dict[str, str]


def read_checkout(root: Path) -> Checkout:
    """The commit, the versions and the source digest of the trainer in the folder `root`."""
    commit, dirty = trainer_commit(root)
    versions = installed_versions() | {SOURCE: source_digest(root)[:12]}
    return Checkout(commit=commit, dirty=dirty, versions=versions)
