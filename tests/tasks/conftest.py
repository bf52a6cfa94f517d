"""A repository with two versions of a trainer that only prints, which is all that flows and steps need of one."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


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
