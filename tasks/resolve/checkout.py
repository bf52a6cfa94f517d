"""Turns a commit's SHA into a folder that holds exactly its files, made once, and used again while it still does."""

import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tasks.resolve.git import GitError, run_git
from tasks.resolve.tree_hash import hash_folder, hash_object

KEPT_S = 14 * 86_400.0  # a checkout that nobody has used for so long is removed
UNFINISHED_S = 86_400.0  # one that was never finished
FOLDER = "checkouts"
# git's own text of the commit, whose hash is its SHA: it says which files there are, and nobody can make up another
COMMIT = ".maxview-commit"
ALGORITHMS = {40: "sha1", 64: "sha256"}  # by the length of a SHA


class CheckoutError(ValueError):
    """A commit's files cannot be had; the message says what to do."""


def make_checkout(repository: str, sha: str, cache: Path) -> Path:
    """The folder with the files of `sha`, of a commit without its history; `repository` is only read.

    One that is there is used again if it holds exactly the commit's files, and made anew if a run has changed it. Two
    that make it at once do not disturb each other: it appears whole or not at all. Raises CheckoutError.
    """
    folder = cache / FOLDER / sha
    if is_whole(folder, sha):
        os.utime(folder)  # it is in use: `prune_checkouts` looks at this
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{sha[:12]}-", dir=folder.parent))
    except OSError as error:
        raise CheckoutError(f"{folder.parent}: cannot be written ({error.strerror}): set MAXVIEW_CACHE") from error
    try:
        files = unfinished / "files"
        _fetch(repository, sha, files, unfinished / "git")
        if not is_whole(files, sha):
            raise CheckoutError(f"{repository}: the files of commit {sha} cannot be written as they are in {cache}")
        if folder.exists() and not is_whole(folder, sha):  # else another flow was first
            with suppress(FileNotFoundError):  # another flow was quicker
                folder.rename(unfinished / "changed")
        try:
            files.rename(folder)
        except OSError:
            if not is_whole(folder, sha):
                raise
    except GitError as error:
        raise CheckoutError(f"{repository}: commit {sha} cannot be checked out: {error}") from error
    except OSError as error:
        raise CheckoutError(f"{folder}: cannot be made ({error.strerror or error}): set MAXVIEW_CACHE") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _fetch(repository: str, sha: str, folder: Path, git: Path) -> None:
    """The files of one commit, and its text. No git stays beside them: its settings could name programs to run."""
    run_git(["init", "--quiet", "--template=", f"--separate-git-dir={git}", "--", str(folder)])
    (git / "info").mkdir(exist_ok=True)
    # every file as it was committed, whatever .gitattributes say: no line ends, no filters
    (git / "info" / "attributes").write_text("* -text -eol -filter -ident -working-tree-encoding\n")
    fetch = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
    try:
        run_git([*fetch, "--depth=1", "--end-of-options", repository, sha], folder=folder)
    except GitError:  # a server that gives no single commits
        everything = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
        run_git([*fetch, "--end-of-options", repository, *everything], folder=folder)
    run_git(["-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", sha, "--"], folder=folder)
    listed = run_git(["ls-tree", "-r", "-z", "--full-tree", sha], folder=folder).split("\0")
    modules = {line.split("\t", 1)[1]: line.split()[2] for line in listed if line.startswith("160000 ")}
    text = run_git(["cat-file", "commit", sha], folder=folder, whole=True)
    (folder / ".git").unlink()
    (folder / COMMIT).write_text(json.dumps({"commit": text, "submodules": modules}))


def is_whole(folder: Path, sha: str) -> bool:
    """Whether the folder holds the files of this commit and no others, as far as their content tells."""
    try:
        known = json.loads((folder / COMMIT).read_text())
        text, algorithm = known["commit"].encode("utf-8", "surrogateescape"), ALGORITHMS[len(sha)]
        if hash_object("commit", text, algorithm).hex() != sha:
            return False
        tree: str = text.split(b"\n", 1)[0].removeprefix(b"tree ").decode()
        found = hash_folder(folder, algorithm, submodules=known["submodules"], ignored=COMMIT)
        return found.hex() == tree
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False  # none, or not ours any more


def check_checkout(checkout: str, sha: str) -> None:
    """Raises CheckoutError if the checkout that a run is about to start in was changed since it was made."""
    place = Path(checkout)
    folder = next((folder for folder in (place, *place.parents) if folder.name == sha), place)
    if not is_whole(folder, sha):
        raise CheckoutError(
            f"{folder}: is no longer commit {sha} as it is: something has written into it, perhaps an earlier run; "
            "the same command makes it anew and goes on from here"
        )


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
