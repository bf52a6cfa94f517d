"""Environments with a stand-in MaxText, which prints and writes like the real one but does not compute."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.schema import TrainConfig

API_KEYS = ("enable_nnx", "pure_nnx_decoder", "pure_nnx")
OURS = frozenset(TrainConfig.model_fields)
STANDIN = Path(__file__).parents[3] / "standins" / "maxtext" / "train.py"


def write_package(folder: Path, *, keys: frozenset[str], linen: bool = True, nnx: bool = True) -> Path:
    """Write a minimal MaxText package: the files that maxview reads."""
    package = folder / "maxtext"
    for name in ("__init__.py", "trainers/__init__.py", "trainers/pre_train/__init__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    shutil.copy(STANDIN, package / "trainers/pre_train/train.py")
    for name, has in (("decoders.py", linen), ("nnx_decoders.py", nnx)):
        if has:
            (package / "layers").mkdir(exist_ok=True)
            (package / "layers" / name).touch()
    (package / "configs").mkdir()
    (package / "configs/base.yml").write_text("".join(f"{key}: 0\n" for key in sorted(keys)))
    return package


@pytest.fixture(scope="session")
def make_python(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """make_python(version, linen=…, nnx=…): the Python of an environment with such a MaxText."""

    def make(version: str, *, linen: bool = True, nnx: bool = True) -> Path:
        folder = tmp_path_factory.mktemp(f"maxtext-{version}")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        python = folder / "bin" / "python"
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        done = subprocess.run([python, "-I", "-c", where], capture_output=True, text=True, check=True)
        packages = Path(done.stdout.strip())
        both = frozenset(API_KEYS) if linen and nnx else frozenset()
        keys = OURS - {"pure_nnx"} | both | {"skip_jax_distributed_system"}
        write_package(packages, keys=keys, linen=linen, nnx=nnx)
        (packages / f"maxtext-{version}.dist-info").mkdir()
        metadata = f"Metadata-Version: 2.1\nName: maxtext\nVersion: {version}\n"
        (packages / f"maxtext-{version}.dist-info" / "METADATA").write_text(metadata)
        return python

    return make


@pytest.fixture(scope="session")
def python_024(make_python: Callable[..., Path]) -> Path:
    """The Python of a MaxText 0.2.4 stand-in, which has both implementations."""
    return make_python("0.2.4")


@pytest.fixture(autouse=True)
def _no_maxtext_of_the_caller(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Unset the caller's MaxText, except in tests with a real one."""
    if "real_python" not in request.fixturenames:
        monkeypatch.delenv("MAXVIEW_MAXTEXT_PYTHON", raising=False)


@pytest.fixture
def real_python() -> Path:
    """The Python of an environment with a real MaxText; skips without one."""
    named = os.environ.get("MAXVIEW_MAXTEXT_PYTHON")
    if not named:
        pytest.skip("MAXVIEW_MAXTEXT_PYTHON does not name the Python of an environment with MaxText")
    return Path(named)


@pytest.fixture
def write_maxtext() -> Callable[..., Path]:
    """write_maxtext(folder): a MaxText package in a folder of sources."""
    return lambda folder: write_package(folder, keys=OURS | frozenset(API_KEYS))


@pytest.fixture
def git() -> Callable[..., str]:
    """git(folder, *words)."""

    def run(folder: Path, *words: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "tag.gpgSign=false"]
        done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    return run
