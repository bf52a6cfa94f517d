"""Identifies a trainer by its source folder and Python environment: commit, source digest, package versions.

To query another Python, `tasks/resolve/ask_python.py` runs this file there, so it needs only the standard library.
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

# JAX's plugin packages by kind of device, and by the extra that installs them; one suffices
PLUGINS = {"tpu": {"tpu": "libtpu"}, "cuda": {"cuda13": "jax-cuda13-plugin", "cuda12": "jax-cuda12-plugin"}}
PACKAGES = (
    "jax", "jaxlib", *PLUGINS["tpu"].values(), *PLUGINS["cuda"].values(),
    "flax", "optax", "orbax-checkpoint", "tensorstore", "numpy",
)  # fmt: skip
COMMIT_VARIABLE = "MAXVIEW_COMMIT"  # an image has no git; its build sets this


def trainer_commit(root: Path, source: Sequence[str] = ("model", "configs")) -> tuple[str | None, bool]:
    """Return (commit, dirty) of the trainer's git checkout at `root`; (None, False) if it is not a checkout.

    source: the folders checked for changes; empty for all.

    Parent folders do not count: an environment inside another project would be taken for that project.
    """
    if not (root / ".git").exists():
        return None, False
    # git hooks set these to another repository
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}

    def git(*words: str) -> str:
        argv = ["git", "-C", str(root), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", *source))
    except (OSError, subprocess.CalledProcessError):
        return None, False  # no git, or no commit yet; the source digest still identifies the trainer


def source_digest(root: Path) -> str:
    """Return a hash over the trainer's source, which identifies it between commits too."""
    return digest_files(root, [*(root / "model").rglob("*.py"), *(root / "configs").glob("*.py")])


def digest_files(root: Path, paths: Iterable[Path]) -> str:
    """Return a hash over the content of files and their places relative to `root`."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{os.path.relpath(path, root)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def installed_versions(more: Sequence[str] = ()) -> dict[str, str]:
    """Return the installed versions of Python, of the packages that a run imports, and of `more`."""
    versions = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def find_folders(packages: Sequence[str]) -> dict[str, str]:
    """Return the folders of installed packages, without importing them, which may take half a minute."""
    found = {package: importlib.util.find_spec(package) for package in packages}
    return {name: next(iter(spec.submodule_search_locations)) for name, spec in found.items()
            if spec is not None and spec.submodule_search_locations}  # fmt: skip


def machine_memory_gib() -> float:
    """Return the memory of this machine in GiB, an upper bound for CPU runs."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2.0**30


def describe_trainer() -> dict[str, Any]:
    """Return this process's trainer: commit, dirtiness, source digest, versions."""
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
