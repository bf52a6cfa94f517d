"""Finds the time of a commit in maxview's own git checkout."""

import re
from datetime import UTC, datetime
from functools import cache

from configs.read import CONFIG_ROOT
from tasks.resolve.git import GitError, run_git

_SHA = re.compile(r"[0-9a-f]{7,64}")


@cache
def find_commit_time(commit: str) -> datetime | None:
    """Return the committer's time in UTC; None if the checkout lacks the commit, or there is no git checkout."""
    root = CONFIG_ROOT.parent
    if not _SHA.fullmatch(commit) or not (root / ".git").exists():
        return None
    try:
        seconds = run_git(["show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}"], folder=root)
    except GitError:
        return None
    return datetime.fromtimestamp(int(seconds), UTC)
