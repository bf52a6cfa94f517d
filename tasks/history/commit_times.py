"""Finds the time of a run's commit in the checkout at hand."""

import re
from datetime import UTC, datetime
from functools import cache

from configs.read import CONFIG_ROOT
from tasks.resolve.git import GitError, run_git

_SHA = re.compile(r"[0-9a-f]{7,64}")


@cache
def find_commit_time(commit: str) -> datetime | None:
    """Return the committer's time in UTC; None for a commit of another repository, or without git."""
    root = CONFIG_ROOT.parent
    if not _SHA.fullmatch(commit) or not (root / ".git").exists():
        return None
    try:
        seconds = run_git(["show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}"], folder=root)
    except GitError:
        return None
    return datetime.fromtimestamp(int(seconds), UTC)
