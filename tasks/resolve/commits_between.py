"""Lists the commits that one arm of a comparison has and the other lacks, in a clone that has both arms' commits."""

from pathlib import Path

from tasks.records import Commit
from tasks.resolve.git import GitError, run_git

MOST = 200  # limit of listed commits
_LINE = "%H%x00%cI%x00%an%x00%s"
_END = "%x01"


def list_commits(folder: Path, without: str, sha: str) -> tuple[Commit, ...]:
    """Return the ancestors of `sha` that are no ancestors of `without`, newest first, at most MOST.

    Returns () if git is missing, the folder is no clone, or the clone lacks one of the two commits.
    """
    try:
        printed = run_git(
            ["log", f"--format={_LINE}{_END}", f"--max-count={MOST}", "--end-of-options", f"{without}..{sha}", "--"],
            folder=folder,
        )
    except GitError:
        return ()
    lines = [line.strip("\n").split("\0") for line in printed.split("\x01")]
    return tuple(
        Commit(sha=name, time=time, author=author, subject=subject)
        for name, time, author, subject in (line for line in lines if len(line) == 4)
    )
