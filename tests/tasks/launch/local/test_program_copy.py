"""The copy of a custom program in the folder of its run."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.launch.local import program_copy
from tasks.launch.local.process_group import build_environment, start_folder
from tasks.launch.local.program_copy import copy_program
from tasks.records.plan import RunFiles, RunPlan

pytestmark = pytest.mark.flows

type MakePlan = Callable[..., RunPlan]


@pytest.fixture
def plan(tmp_path: Path, make_plan: MakePlan) -> RunPlan:
    """The plan of a run that starts in the folder `sub` of its copy."""
    clone, checkout = tmp_path / "clone", tmp_path / "checkout"
    for folder in (clone, checkout):
        (folder / "sub").mkdir(parents=True)
        (folder / "train.py").write_text("print()\n")
    (clone / ".gitignore").write_text("data/\n*.bin\n.venv/\n__pycache__/\n")
    for name in ("data/a.txt", "tokens.bin", ".venv/pyvenv.cfg", "sub/__pycache__/x.pyc", "new.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(name)
    subprocess.run(["git", "init", "-q"], cwd=clone, check=True)
    (tmp_path / "run").mkdir()
    changes = {"directory": str(tmp_path / "run"), "checkout": str(checkout), "repository": str(clone)}
    return make_plan("", **changes, files=RunFiles(copy_at="sub"))


def test_a_copy_has_the_checkout_and_the_data_that_git_ignores(plan: RunPlan) -> None:
    copy_program(plan)
    assert plan.source is not None
    copy = Path(plan.source)
    files = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert files == {"train.py", "data/a.txt", "tokens.bin"}  # new.py belongs to the working tree, not to the checkout
    assert start_folder(plan) == copy / "sub"
    assert build_environment(plan, {})["PYTHONPATH"] == str(copy)


def test_a_resumed_run_keeps_its_copy(plan: RunPlan) -> None:
    copy_program(plan)
    result = Path(f"{plan.source}/sub/result.txt")
    result.write_text("one")
    copy_program(plan)
    assert result.read_text() == "one"


def test_large_data_are_linked(plan: RunPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_copy, "COPIED_BYTES", 0)
    copy_program(plan)
    assert Path(f"{plan.source}/data").is_symlink()


def test_other_runs_have_no_copy(tmp_path: Path, make_plan: MakePlan) -> None:
    plan = make_plan("", directory=str(tmp_path), checkout="/nowhere")
    copy_program(plan)
    assert plan.source == "/nowhere"
    assert not (tmp_path / "work").exists()
