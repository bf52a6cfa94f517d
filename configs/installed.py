"""Turns a folder with the trainer's source, and the Python that runs it, into the facts that tell its runs apart.

Another Python is asked by running this file (`tasks/resolve/ask_python.py`): it may lack everything but its standard
library.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# what JAX finds a kind of devices through, by its extra that brings it: one of them
PLUGINS = {"tpu": {"tpu": "libtpu"}, "cuda": {"cuda13": "jax-cuda13-plugin", "cuda12": "jax-cuda12-plugin"}}
PACKAGES = (
    "jax", "jaxlib", *PLUGINS["tpu"].values(), *PLUGINS["cuda"].values(),
    "flax", "optax", "orbax-checkpoint", "tensorstore", "numpy",
)  # fmt: skip
COMMIT_VARIABLE = "MAXVIEW_COMMIT"  # an image has no git; its build sets this


def trainer_commit(root: Path, source: Sequence[str] = ("model", "configs")) -> tuple[str | None, bool]:
    """(commit, dirty) of the git checkout at `root`, which holds the trainer; (None, False) if it is not one.

    source: the folders that are looked at for changes; empty: all of it.

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
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", *source))
    except (OSError, subprocess.CalledProcessError):
        return None, False  # no git on this machine, or no commit yet: the source's digest still tells runs apart


def source_digest(root: Path) -> str:
    """A hash over the trainer's source: what decides a run's outcome even between commits."""
    digest = hashlib.sha256()
    for path in sorted([*(root / "model").rglob("*.py"), *(root / "configs").glob("*.py")]):
        digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def installed_versions(more: Sequence[str] = ()) -> dict[str, str]:
    """The versions of the packages that a run imports and of `more`, Python included; those that are installed."""
    versions = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def find_folders(packages: Sequence[str]) -> dict[str, str]:
    """The folders of packages that are installed. Nothing is imported: that may take half a minute."""
    found = {package: importlib.util.find_spec(package) for package in packages}
    return {name: next(iter(spec.submodule_search_locations)) for name, spec in found.items()
            if spec is not None and spec.submodule_search_locations}  # fmt: skip


def machine_memory_gib() -> float:
    """The memory of this machine, which its processor's devices share; more than any run can have."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2.0**30


def describe_trainer() -> dict[str, Any]:
    """What this process itself runs, whatever plan it was started by: commit, dirtiness, source digest, versions."""
    root = Path(__file__).parent.parent
    commit, dirty = trainer_commit(root)
    return {
        "commit": commit or os.environ.get(COMMIT_VARIABLE) or None,
        "dirty": dirty,
        "source": source_digest(root),
        "versions": installed_versions(),
    }


if __name__ == "__main__":
    asked = sys.argv[1:]
    said = {"versions": installed_versions(sorted({name.lower() for name in asked})), "folders": find_folders(asked)}
    sys.stdout.write(json.dumps(said) + "\n")
