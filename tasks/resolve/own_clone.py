"""Finds the clone whose refs a comparison of maxview's own trainer compares if it names no repository."""

import os
from pathlib import Path

from configs.comparison import load_comparison
from configs.errors import ConfigError
from configs.names import list_names
from configs.read import CONFIG_ROOT
from tasks.resolve.git import GitError, MissingGitError, run_git
from tasks.resolve.refs import check_repository, is_address

HERE = CONFIG_ROOT.parent  # the folder of the installed trainer
# A checkout of maxview must have one file of each tuple. Without `model/__init__.py`, Python would import the installed
# `model`. `model.train` is a module in old commits and a package in new ones.
TRAINER_FILES = (("model/__init__.py",), ("model/train/__main__.py", "model/train.py"), ("configs/base.yml",))


def find_own_clone() -> str:
    """Return the clone of the working directory if it has maxview's trainer, else the clone that maxview runs from.

    Raises ConfigError with the remedy if maxview runs from no clone.
    """
    try:
        standing = check_repository(os.getcwd())
    except (ConfigError, OSError):
        standing = ""
    try:
        if standing and Path(standing) == HERE.resolve():
            return str(HERE)
        if standing and _has_trainer(Path(standing)):
            return standing
    except MissingGitError as error:
        raise ConfigError(["git is not installed: branches cannot be compared without it"]) from error
    if (HERE / ".git").exists():
        return str(HERE)
    if not standing:
        raise ConfigError(
            [f"{os.getcwd()} is no git clone, and maxview was installed without one: "
             "change to a clone of maxview, or name it with --repository"]
        )  # fmt: skip
    raise ConfigError([f"{standing}: is no clone of maxview's trainer; {_name_fitting_comparison(Path(standing))}"])


def _has_trainer(clone: Path) -> bool:
    return all(any(_has(clone, file) for file in files) for files in TRAINER_FILES)


def _has(clone: Path, path: str) -> bool:
    try:
        run_git(["cat-file", "-e", f"HEAD:{path}"], folder=clone)
    except MissingGitError:
        raise
    except GitError:
        return False
    return True


def _name_fitting_comparison(clone: Path) -> str:
    specs = map(load_comparison, list_names("comparisons"))
    places = {spec.name: spec.repository for spec in specs if spec.repository and not is_address(spec.repository)}
    for name, place in places.items():
        if Path(place).expanduser().resolve() == clone:
            return f"compare it with: maxview compare {name}"
    if any(_has(clone, folder) for folder in ("src/maxtext", "src/MaxText", "MaxText")):
        return "it is MaxText: maxview compare maxtext-main-vs-branch --repository ."
    return (
        "for a trainer of your own, write a comparison with `trainer: command` and `repository: "
        f"{clone}` (docs/custom-trainer.md)"
    )
