"""Commands that are typed after `--`: the comparison that is made of them."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from configs.comparison import load_comparison
from configs.errors import ConfigError
from configs.names import find, list_names
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.twin_files import read_twin
from questions.invariants.twin_plans import plan_twins
from tasks.resolve import typed_command
from tasks.resolve.typed_command import CASE, write_typed, write_typed_twin

pytestmark = pytest.mark.flows

PROJECTS = """\
trainer: command
command: {argv: ["{python}", train.py]}
target: cpu
cases: [01_base]
repeats: 1
tolerances: default
arms: [{name: baseline, ref: main}, {name: branch, ref: .}]
"""


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words], cwd=folder, check=True)


@pytest.fixture(autouse=True)
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a clone with one commit on its branch `master`."""
    folder = tmp_path / "trainer"
    (folder / "sub").mkdir(parents=True)
    (folder / "train.py").write_text("print()\n")
    git(folder, "init", "-q", "-b", "master")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    monkeypatch.setenv("MAXVIEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(folder)
    return folder


def test_the_main_branch_is_compared_with_the_working_tree(clone: Path) -> None:
    spec = load_comparison(write_typed(["python", "train.py", "--lr", "0.1"]))
    assert [(arm.name, arm.ref) for arm in spec.arms] == [("baseline", "master"), ("branch", ".")]
    assert spec.command is not None
    assert spec.command.argv == ("{python}", "train.py", "--lr", "0.1")
    assert (spec.command.copied, spec.command.within, spec.command.ended) == (True, None, False)
    assert (spec.repository, spec.cases) == (str(clone), (CASE,))
    assert spec.question.endswith("python train.py --lr 0.1")
    assert find("cases", CASE).is_file()


def test_a_typed_comparison_is_found_and_not_listed() -> None:
    name = write_typed(["python", "train.py"])
    assert name.startswith("train-")
    assert name not in list_names("comparisons")
    assert write_typed(["python", "train.py"]) == name
    assert write_typed(["python", "train.py", "--lr=1"]) != name


@pytest.mark.parametrize(
    ("word", "template"),
    [
        ("{out}/x", "{out}/x"),
        ('{"lr": 1}', '{{"lr": 1}}'),
        ("--steps={steps}", "--steps={steps}"),
        ("{}", "{{}}"),
        ("CLONE/tiny.yml", "{checkout}/tiny.yml"),
        ("--data=CLONE", "--data={checkout}"),
        ("CLONE2/tiny.yml", "CLONE2/tiny.yml"),
        ("/x CLONE", "/x {checkout}"),
    ],
)
def test_braces_are_literal_and_the_clone_is_the_runs_copy(clone: Path, word: str, template: str) -> None:
    spec = load_comparison(write_typed(["python", word.replace("CLONE", str(clone))]))
    assert spec.command is not None
    assert spec.command.argv[1] == template.replace("CLONE", str(clone))


def test_a_subfolder_is_where_the_command_starts(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone / "sub")
    spec = load_comparison(write_typed(["python", "../train.py"]))
    assert spec.command is not None
    assert (spec.command.within, spec.repository) == ("sub", str(clone))


@pytest.mark.parametrize(("words", "ended"), [(["python", "t.py"], True), (["python", "t.py", "--n={steps}"], False)])
def test_steps_end_a_run_unless_the_command_takes_them(words: Sequence[str], ended: bool) -> None:
    name = write_typed(words, 12)
    spec = load_comparison(name)
    assert spec.command is not None
    assert (spec.command.ended, json.loads(find("comparisons", name).read_text().split("\n", 1)[1])["set"]) == (
        ended,
        {"steps": 12},
    )


def test_the_projects_own_environment_is_its_python(clone: Path) -> None:
    (clone / ".venv" / "bin").mkdir(parents=True)
    python = clone / ".venv" / "bin" / "python"
    python.symlink_to(sys.executable)
    spec = load_comparison(write_typed(["python3", "train.py"]))
    assert [arm.python for arm in spec.arms] == [str(python)] * 2


def test_another_program_keeps_its_name(clone: Path) -> None:
    spec = load_comparison(write_typed(["bash", "-c", "true"]))
    assert spec.command is not None
    assert spec.command.argv == ("bash", "-c", "true")
    assert [arm.python for arm in spec.arms] == [None, None]


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "type the command after `--`"), (["pyton", "train.py"], "pyton: there is no such program")],
)
def test_what_cannot_be_started_is_refused(words: Sequence[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        write_typed(words)


def test_a_folder_without_a_clone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not os.path.exists(".git")
    with pytest.raises(ConfigError, match="is no git clone, and the versions to compare are its branches"):
        write_typed(["python", "train.py"])


def test_a_clone_without_a_main_branch_is_refused(clone: Path) -> None:
    git(clone, "branch", "-q", "-m", "mine")
    with pytest.raises(ConfigError, match="has no branch main or master or trunk or develop: name one with --baseline"):
        write_typed(["python", "train.py"])
    spec = load_comparison(write_typed(["python", "train.py"], baseline="HEAD~1"))
    assert spec.arms[0].ref == "HEAD~1"


# ---------------------------------------------------------------- two command lines


def test_a_typed_twin_is_a_file_with_both_sides(clone: Path) -> None:
    path, python = write_typed_twin(["python", "train.py", '{"lr": 1}', "{out}"], "--batch 8", "--batch '4 2'")
    twin = read_twin(path)
    assert twin.command == ("{python}", "train.py", '{"lr": 1}', "{out}")
    assert twin.sides == (("--batch", "8"), ("--batch", "4 2"))
    assert (twin.folder, twin.copied) == (str(clone), True)
    assert Path(python).name.startswith("python")
    pair = plan_twins(InvariantsOptions(trainer="command", software=(python,)), [twin], clone.parent / "o")[0][0]
    assert pair.plans is not None
    left, right = pair.plans
    assert left.argv == (python, "train.py", '{"lr": 1}', left.directory, "--batch", "8")
    assert left.directory != right.directory
    assert left.source == f"{left.directory}/work"


def test_a_twin_that_does_not_differ_is_refused() -> None:
    path, _ = write_typed_twin(["python", "train.py"], "", "")
    with pytest.raises(ConfigError, match="left and right are equal"):
        read_twin(path)


# ---------------------------------------------------------------- a project's own folder


def test_a_projects_comparison_is_found_from_its_subfolders(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = clone / ".maxview" / "comparisons"
    own.mkdir(parents=True)
    (own / "tiny.yml").write_text("")
    monkeypatch.chdir(clone / "sub")
    assert "tiny" in list_names("comparisons")
    assert find("comparisons", "tiny") == own / "tiny.yml"
    monkeypatch.chdir(clone.parent)
    assert "tiny" not in list_names("comparisons")


def test_a_projects_comparison_needs_no_comment_and_no_repository(clone: Path) -> None:
    own = clone / ".maxview" / "comparisons"
    own.mkdir(parents=True)
    (own / "tiny.yml").write_text(PROJECTS)
    spec = load_comparison("tiny")
    assert (spec.repository, spec.cases) == (str(clone), ("01_base",))
    assert "tiny" in spec.question
    (own / "tiny.yml").write_text(f"# Is it faster?\nrepository: /other\n{PROJECTS}")
    assert (load_comparison("tiny").question, load_comparison("tiny").repository) == ("Is it faster?", "/other")


def test_a_folder_above_the_clone_is_not_read(clone: Path) -> None:
    (clone.parent / ".maxview" / "comparisons").mkdir(parents=True)
    (clone.parent / ".maxview" / "comparisons" / "tiny.yml").write_text("")
    assert "tiny" not in list_names("comparisons")


def test_settings_of_libraries_are_the_callers(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys stay with the caller, and a target's own settings with the target."""
    given = {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "WANDB_API_KEY": "secret", "JAX_PLATFORMS": "cuda"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    command = load_comparison(write_typed(["python", "train.py"])).command
    assert command is not None
    assert {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1"}.items() <= command.environment.items()
    assert not {"WANDB_API_KEY", "JAX_PLATFORMS"} & command.environment.keys()


def test_an_absolute_folder_of_outputs_is_not_shared(clone: Path) -> None:
    """The second arm would resume from the first one's checkpoints."""
    command = load_comparison(write_typed(["python", "train.py", "--workdir=/tmp/run"])).command
    assert command is not None
    assert command.argv[-1] == "--workdir={out}/run"


@pytest.mark.parametrize(("count", "target"), [(8, "cpu-8"), (1, "cpu"), (3, "cpu")])
def test_simulated_devices_are_the_callers(
    clone: Path, monkeypatch: pytest.MonkeyPatch, count: int, target: str
) -> None:
    monkeypatch.setattr(typed_command, "ACCELERATORS", {})
    monkeypatch.setenv("XLA_FLAGS", f"--xla_force_host_platform_device_count={count}")
    assert load_comparison(write_typed(["python", "train.py"])).target == target
