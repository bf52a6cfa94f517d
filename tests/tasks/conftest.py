"""Plans that run a line of Python instead of a trainer, a repository with two trainers that only print, and logs: made
here, and of the founding documents.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
from tasks.store.store import Store

ROOT = Path(__file__).parent.parent.parent
OBSERVED = ROOT / "tests" / "standins" / "observed" / "trainer.py"
STEP = (
    "completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {tflops:.3f}, Tokens/s/device: {tokens:.3f}, "
    "total_weights: 65536, loss: {loss:.3f}, lm_loss: {loss:.3f}, perplexity: {perplexity:.3f}"
)


class MadeLogs:
    """Pieces of MaxText logs."""

    @staticmethod
    def line(text: str, second: int = 0, source: str = "metric_logger.py:196") -> str:
        """A line as absl prints it."""
        clock = f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000000"
        return f"I0418 {clock} 135104514455360 {source}] {text}"

    @staticmethod
    def step_text(step: int, *, seconds: float = 0.148, loss: float = 8.125) -> str:
        """The text of a step line as MaxText 0.2.4 prints it."""
        return STEP.format(
            step=step, seconds=seconds, tflops=13.59 / seconds, tokens=2048 / seconds, loss=loss, perplexity=2.0**loss
        )

    @classmethod
    def step(cls, step: int, *, seconds: float = 0.148, loss: float = 8.125) -> str:
        """A step line; one per second."""
        return cls.line(cls.step_text(step, seconds=seconds, loss=loss), second=step)

    @classmethod
    def steps(cls, count: int) -> list[str]:
        """A number of step lines."""
        return [cls.step(step, loss=9 - step / 1000) for step in range(count)]

    @staticmethod
    def framed(*lines: str, code: int = 0) -> bytes:
        """The log of a run in an XPK pod that started and ended."""
        return (
            "XPK Start: Sat Apr 18 00:00:00 UTC 2026\n"
            + "".join(f"{line}\n" for line in lines)
            + f"XPK End: Sat Apr 18 01:00:00 UTC 2026\nEXIT_CODE={code}\n"
        ).encode()


@pytest.fixture(scope="session")
def logs() -> type[MadeLogs]:
    """Pieces of MaxText logs, to be put together."""
    return MadeLogs


@pytest.fixture(scope="session")
def seeds() -> Path:
    """The folder of the founding documents."""
    folder = os.environ.get("MAXVIEW_SEEDS")
    if not folder:
        pytest.skip("MAXVIEW_SEEDS does not name the folder of the founding documents")
    return Path(folder)


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
    """Branches main and feat/x, with different trainers."""
    return make_repository(tmp_path / "repository")


@pytest.fixture
def run_git(repository: Path) -> Callable[..., str]:
    """git(*words) in the repository."""
    return lambda *words: git(repository, *words)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small trainer's copies: a folder per arm, with the text of the newest plan."""
    return tmp_path_factory.mktemp("sources")


@pytest.fixture
def plan_of(make_plan: Callable[..., RunPlan], sources: Path, tmp_path: Path) -> Callable[..., RunPlan]:
    """A plan that trains an edited copy of the small trainer, or another program's text.

    Its processes share the compiled programs of the test run: compiling takes most of such a training. In an observed
    process a program is shared only if its source lines, with the file's path, are equal too.
    """
    cache = {
        "JAX_COMPILATION_CACHE_DIR": os.environ["JAX_COMPILATION_CACHE_DIR"],
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }

    def plan(arm: str, *edits: tuple[str, str], text: str = "", words: tuple[str, ...] = ()) -> RunPlan:
        source = text or OBSERVED.read_text()
        for old, new in edits:
            assert old in source
            source = source.replace(old, new)
        file = sources / arm / "trainer.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        directory = tmp_path / "out" / "runs" / arm
        directory.mkdir(parents=True, exist_ok=True)
        return make_plan(
            "", arm=arm, trainer="command", backend="local", run_name=arm, directory=str(directory),
            argv=(sys.executable, str(file), *words), environment={"JAX_PLATFORMS": "cpu", **cache}, time_limit_s=300,
            passed_on=("PATH", "HOME"),
        )  # fmt: skip

    return plan
