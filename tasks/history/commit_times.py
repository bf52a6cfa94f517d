"""Finds the time of a run's commit in the checkout at hand."""

import os
import re
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from configs.read import CONFIG_ROOT

_SHA = re.compile(r"[0-9a-f]{7,64}")


def find_commit_time(commit: str) -> datetime | None:
    """Return the committer's time in UTC; None for a commit of another repository, or without git."""
    return _find(commit, CONFIG_ROOT.parent)


@cache
def _find(commit: str, root: Path) -> datetime | None:
    if not _SHA.fullmatch(commit) or not (root / ".git").exists():
        return None
    # inside a git hook, GIT_* variables name another repository
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    argv = ["git", "-C", str(root), "show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}"]
    try:
        shown = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    except OSError:  # no git on this machine
        return None
    seconds = shown.stdout.strip()
    return datetime.fromtimestamp(int(seconds), UTC) if shown.returncode == 0 and seconds.isdigit() else None
