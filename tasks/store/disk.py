"""Returns messages about full disks: the mount point, the free space and the remedy."""

import errno
import os
import shutil
from pathlib import Path

LEAST_FREE = 16 << 10  # bytes; with less, a run cannot begin its log


def explain_empty_log(log: Path) -> str | None:
    """Return a message if the log file exists, is empty, and its disk is full; else None."""
    if not log.is_file() or log.stat().st_size:
        return None
    return explain_little(log.parent, LEAST_FREE)


def explain_little(path: Path, least: int) -> str | None:
    """Return a message if the disk of `path` has less than `least` bytes free; else None."""
    near = next(folder for folder in (path, *path.parents) if folder.is_dir())
    if shutil.disk_usage(near).free >= least:
        return None
    return explain_full(near, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def explain_full(path: str | Path, error: OSError) -> str | None:
    """Return a message about the full disk that contains `path`; None if `error` has another reason."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    near = Path(path).absolute()
    near = next(folder for folder in (near, *near.parents) if os.path.isdir(folder))
    mount = next(folder for folder in (near, *near.parents) if os.path.ismount(folder))
    usage, said = shutil.disk_usage(near), error.strerror or "No space left"
    return (
        f"{said}: the disk at {mount} has {usage.free / 1e9:.2f} of {usage.total / 1e9:.2f} GB free; make "
        "room there and repeat the command, which continues from here, or choose another folder"
    )
