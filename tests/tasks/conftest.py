"""Plans that run a line of Python instead of a trainer, and a repository with two trainers that only print."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.records import RunPlan
from tasks.store import RunDirectory, Store

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return Store(tmp_path / "out").run("a-run").create()


@pytest.fixture
def make_plan(directory: RunDirectory) -> Callable[..., RunPlan]:
    """make_plan(code, *words): a plan that runs a line of Python."""

    def make(code: str, *words: str, **changes: Any) -> RunPlan:
        fields: dict[str, Any] = {
            "comparison": "c", "case": "01_base", "arm": "linen", "repeat": 0, "trainer": "maxview", "target": "cpu",
            "backend": "local", "config": {"steps": 3}, "origins": {"steps": "configs/base.yml:8"}, "commit": None,
            "dirty": False, "versions": {}, "environment": {"JAX_PLATFORMS": "cpu"},
            "argv": (sys.executable, "-c", code, *words), "time_limit_s": 60, "run_name": directory.run_name,
            "directory": str(directory.path), "identity": "0123456789abcdef",
        }  # fmt: skip
        return RunPlan(**(fields | changes))

    return make


def make_repository(folder: Path) -> Path:
    (folder / "model").mkdir(parents=True)
    (folder / "configs").mkdir()
    (folder / "configs" / "base.yml").write_bytes((ROOT / "configs" / "base.yml").read_bytes())
    (folder / "model" / "__init__.py").write_text('"""A trainer."""\n')
    (folder / "model" / "train.py").write_text("print('one')\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "checkout", "-q", "-b", "feat/x")
    (folder / "model" / "train.py").write_text("print('two')\n")
    git(folder, "commit", "-q", "-a", "-m", "two")
    git(folder, "checkout", "-q", "main")
    return folder


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "tag.gpgSign=false"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Branches main and feat/x, with another trainer each."""
    return make_repository(tmp_path / "repository")


@pytest.fixture
def run_git(repository: Path) -> Callable[..., str]:
    """git(*words) in the repository."""
    return lambda *words: git(repository, *words)
