"""Turns the system's word that there is no space left into which disk that is, and what to do."""

import errno
import os
import shutil
from pathlib import Path


def explain_full(path: str | Path, error: OSError) -> str | None:
    """The disk that holds `path`, if the error is that it is full; None where it is another."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    near = Path(path).absolute()
    near = next(folder for folder in (near, *near.parents) if os.path.isdir(folder))
    mount = next(folder for folder in (near, *near.parents) if os.path.ismount(folder))
    usage, said = shutil.disk_usage(near), error.strerror or "No space left"
    return (
        f"{said}: the disk at {mount} has {usage.free / 1e9:.2f} of {usage.total / 1e9:.2f} GB free; make "
        "room there, then the same command goes on from here, or choose another folder"
    )
