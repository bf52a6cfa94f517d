"""Makes a commit of a clone's working tree with its uncommitted changes, without writing into the clone.

The commit is kept in a bare repository in the cache, one per clone, which borrows the clone's objects (git's
`alternates`) and has a ref for each commit: git in the clone knows nothing of it.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from configs.errors import ConfigError
from tasks.records.plan import CodeVersion
from tasks.resolve.git import GitError, run_git
from tasks.resolve.refs import SHORT_SHA, WORKING_TREE, ResolvedRef, is_address, resolve_ref

FOLDER = "working-trees"  # in the cache
REFS = "refs/maxview/"  # in the kept repository
MAX_UNTRACKED_BYTES = 256 << 20  # of all untracked files together; larger ones are data that a .gitignore forgot
TREE_AUTHOR = "maxview@localhost"  # of the commits that are made of working trees
MIB = 1 << 20
MAX_DIFF_LENGTH = 60_000  # characters of a diff that are stored


def resolve_version(repository: str, name: str, cache: Path) -> ResolvedRef:
    """Return the commit of a ref, or a commit of the working tree for WORKING_TREE.

    A clone's working tree without uncommitted changes is its HEAD, and so is that of a bare clone or an address. The
    hash of an earlier commit of the working tree is found, too. Raises ConfigError.
    """
    try:
        if name == WORKING_TREE:
            return _resolve_working_tree(repository, cache)
        sha = name.rpartition(":")[2]  # also of `NAME:SHA`
        kept = _find_kept(repository, sha, cache) if SHORT_SHA.fullmatch(sha) else None
        return kept or resolve_ref(repository, name)
    except GitError as error:
        raise ConfigError([f"{repository}: its uncommitted changes cannot be read: {error}"]) from error


def find_source(repository: str, sha: str, cache: Path) -> str:
    """Return the repository that has a commit: the kept one for a commit of the working tree, else `repository`."""
    if not is_address(repository):
        with suppress(GitError):
            kept = _place(Path(repository), cache)
            if kept.is_dir() and _read_ref(kept, f"{REFS}{sha}"):
                return str(kept)
    return repository


def describe_version(ref: ResolvedRef, clone: str, source: str) -> CodeVersion:
    """Return the version of a ref, for display, without its distance from another. source: of `find_source`.

    Raises GitError.
    """
    folder = Path(source)
    subject = run_git(["show", "--no-patch", "--format=%s", "--end-of-options", ref.head or ref.sha], folder=folder)
    diff = read_diff(folder, ref.head, ref.sha) if ref.head else ""
    left_out = 0
    if ref.sha == _read_ref(Path(clone), "HEAD"):
        with suppress(GitError):  # a bare clone has no working tree
            left_out = len(_status(Path(clone)).splitlines())
    return CodeVersion(
        name=ref.name,
        sha=ref.sha,
        subject=_readable(subject),
        found_as=ref.found_as,
        head=ref.head,
        changed=ref.changed,
        left_out=left_out,
        diff=diff,
    )


def read_diff(folder: Path, left: str, right: str, paths: Sequence[str] = ()) -> str:
    """Return the differences between two commits as git prints them, of all files or of some. Raises GitError."""
    words = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", left, right, "--", *paths]
    diff = _readable(run_git(words, folder=folder))
    if len(diff) > MAX_DIFF_LENGTH:
        return f"{diff[:MAX_DIFF_LENGTH]}\n… and {len(diff) - MAX_DIFF_LENGTH:,} more characters"
    return diff


def list_changed_files(folder: Path, left: str, right: str) -> tuple[str, ...]:
    """Return the paths of the files in which two commits or trees differ. Raises GitError."""
    listed = run_git(["diff-tree", "-r", "-z", "--name-only", "--no-renames", left, right], folder=folder)
    return tuple(filter(None, _readable(listed).split("\0")))


def _readable(text: str) -> str:
    """Return git's output with a symbol in place of each byte that is not UTF-8: records are JSON."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _resolve_working_tree(repository: str, cache: Path) -> ResolvedRef:
    if is_address(repository) or run_git(["rev-parse", "--is-bare-repository"], folder=Path(repository)) == "true":
        return resolve_ref(repository, "HEAD")
    clone = Path(repository)
    head = resolve_ref(repository, "HEAD")
    branch = run_git(["rev-parse", "--abbrev-ref", "HEAD"], folder=clone)  # HEAD, if it is detached
    head = head.replace(name=branch)
    if not _status(clone):
        return head
    _check_size(clone)
    kept = _make_kept(clone, cache)
    sha, changed = _commit(clone, kept, head)
    if not changed:  # for example a changed time, or a file that git's filters make equal
        return head
    return ResolvedRef(name=name_tree(changed), sha=sha, head=head.sha, changed=changed)


def _status(clone: Path) -> str:
    return run_git(["status", "--porcelain", "--untracked-files=all"], folder=clone)


def name_tree(changed: Sequence[str]) -> str:
    """Return the name of a working tree with these changed files: `your tree (layers.py and 2 more)`."""
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return f"your tree ({_readable(changed[0]).rpartition('/')[2]}{more})"


def _check_size(clone: Path) -> None:
    listed = run_git(["ls-files", "--others", "--exclude-standard", "-z"], folder=clone).split("\0")
    sizes = {}
    for name in filter(None, listed):
        with suppress(OSError):
            sizes[name] = (clone / name).lstat().st_size
    if sum(sizes.values()) > MAX_UNTRACKED_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise ConfigError(
            [
                f"{clone}: {sum(sizes.values()) // MIB} MiB of untracked files would belong to the compared version, "
                f"{largest} has {sizes[largest] // MIB} MiB: name them in .gitignore, or compare the commit: "
                "--branch HEAD"
            ]
        )


def _make_kept(clone: Path, cache: Path) -> Path:
    """Return the kept repository of a clone, whose objects and shallow ends are the clone's."""
    kept = _place(clone, cache)
    try:
        if not (kept / "HEAD").is_file():
            run_git(["init", "--quiet", "--bare", "--template=", "--", str(kept)])
        (kept / "objects" / "info").mkdir(parents=True, exist_ok=True)
        (kept / "objects" / "info" / "alternates").write_text(f"{_path_of(clone, 'objects')}\n")
        if (shallow := _path_of(clone, "shallow")).is_file():
            shutil.copyfile(shallow, kept / "shallow")
        else:
            (kept / "shallow").unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError([f"{kept}: cannot be written ({error.strerror}): set MAXVIEW_CACHE"]) from error
    return kept


def _commit(clone: Path, kept: Path, head: ResolvedRef) -> tuple[str, tuple[str, ...]]:
    """Return a commit of the working tree, a child of HEAD, and its changed files.

    Equal files on an equal HEAD give an equal commit.
    """
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        index = Path(folder) / "index"
        with suppress(FileNotFoundError):  # its times, and its own, tell git which files to read again
            shutil.copy2(_path_of(clone, "index"), index)
        places = {"GIT_INDEX_FILE": str(index), "GIT_OBJECT_DIRECTORY": str(kept / "objects")}
        run_git(["add", "--all"], folder=clone, variables=places)
        tree = run_git(["write-tree"], folder=clone, variables=places)
    changed = list_changed_files(kept, head.sha, tree)
    date = run_git(["show", "--no-patch", "--format=%cI", head.sha], folder=kept)
    people = {
        f"GIT_{role}_{fact}": value
        for role in ("AUTHOR", "COMMITTER")
        for fact, value in (("NAME", "maxview"), ("EMAIL", TREE_AUTHOR), ("DATE", date))
    }
    words = ["commit-tree", "-p", head.sha, "-m", name_tree(changed or ("",)), tree]
    sha = run_git(words, folder=kept, variables=people)
    run_git(["update-ref", f"{REFS}{sha}", sha], folder=kept)
    return sha, changed


def _find_kept(repository: str, name: str, cache: Path) -> ResolvedRef | None:
    """Return the commit of the working tree with this hash; None if there is none, or the clone has another such."""
    if is_address(repository) or not (kept := _place(Path(repository), cache)).is_dir():
        return None
    listed = run_git(["for-each-ref", "--format=%(objectname) %(contents:subject)", REFS], folder=kept)
    found = [line.split(" ", 1) for line in listed.splitlines() if line.startswith(name)]
    if len(found) != 1 or _read_ref(Path(repository), name):
        return None
    sha, subject = found[0]
    head = _read_ref(kept, f"{sha}^")
    return ResolvedRef(name=subject, sha=sha, head=head, changed=list_changed_files(kept, head, sha))


def _read_ref(folder: Path, name: str) -> str:
    with suppress(GitError):
        return run_git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"], folder=folder)
    return ""


def _place(clone: Path, cache: Path) -> Path:
    """Return the folder of the kept repository; work trees of one clone share it."""
    shared = run_git(["rev-parse", "--path-format=absolute", "--git-common-dir"], folder=clone)
    return cache / FOLDER / f"{hashlib.sha256(shared.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}.git"


def _path_of(clone: Path, name: str) -> Path:
    return Path(run_git(["rev-parse", "--path-format=absolute", "--git-path", name], folder=clone))
