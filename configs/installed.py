"""Identifies a trainer by its source folder and Python environment: commit, source digest, package versions.

Other Python interpreters run this file (`tasks/resolve/python_environments.py`), so it imports nothing but the
standard library.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

# kind of device → {extra of `jax` → the plugin package that it installs}; one package of a kind suffices
PLUGINS = {"tpu": {"tpu": "libtpu"}, "cuda": {"cuda13": "jax-cuda13-plugin", "cuda12": "jax-cuda12-plugin"}}
PACKAGES = (
    "jax", "jaxlib", *PLUGINS["tpu"].values(), *PLUGINS["cuda"].values(),
    "flax", "optax", "orbax-checkpoint", "tensorstore", "numpy",
)  # fmt: skip
COMMIT_VARIABLE = "MAXVIEW_COMMIT"  # set when an image is built, because the image has no git checkout


def trainer_commit(root: Path, source: Sequence[str] = ("model", "configs")) -> tuple[str | None, bool]:
    """Return (commit, dirty) of the trainer's git checkout at `root`; (None, False) if there is none or git fails.

    dirty: there are uncommitted changes in the folders `source` (empty: anywhere).
    A checkout in a parent folder is ignored: a virtual environment inside another project is not that project.
    """
    if not (root / ".git").exists():
        return None, False
    # If a git hook started this process, GIT_* variables point to the hook's repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}

    def git(*words: str) -> str:
        argv = ["git", "-C", str(root), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", *source))
    except (OSError, subprocess.CalledProcessError):
        return None, False  # no git, or no commit yet; the source digest still identifies the trainer


def source_digest(root: Path) -> str:
    """Return a hash over the Python files of maxview's trainer in `root`; uncommitted changes change it too."""
    return digest_files(root, [*(root / "model").rglob("*.py"), *(root / "configs").glob("*.py")])


def digest_files(root: Path, paths: Iterable[Path]) -> str:
    """Return a hash over the contents of files and their paths relative to `root`."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{os.path.relpath(path, root)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def installed_versions(more: Sequence[str] = ()) -> dict[str, str]:
    """Return the versions of Python and of each installed package in PACKAGES and `more`, by name."""
    versions = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def find_folders(packages: Sequence[str]) -> dict[str, str]:
    """Return the folder of each installed package in `packages`, by name, without importing the packages."""
    found = {package: importlib.util.find_spec(package) for package in packages}
    return {name: next(iter(spec.submodule_search_locations)) for name, spec in found.items()
            if spec is not None and spec.submodule_search_locations}  # fmt: skip


def machine_memory_gib() -> float:
    """Return the physical memory of this machine in GiB, an upper bound for CPU runs."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2.0**30


def describe_trainer() -> dict[str, Any]:
    """Describe the trainer installed with this file: commit (None: unknown), dirty or not, source digest, versions."""
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
