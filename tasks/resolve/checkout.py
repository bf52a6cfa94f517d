"""Creates a folder with the files of a git commit, and reuses the folder while its files are unchanged.

Git's hash of the files is computed without calling git, whose settings and index could be manipulated.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tasks.resolve.git import GitError, run_git

KEPT_S = 14 * 86_400.0  # seconds; a checkout unused for longer is removed
UNFINISHED_S = 86_400.0  # seconds; an unfinished checkout older than this is removed
FOLDER = "checkouts"  # in the cache
# File in a checkout with git's commit object and the submodules' commits. The SHA is the object's hash, and the object
# contains the hash of the tree, so a changed file is always detected.
COMMIT = ".maxview-commit"
ALGORITHMS = {40: "sha1", 64: "sha256"}  # number of hex digits of a SHA → hash algorithm
type Entry = tuple[bytes, bytes]  # mode in git's tree, hash
_FOLDER, _LINK, _PROGRAM, _FILE, _SUBMODULE = b"40000", b"120000", b"100755", b"100644", b"160000"  # modes


class CheckoutError(ValueError):
    """The files of a commit cannot be fetched or written; the message says what to do."""


def make_checkout(repository: str, sha: str, cache: Path) -> Path:
    """Return a folder with the files of the commit `sha` and the file COMMIT, without history.

    Reuses an existing checkout if its files are unchanged, else replaces it. Only reads `repository`. Safe in
    concurrent calls, because the complete folder is renamed to its final name. Raises CheckoutError.
    """
    folder = cache / FOLDER / sha
    if is_whole(folder, sha):
        os.utime(folder)  # `prune_checkouts` reads it as the time of the last use
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
        if folder.exists() and not is_whole(folder, sha):
            with suppress(FileNotFoundError):  # another flow has already moved it
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
    """Write the files of one commit and its commit object into `folder`.

    git: folder for git's own data. No .git is left in `folder`: a trainer could write settings there that run programs.
    """
    run_git(["init", "--quiet", "--template=", f"--separate-git-dir={git}", "--", str(folder)])
    (git / "info").mkdir(exist_ok=True)
    # Overrides .gitattributes: no conversion of line ends, no filters.
    (git / "info" / "attributes").write_text("* -text -eol -filter -ident -working-tree-encoding\n")
    fetch = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
    try:
        run_git([*fetch, "--depth=1", "--end-of-options", repository, sha], folder=folder)
    except GitError:  # some servers do not serve single commits
        everything = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
        run_git([*fetch, "--end-of-options", repository, *everything], folder=folder)
    run_git(["-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", sha, "--"], folder=folder)
    listed = run_git(["ls-tree", "-r", "-z", "--full-tree", sha], folder=folder).split("\0")
    modules = {line.split("\t", 1)[1]: line.split()[2] for line in listed if line.startswith("160000 ")}
    text = run_git(["cat-file", "commit", sha], folder=folder, whole=True)
    (folder / ".git").unlink()
    (folder / COMMIT).write_text(json.dumps({"commit": text, "submodules": modules}))


def is_whole(folder: Path, sha: str) -> bool:
    """Return whether the folder contains exactly the files of the commit `sha` and COMMIT, by comparing hashes."""
    try:
        known = json.loads((folder / COMMIT).read_text())
        text, algorithm = known["commit"].encode("utf-8", "surrogateescape"), ALGORITHMS[len(sha)]
        if hash_object("commit", text, algorithm).hex() != sha:
            return False
        tree: str = text.split(b"\n", 1)[0].removeprefix(b"tree ").decode()
        found = hash_folder(folder, algorithm, submodules=known["submodules"], ignored=COMMIT)
        return found.hex() == tree
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False  # missing, unreadable or damaged


def read_tree(folder: Path) -> str:
    """Return git's hash of the files of a checkout, as its commit object names it."""
    text: str = json.loads((folder / COMMIT).read_text())["commit"]
    return text.split("\n", 1)[0].removeprefix("tree ")


def check_checkout(checkout: str, sha: str) -> None:
    """Raise CheckoutError unless a checkout is whole (see `is_whole`). checkout: its folder, or a folder inside it."""
    place = Path(checkout)
    folder = next((folder for folder in (place, *place.parents) if folder.name == sha), place)
    if not is_whole(folder, sha):
        raise CheckoutError(
            f"{folder}: is no longer commit {sha} as it is: something has written into it, perhaps an earlier run; "
            "repeat the same command: it makes a new checkout and continues"
        )


def prune_checkouts(cache: Path) -> list[Path]:
    """Remove checkouts unused for KEPT_S and unfinished checkouts older than UNFINISHED_S; return their folders."""
    now, removed = time.time(), []
    for folder in sorted((cache / FOLDER).glob("*")) + sorted((cache / FOLDER).glob(".*-*")):
        limit = UNFINISHED_S if folder.name.startswith(".") else KEPT_S
        if folder.is_dir() and now - folder.stat().st_mtime > limit:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed


def hash_object(kind: str, content: bytes, algorithm: str) -> bytes:
    """Return git's hash of an object. kind: "blob", "tree" or "commit"; algorithm: "sha1" or "sha256"."""
    return hashlib.new(algorithm, f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).digest()


def hash_folder(
    folder: Path, algorithm: str, *, submodules: Mapping[str, str] | None = None, ignored: str = "", inside: str = ""
) -> bytes:
    """Return git's tree hash of a folder; equal to a commit's tree hash if no file is added, removed or changed.

    submodules: path → commit; their folders are empty. ignored: path of a file to leave out. The paths are relative to
    the checkout, and so is `inside`, the path of `folder` (with a slash at its end).
    """
    submodules = submodules or {}
    entries: dict[bytes, Entry] = {}
    with os.scandir(folder) as found:
        for item in found:
            path, name = f"{inside}{item.name}", os.fsencode(item.name)
            if path == ignored:
                continue
            if not item.is_dir(follow_symlinks=False):
                entries[name] = _hash_file(item, algorithm)
                continue
            below = hash_folder(Path(item.path), algorithm, submodules=submodules, ignored=ignored, inside=f"{path}/")
            if below != hash_object("tree", b"", algorithm):  # git does not store empty folders
                entries[name] = _FOLDER, below
            elif path in submodules:
                entries[name] = _SUBMODULE, bytes.fromhex(submodules[path])
    # git sorts entries as if the names of folders ended with a slash
    order = sorted(entries, key=lambda name: name + b"/" if entries[name][0] == _FOLDER else name)
    lines = (b"%s %s\0%s" % (entries[name][0], name, entries[name][1]) for name in order)
    return hash_object("tree", b"".join(lines), algorithm)


def _hash_file(item: "os.DirEntry[str]", algorithm: str) -> Entry:
    mode = item.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return _LINK, hash_object("blob", os.fsencode(os.readlink(item.path)), algorithm)
    if not stat.S_ISREG(mode):
        return b"0", b""  # a pipe or a device: an entry that no commit contains
    return (_PROGRAM if mode & stat.S_IXUSR else _FILE), hash_object("blob", Path(item.path).read_bytes(), algorithm)
