"""Reads commits with git: the line of commits from good to bad, merged branches, messages, and digests of sources."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from configs.errors import ConfigError
from configs.frozen import Frozen
from tasks.records.plan import Commit
from tasks.resolve.code_digest import digest_code
from tasks.resolve.git import GitError, run_git
from tasks.resolve.refs import ResolvedRef
from tasks.resolve.trainers.trainer import Trainer

MAX_COMMITS = 2000  # limit of commits between good and bad
_FORM = "%H%x00%P%x00%cI%x00%an%x00%s%x01"


class LineCommit(Frozen):
    """A commit from good to bad, with its parents."""

    commit: Commit
    parents: tuple[str, ...] = ()  # SHAs, the first parent first


def find_line(repository: str, good: ResolvedRef, bad: ResolvedRef) -> list[LineCommit]:
    """Return the commits from good to bad, good first, along first parents, without the commits of merged branches.

    Raises ConfigError with the remedy, for example if bad does not descend from good.
    """
    folder = Path(repository)
    if good.sha == bad.sha:
        raise ConfigError(
            [f"--good {good.name} and --bad {bad.name} are one commit, {good.sha[:9]}: name an earlier --good"]
        )
    if _git(folder, "rev-parse", "--is-shallow-repository") == "true":
        raise ConfigError([f"{folder}: the clone is shallow, commits may be missing: git fetch --unshallow"])
    base = _base(folder, good.sha, bad.sha)
    if base is None:
        raise ConfigError(
            [f"'{good.name}' and '{bad.name}' have no commit in common: they are unrelated histories; "
             f"name a --good that '{bad.name}' was made from"]
        )  # fmt: skip
    if base == bad.sha:
        raise ConfigError(
            [f"good and bad are swapped: '{bad.name}' comes before '{good.name}': "
             f"--good {bad.name} --bad {good.name}"]
        )  # fmt: skip
    if base != good.sha:
        raise ConfigError([f"'{good.name}' is not before '{bad.name}': they part at {base[:9]}; try --good {base[:9]}"])
    listed = _read(folder, f"{good.sha}..{bad.sha}", "--first-parent", f"--max-count={MAX_COMMITS + 1}")
    if len(listed) > MAX_COMMITS:
        raise ConfigError(
            [f"more than {MAX_COMMITS} commits lie between '{good.name}' and '{bad.name}': name a later --good"]
        )
    # If good is on a merged branch, it is followed by the first commit that contains good.
    while listed and listed[0].parents[:1] != (good.sha,) and not _holds(folder, good.sha, listed[0].commit.sha):
        listed = listed[1:]
    return [*_read(folder, good.sha, "--max-count=1"), *listed]


def find_inside(repository: str, parents: Sequence[str]) -> list[tuple[str, str]]:
    """Return (fork point, last commit) of each branch that a merge with these parents brought in."""
    folder, (first, *others) = Path(repository), parents
    lines = [(_base(folder, first, other), other) for other in others]
    return [(base, other) for base, other in lines if base is not None and base != other]


def find_dirt(repository: str) -> str:
    """Return the name of a file with uncommitted changes, and the number of others, as text; empty if there is none.

    Ignores untracked files.
    """
    lines = _git(Path(repository), "status", "--porcelain", "--untracked-files=no").splitlines()
    return "" if not lines else lines[0][3:] + (f" and {len(lines) - 1} more" if len(lines) > 1 else "")


def describe_commit(repository: str, sha: str) -> tuple[str, str]:
    """Return (message, diffstat) of a commit; the diffstat of a merge is against its first parent."""
    folder = Path(repository)
    message = _git(folder, "show", "--no-patch", "--format=%B", "--end-of-options", sha).strip()
    stat = _git(folder, "show", "--format=", "--stat=100", "--first-parent", "-m", "--end-of-options", sha)
    return message, stat.strip("\n")


def _read(folder: Path, *words: str) -> list[LineCommit]:
    """Return the commits that `git log` prints for a range and options (words), the oldest first."""
    what, *options = words
    printed = _git(folder, "log", f"--format={_FORM}", *options, "--end-of-options", what, "--")
    found = []
    for text in printed.split("\x01"):
        parts = text.strip("\n").split("\0")
        if len(parts) == 5:
            sha, parents, time, author, subject = parts
            commit = Commit(sha=sha, time=time, author=author, subject=subject)
            found.append(LineCommit(commit=commit, parents=tuple(parents.split())))
    return found[::-1]


def _base(folder: Path, one: str, other: str) -> str | None:
    try:
        return run_git(["merge-base", "--end-of-options", one, other], folder=folder)
    except GitError:
        return None


def _holds(folder: Path, ancestor: str, sha: str) -> bool:
    return _base(folder, ancestor, sha) == ancestor


def _git(folder: Path, *words: str) -> str:
    try:
        return run_git(list(words), folder=folder)
    except GitError as error:
        raise ConfigError([f"{folder}: its history cannot be read: {error}"]) from error


def digest_sources(
    repository: str, shas: Sequence[str], trainer: type[Trainer], named: Iterable[str] = ()
) -> dict[str, str]:
    """Return SHA → digest of the commit's source. Commits with equal digests train alike in equal environments.

    Ignores comments, docstrings and layout of Python files, and for custom trainers prose: .md, .rst, docs/, .github/.
    named: words of a custom command; files with these paths count even if they are prose. Raises GitError.
    """
    folder, extra = Path(repository), frozenset(named)
    found = {}
    for sha in shas:
        digest = hashlib.sha256()
        for entry in run_git(["ls-tree", "-r", "-z", "--full-tree", sha], folder=folder).split("\0"):
            head, _, path = entry.partition("\t")
            if path and trainer.is_read(path, extra):
                mode, _, blob = head.split(" ")
                digest.update(f"{path}\0{mode}\0{_digest_blob(str(folder), blob, path.endswith('.py'))}\0".encode())
        found[sha] = digest.hexdigest()[:16]
    return found


@lru_cache(maxsize=65536)  # most files are equal in most commits
def _digest_blob(folder: str, blob: str, is_python: bool) -> str:
    if not is_python:
        return blob
    text = run_git(["cat-file", "blob", blob], folder=Path(folder), whole=True)
    return digest_code(text) or blob
