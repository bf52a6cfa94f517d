"""Turns a commit's SHA into a folder that holds exactly its files, made once and used again."""

import os
import shutil
import tempfile
import time
from pathlib import Path

from tasks.git import GitError, run_git

KEPT_S = 14 * 86_400.0  # a checkout that nobody has used for so long is removed
UNFINISHED_S = 86_400.0  # one that was never finished
FOLDER = "checkouts"


class CheckoutError(ValueError):
    """A commit's files cannot be had; the message says what to do."""


def make_checkout(repository: str, sha: str, cache: Path) -> Path:
    """The folder with the files of `sha`, a clone of its own with that one commit; `repository` is only read.

    Two that make it at once do not disturb each other: it appears whole or not at all. Raises CheckoutError.
    """
    folder = cache / FOLDER / sha
    if folder.is_dir():
        check_checkout(folder, sha)
        os.utime(folder)  # it is in use: `prune_checkouts` looks at this
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{sha[:12]}-", dir=folder.parent))
    except OSError as error:
        raise CheckoutError(f"{folder.parent}: cannot be written ({error.strerror}): set MAXVIEW_CACHE") from error
    try:
        _fetch(repository, sha, unfinished)
        check_checkout(unfinished, sha)
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another flow was first
                raise
    except GitError as error:
        raise CheckoutError(f"{repository}: commit {sha} cannot be checked out: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _fetch(repository: str, sha: str, folder: Path) -> None:
    """One commit without its history; all of it from servers that give no single commits."""
    run_git(["init", "--quiet", "--template=", "--", str(folder)])
    (folder / ".git" / "info").mkdir(exist_ok=True)
    # what Python leaves beside the sources it reads is no change of them
    (folder / ".git" / "info" / "exclude").write_text("__pycache__/\n")
    fetch = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
    try:
        run_git([*fetch, "--depth=1", "--end-of-options", repository, sha], folder=folder)
    except GitError:
        everything = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
        run_git([*fetch, "--end-of-options", repository, *everything], folder=folder)
    run_git(["-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", sha, "--"], folder=folder)


def check_checkout(folder: Path, sha: str) -> None:
    """Raises CheckoutError if the folder holds another commit, or files that the commit does not."""
    try:
        head = run_git(["rev-parse", "HEAD"], folder=folder)
        changed = run_git(["status", "--porcelain"], folder=folder)
    except GitError as error:
        raise CheckoutError(f"{folder}: is no checkout any more ({error}): remove the folder") from error
    if head != sha or changed:
        what = f"holds {head}" if head != sha else f"has changes ({changed.splitlines()[0].strip()})"
        raise CheckoutError(f"{folder}: should be commit {sha} as it is, but {what}: remove the folder")


def prune_checkouts(cache: Path, *, now: float | None = None) -> list[Path]:
    """Remove the checkouts that nobody has used for long, and what was left half-made; returns what was removed."""
    now = time.time() if now is None else now
    removed = []
    for folder in sorted((cache / FOLDER).glob("*")) + sorted((cache / FOLDER).glob(".*-*")):
        limit = UNFINISHED_S if folder.name.startswith(".") else KEPT_S
        if folder.is_dir() and now - folder.stat().st_mtime > limit:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed
