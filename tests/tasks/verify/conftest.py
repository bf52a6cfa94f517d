"""Real Orbax checkpoints, each saved once in a separate process, and fresh copies to damage."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SAVER = Path(__file__).with_name("saver.py")

# read by several tests and changed by none; one process saves them all, because loading JAX and Orbax takes longest
COMMON = (
    (),
    *(("--layout", layout) for layout in ("ocdbt-zarr3", "ocdbt-zarr2", "plain-zarr3", "plain-zarr2")),
    ("--chunk-bytes", "4096"),
    ("--plain-checkpointer", "--steps", "3"),
    ("--size", "2048", "--steps", "0"),
    ("--nan",),
)

type Save = Callable[..., Path]
type Shared = Callable[[str, Callable[[], str]], str]


def run(script: str, *words: str | Path, returncode: int = 0) -> None:
    argv = [sys.executable, SAVER.with_name(script), *words]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == returncode, result.stderr[-2000:]


@pytest.fixture(scope="session")
def save(tmp_path_factory: pytest.TempPathFactory, shared: Shared) -> Save:
    """save(*options) -> the folder of a run whose `checkpoints` the saver wrote; the same options are saved once."""

    def all_common() -> str:
        folder, words = tmp_path_factory.mktemp("runs"), list[str | Path]()
        for number, options in enumerate(COMMON):
            (folder / str(number)).mkdir()
            words += [",", folder / str(number) / "checkpoints", *options]
        run("saver.py", *words)
        return str(folder)

    def find(*options: str, returncode: int = 0) -> Path:
        if options in COMMON:
            return Path(shared("saved", all_common)) / str(COMMON.index(options))

        def make() -> str:
            folder = tmp_path_factory.mktemp("run")
            run("saver.py", folder / "checkpoints", *options, returncode=returncode)
            return str(folder)

        return Path(shared(" ".join(("saved", *options)), make))

    return find


@pytest.fixture(scope="session")
def save_all(tmp_path_factory: pytest.TempPathFactory, shared: Shared) -> Callable[[str], Path]:
    """save_all(script) -> the folder filled by one of our scripts, once for all processes of the test run."""

    def make(script: str) -> str:
        folder = tmp_path_factory.mktemp("saved")
        run(script, folder)
        return str(folder)

    return lambda script: Path(shared(Path(script).stem, lambda: make(script)))


@pytest.fixture(scope="session")
def saved_by_v1(save_all: Callable[[str], Path]) -> Path:
    """A folder per layout, with a checkpoint from each way in which Orbax's v1 saves."""
    return save_all("saver_v1.py")


@pytest.fixture(scope="session")
def trees(save_all: Callable[[str], Path]) -> Path:
    """The folder of a run per API, with one training state in the tree of each API; see saver_trees.py."""
    return save_all("saver_trees.py")


@pytest.fixture
def run_folder(save: Save, tmp_path: Path) -> Path:
    """A copy of a run with the checkpoints 0 and 9, for changes."""
    return Path(shutil.copytree(save(), tmp_path / "run"))


@pytest.fixture
def step_folder(run_folder: Path) -> Path:
    return run_folder / "checkpoints" / "9"
