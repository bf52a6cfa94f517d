"""The folder of maxview's state for this user, outside of every store."""

import os
from pathlib import Path


def state_folder() -> Path:
    """Return $MAXVIEW_STATE, else ~/.local/state/maxview."""
    return Path(os.environ.get("MAXVIEW_STATE") or Path.home() / ".local" / "state" / "maxview")
