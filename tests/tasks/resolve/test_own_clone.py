"""An installed maxview compares the refs of the clone that one stands in, or says which comparison fits there."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.comparison import load_comparison
from configs.errors import ConfigError
from questions.bisect.points import find_span
from tasks.records.plan import ArmOverrides
from tasks.resolve import arm_trainers, own_clone
from tasks.resolve.arm_trainers import prepare_trainers
from tasks.resolve.options import BisectOptions
from tasks.resolve.own_clone import find_own_clone
from tasks.resolve.trainers.trainer import Trainer
from tests.wording.sentences import Wording

type Git = Callable[..., str]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of packages of an installed maxview, which is no clone."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    for module in (own_clone, arm_trainers):
        monkeypatch.setattr(module, "HERE", folder)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return folder


@pytest.fixture
def compare(tmp_path: Path) -> Callable[..., Trainer]:
    def run(**options: str) -> Trainer:
        arms = ArmOverrides(**options)  # type: ignore[arg-type]
        return prepare_trainers(load_comparison("main-vs-branch"), arms, tmp_path / "cache")["branch"]

    return run


@pytest.mark.usefixtures("installed")
def test_the_clone_that_one_stands_in(
    repository: Path, run_git: Git, compare: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "model")
    run_git("checkout", "-q", "feat/x")
    trainer = compare()
    assert (trainer.ref, trainer.commit) == ("feat/x", run_git("rev-parse", "feat/x"))
    assert trainer.repository == str(repository)  # later commands name it
    (repository / "model" / "train.py").write_text("print('three')\n")
    assert compare().ref == "your tree (train.py)"
    assert find_span(BisectOptions(good="main", bad="feat/x")).repository == str(repository)


def test_a_clone_that_maxview_runs_from(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_clone, "HERE", repository)
    monkeypatch.chdir(tmp_path)
    assert find_own_clone() == str(repository)
    subprocess.run(["git", "worktree", "add", "-q", tmp_path / "other", "feat/x"], cwd=repository, check=True)
    monkeypatch.chdir(tmp_path / "other")
    assert find_own_clone() == str(tmp_path / "other")


def commit_file(folder: Path, name: str) -> Path:
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("")
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.mark.usefixtures("installed")
def test_in_another_clone_the_comparison_that_fits_is_named(
    tmp_path: Path,
    compare: Callable[..., Trainer],
    monkeypatch: pytest.MonkeyPatch,
    wording: Wording,
) -> None:
    monkeypatch.chdir(commit_file(tmp_path / "maxtext", "src/maxtext/train.py"))
    with pytest.raises(ConfigError, match=r"maxview compare maxtext-main-vs-branch --repository \.") as error:
        compare()
    wording("errors", error.value)
    monkeypatch.chdir(commit_file(tmp_path / "mine", "src/train.py"))
    with pytest.raises(ConfigError, match=r"`trainer: command` and `repository: .*/mine`") as refused:
        compare()
    assert len(refused.value.problems) == 1  # not one for each arm
    spec = load_comparison("main-vs-branch").replace(name="mine", repository=str(tmp_path / "mine"))
    monkeypatch.setattr(own_clone, "list_names", lambda _: ["mine"])
    monkeypatch.setattr(own_clone, "load_comparison", lambda _: spec)
    with pytest.raises(ConfigError, match=r"compare it with: maxview compare mine$"):
        compare()


def test_outside_of_every_clone(
    installed: Path,
    tmp_path: Path,
    compare: Callable[..., Trainer],
    monkeypatch: pytest.MonkeyPatch,
    wording: Wording,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="--repository") as refused:
        compare()
    assert str(installed) not in str(refused.value)  # its packages are nothing to the user
    wording("errors", refused.value)
