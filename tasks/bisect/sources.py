"""Computes a digest of the source that each commit's runs execute, from git's objects, without a checkout."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from configs.comparison import Trainer
from tasks.resolve.code_digest import digest_code
from tasks.resolve.git import run_git

# Paths that can affect a run: of maxview, Python files below OURS and all of OUR_FILES; of MaxText, all of MAXTEXT.
OURS = ("model/", "configs/")
OUR_FILES = ("configs/base.yml", "configs/data/")
MAXTEXT = ("src/maxtext/", "src/MaxText/", "MaxText/", "src/dependencies/", "pyproject.toml")


def digest_sources(repository: str, shas: Sequence[str], trainer: Trainer, named: Iterable[str] = ()) -> dict[str, str]:
    """Return SHA → digest of the commit's source. Equal digests train alike in equal environments.

    Ignores comments, docstrings and layout of Python files. named: words of a custom command; files with these paths
    always count. Raises GitError.
    """
    folder, extra = Path(repository), frozenset(named)
    found = {}
    for sha in shas:
        digest = hashlib.sha256()
        for entry in run_git(["ls-tree", "-r", "-z", "--full-tree", sha], folder=folder).split("\0"):
            head, _, path = entry.partition("\t")
            if path and _counts(path, trainer, extra):
                mode, _, blob = head.split(" ")
                digest.update(f"{path}\0{mode}\0{_digest_blob(str(folder), blob, path.endswith('.py'))}\0".encode())
        found[sha] = digest.hexdigest()[:16]
    return found


def _counts(path: str, trainer: Trainer, named: frozenset[str]) -> bool:
    if trainer == "maxview":
        python = path.endswith(".py") and path.startswith(OURS)
        return python or path.startswith(OUR_FILES)
    if trainer == "maxtext":
        return path.startswith(MAXTEXT)
    # for a custom trainer every file but prose may matter
    prose = PurePosixPath(path).suffix in (".md", ".rst") or path.startswith((".github/", "docs/"))
    return path in named or not prose


@lru_cache(maxsize=65536)  # most files are equal in most commits
def _digest_blob(folder: str, blob: str, is_python: bool) -> str:
    if not is_python:
        return blob
    text = run_git(["cat-file", "blob", blob], folder=Path(folder), whole=True)
    return digest_code(text) or blob
