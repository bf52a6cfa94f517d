"""Copies a custom program into the folder of its run, for programs that write into their working folder."""

import shutil
import subprocess
from pathlib import Path

from tasks.records.plan import RunPlan
from tasks.resolve.git import GitError, run_git
from tasks.resolve.refs import is_address

# ignored by git, and no data of a program: environments, caches, and what earlier runs of tools wrote
NO_DATA = frozenset({
    ".venv", "venv", "env", "node_modules", "__pycache__", ".git", ".maxview", "maxview-out", "wandb", "mlruns", ".tox",
    ".nox", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".idea", ".vscode", ".ipynb_checkpoints", ".DS_Store",
})  # fmt: skip
COPIED_BYTES = 256 << 20  # of an entry that git ignores; larger ones are linked, and cannot be written to


def copy_program(plan: RunPlan) -> None:
    """Copy the program into its run's folder, with the files that git ignores; nothing if the run has its copy.

    Files that git ignores, such as data sets, are those of the clone as it is. Raises OSError.
    """
    program, copy = plan.checkout or plan.start_folder, plan.source
    if plan.files.copy_at is None or program is None or copy is None or Path(copy).exists():
        return
    unfinished = Path(f"{copy}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(program, unfinished, symlinks=True, ignore=shutil.ignore_patterns(*NO_DATA))
    if plan.repository and not is_address(plan.repository):
        _add_ignored(Path(plan.repository), unfinished)
    unfinished.rename(copy)


def _add_ignored(clone: Path, copy: Path) -> None:
    words = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"]
    try:
        names = run_git(words, folder=clone).split("\0")
    except GitError:
        return  # the clone has just been removed
    for name in filter(None, names):
        place, source = copy / name.rstrip("/"), clone / name.rstrip("/")
        if NO_DATA & set(Path(name).parts) or name.endswith((".pyc", ".egg-info/")) or place.exists():
            continue
        if not source.exists() or (source / "pyvenv.cfg").exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if _size(source) > COPIED_BYTES:
            place.symlink_to(source)
        elif source.is_dir():
            shutil.copytree(source, place, symlinks=True, ignore=shutil.ignore_patterns(*NO_DATA))
        else:
            shutil.copy2(source, place)


def _size(place: Path) -> int:
    """Return the bytes of a file, or of a folder's files, as `du` counts them."""
    counted = subprocess.run(["du", "-s", "-k", "--", str(place)], capture_output=True, text=True, check=False)
    return int(counted.stdout.split()[0]) * 1024 if counted.stdout else 0
