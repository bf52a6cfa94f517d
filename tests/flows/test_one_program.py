"""Linen and NNX lower one program and run two host loops: a slower one of them is found by real trainings."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SMALL = ("--set", "steps=12", "--set", "max_target_length=32", "--case", "01_base")
RUN = "        leaves, metrics = self.compiled(arrays, batch)\n"
SLEEP = """\
        import sys, time
        if "model.train.trainer_nnx" in sys.modules:
            time.sleep(0.4)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the packages in which the host loop of NNX sleeps 0.4 s in each step."""
    folder = tmp_path / "tree"
    for package in ("configs", "model", "tasks", "flows"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    step = folder / "model" / "train" / "step.py"
    text = step.read_text()
    assert text.count(RUN) == 1
    step.write_text(text.replace(RUN, SLEEP + RUN))
    return folder


@pytest.mark.by_hand
def test_a_host_loop_that_sleeps_beside_an_equal_one_is_slower(
    tree: Path, tmp_path: Path, user_environment: dict[str, str]
) -> None:
    argv = [sys.executable, "-m", "flows.cli", "compare", "linen-vs-nnx", *SMALL, "--repeats", "2", "--json"]
    done = subprocess.run(
        [*argv, "--out", str(tmp_path / "o")],
        cwd=tree, env=user_environment | {"PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (record,) = json.loads(done.stdout)
    assert [floor["holds"] for floor in record["floors"]] == [True, True, True]
    assert (done.returncode, record["verdict"]) == (1, "regressed"), record["headline"]
    assert "same program; the host loop is slower" in record["headline"]
