"""Real Orbax checkpoints, saved once in processes of their own, and fresh copies of them to damage."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SAVER = Path(__file__).with_name("saver.py")

Save = Callable[..., Path]


@pytest.fixture(scope="session")
def save(tmp_path_factory: pytest.TempPathFactory) -> Save:
    """save(*options) -> the folder of a run whose `checkpoints` the saver wrote; the same options are saved once."""
    done: dict[tuple[str, ...], Path] = {}

    def run(*options: str, returncode: int = 0) -> Path:
        if options not in done:
            folder = tmp_path_factory.mktemp("run")
            result = subprocess.run(
                [sys.executable, str(SAVER), str(folder / "checkpoints"), *options],
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert result.returncode == returncode, result.stderr[-2000:]
            done[options] = folder
        return done[options]

    return run


@pytest.fixture(scope="session")
def saved_by_v1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder per layout, with checkpoints that Orbax's v1 wrote in each of its ways."""
    folder = tmp_path_factory.mktemp("v1")
    argv = [sys.executable, str(SAVER.with_name("saver_v1.py")), str(folder)]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return folder


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder per dialect, with one training state in the tree of each; see saver_trees.py."""
    folder = tmp_path_factory.mktemp("trees")
    argv = [sys.executable, str(SAVER.with_name("saver_trees.py")), str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.fixture
def run_folder(save: Save, tmp_path: Path) -> Path:
    """A copy of a run with the checkpoints 0 and 9, to do with as the test likes."""
    return Path(shutil.copytree(save(), tmp_path / "run"))


@pytest.fixture
def step_folder(run_folder: Path) -> Path:
    return run_folder / "checkpoints" / "9"
