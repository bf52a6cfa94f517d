"""The arms of main-vs-branch run their own commits and software; comparing a commit with itself needs --aa."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.comparison import load_comparison
from configs.errors import ConfigError
from tasks.records.plan import ArmOverrides, RunPlan
from tasks.resolve.arm_trainers import apply_options, prepare_trainers
from tasks.resolve.checkout import CheckoutError
from tasks.resolve.plans import Request, resolve
from tasks.resolve.python_environments import (
    SoftwareError,
    check_packages,
    find_python,
    read_dependencies,
    unmet_requirements,
)
from tasks.resolve.trainers.trainer import SOURCE, Trainer, versions_of
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type Git = Callable[..., str]
SPEC = load_comparison("main-vs-branch")


@pytest.fixture
def place(repository: Path, tmp_path: Path) -> Callable[..., dict[str, Trainer]]:
    def run(**options: Any) -> dict[str, Trainer]:
        asked = {"baseline": "main", "branch": "feat/x", "repository": str(repository)} | options
        return prepare_trainers(SPEC, ArmOverrides(**asked), tmp_path / "cache")

    return run


@pytest.fixture
def plans_of(repository: Path, tmp_path: Path) -> Callable[..., list[RunPlan]]:
    def run(*, overrides: tuple[str, ...] = (), **options: Any) -> list[RunPlan]:
        asked = {"baseline": "main", "branch": "feat/x", "repository": str(repository)} | options
        request = Request(comparison="main-vs-branch", repeats=1, overrides=overrides, arms=ArmOverrides(**asked))
        return resolve(request, tmp_path / "out", cache=tmp_path / "cache")

    return run


def test_each_arm_runs_its_own_commit(plans_of: Callable[..., list[RunPlan]], run_git: Git) -> None:
    plans = {plan.arm: plan for plan in plans_of()}
    assert {arm: plan.ref for arm, plan in plans.items()} == {"baseline": "main", "branch": "feat/x"}
    assert {arm: plan.commit for arm, plan in plans.items()} == {
        "baseline": run_git("rev-parse", "main"),
        "branch": run_git("rev-parse", "feat/x"),
    }
    for plan, printed in ((plans["baseline"], "one"), (plans["branch"], "two")):
        assert not plan.dirty
        assert plan.checkout is not None
        done = subprocess.run(plan.argv, cwd=plan.checkout, capture_output=True, text=True, check=True)
        assert done.stdout == f"{printed}\n"  # the checkout's trainer, not the installed one
    assert plans["baseline"].versions[SOURCE] != plans["branch"].versions[SOURCE]
    assert plans["baseline"].identity != plans["branch"].identity


def test_each_arm_has_the_commits_that_the_other_lacks(plans_of: Callable[..., list[RunPlan]], run_git: Git) -> None:
    run_git("checkout", "-q", "feat/x")
    run_git("commit", "-q", "--allow-empty", "-m", "scale: <b>twice</b>")
    run_git("checkout", "-q", "main")
    run_git("commit", "-q", "--allow-empty", "-m", "only on main")
    plans = {plan.arm: plan for plan in plans_of()}
    assert [commit.subject for commit in plans["baseline"].commits] == ["only on main"]
    assert [commit.sha for commit in plans["branch"].commits] == run_git("rev-list", "main..feat/x").split()
    assert plans["branch"].commits[0].subject == "scale: <b>twice</b>"
    for remote in plans_of(repository=run_git("rev-parse", "--show-toplevel").join(("file://", ""))):
        assert remote.commits == ()  # a remote address has no clone to list them


def test_a_moved_branch_is_another_run_if_a_file_changed(
    plans_of: Callable[..., list[RunPlan]], run_git: Git, repository: Path
) -> None:
    before = [plan.run_name for plan in plans_of()]
    run_git("checkout", "-q", "feat/x")
    run_git("commit", "-q", "--allow-empty", "-m", "same files, another commit")
    assert [plan.run_name for plan in plans_of()] == before
    (repository / "model" / "train.py").write_text("print('three')\n")
    run_git("commit", "-q", "-a", "-m", "other files")
    after = [plan.run_name for plan in plans_of()]
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_a_commit_is_not_compared_with_itself(
    place: Callable[..., dict[str, Trainer]], run_git: Git, wording: Wording
) -> None:
    run_git("branch", "other-name", "main")
    sha = run_git("rev-parse", "main")
    with pytest.raises(ConfigError, match=f"'main' and 'other-name' .*{sha}.*--aa") as error:
        place(branch="other-name")
    wording("errors", error.value, SHA=sha)


def test_a_control_is_declared_and_needs_one_commit(
    place: Callable[..., dict[str, Trainer]], plans_of: Callable[..., list[RunPlan]]
) -> None:
    plans = plans_of(branch="main", aa=True)
    assert [plan.aa for plan in plans] == [True, True]
    assert plans[0].identity == plans[1].identity  # nothing but the arm's name differs
    assert plans[0].run_name != plans[1].run_name
    with pytest.raises(ConfigError, match="a control needs one commit"):
        place(aa=True)
    with pytest.raises(ConfigError, match="a control needs the same"):
        place(branch="main", aa=True, software=(f"branch:{sys.executable}",))


def test_every_problem_is_reported_at_once(place: Callable[..., dict[str, Trainer]]) -> None:
    with pytest.raises(ConfigError) as caught:
        place(baseline="mian", branch="no/such", software=("brnch:jax==1", "branch:not a requirement", "branch"))
    assert len(caught.value.problems) == 5
    assert "did you mean 'main'?" in str(caught.value)
    assert "did you mean 'branch'?" in str(caught.value)


@pytest.mark.parametrize("word", ["jax==0.11.0; touch x", "-r /etc/passwd", "--index-url=x", "jax\n--index-url=x", ""])
def test_hostile_packages(word: str) -> None:
    assert check_packages([word])


def test_ref_options_need_a_comparison_of_refs(tmp_path: Path) -> None:
    options = ArmOverrides(branch="feat/x", aa=True)
    with pytest.raises(ConfigError) as caught:
        prepare_trainers(load_comparison("linen-vs-nnx"), options, tmp_path)
    assert [line.split()[0] for line in caught.value.problems] == ["--branch", "--aa"]


def test_one_commit_on_two_pythons_is_a_comparison(place: Callable[..., dict[str, Trainer]], tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    checkouts = place(branch="main", software=(f"branch:{other}",))
    assert checkouts["branch"].python == str(other)
    assert checkouts["branch"].software == (f"python {other}",)
    assert checkouts["baseline"].software == ()


def test_a_path_that_is_not_a_python(place: Callable[..., dict[str, Trainer]], tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "tool").chmod(0o755)
    for path in (tmp_path / "tool", tmp_path / "missing"):
        with pytest.raises(ConfigError, match="is no Python"):
            place(software=(f"branch:{path}",))


def test_another_python_reports_its_own_versions(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    versions = versions_of(str(bare / "bin" / "python"))
    assert set(versions) == {"python"}  # no package is installed there
    assert "jax" in versions_of(sys.executable)


def test_a_commit_with_other_pins_requires_its_own_packages(
    place: Callable[..., dict[str, Trainer]], repository: Path, run_git: Git
) -> None:
    run_git("checkout", "-q", "feat/x")
    (repository / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["jax>=99", "numpy>=1", "zzz"]\n')
    run_git("add", "-A")
    run_git("commit", "-q", "-m", "pins")
    with pytest.raises(SoftwareError, match=r"'feat/x' requires jax>=99 \(installed: .*--with branch:project"):
        place()


def test_unmet_requirements_are_listed(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["jax>=0.12,<0.13", "flax<0.12"]\n')
    assert unmet_requirements(tmp_path, {"jax": "0.12.0.1", "flax": "0.12.12"}) == ["flax<0.12 (installed: 0.12.12)"]
    assert unmet_requirements(tmp_path / "none", {"jax": "0.12"}) == []


def test_no_index_has_the_members_of_a_checkouts_workspace(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    sources = '[tool.uv.sources]\nits-part = {workspace = true}\nforked = {git = "https://host/forked"}\n'
    project.write_text(f'[project]\ndependencies = ["jax>=0.12", "Its_Part>=1", "forked"]\n{sources}')
    assert [item.name for item in read_dependencies(project)] == ["jax", "forked"]


def test_a_repository_without_a_trainer(place: Callable[..., dict[str, Trainer]], run_git: Git) -> None:
    run_git("checkout", "-q", "feat/x")
    run_git("rm", "-q", "model/__init__.py")
    run_git("commit", "-q", "-m", "no package")
    with pytest.raises(CheckoutError, match=r"holds no trainer: model/__init__\.py missing"):
        place()


def test_keys_unknown_to_a_trainer_are_omitted_only_as_defaults(
    plans_of: Callable[..., list[RunPlan]],
    repository: Path,
    run_git: Git,
    wording: Wording,
) -> None:
    run_git("checkout", "-q", "feat/x")
    base = repository / "configs" / "base.yml"
    kept = [line for line in base.read_text().splitlines(keepends=True) if not line.startswith("dropout_rate:")]
    base.write_text("".join(kept))
    run_git("commit", "-q", "-a", "-m", "before dropout had a rate")
    plans = {plan.arm: plan for plan in plans_of()}
    assert "dropout_rate" in plans["baseline"].config
    assert "dropout_rate" not in plans["branch"].config
    with pytest.raises(ConfigError, match="command line: 'dropout_rate' ") as error:
        plans_of(overrides=("dropout_rate=0.2",))
    wording("errors", error.value)


def test_a_changed_default_is_a_change_of_its_arm(
    plans_of: Callable[..., list[RunPlan]], repository: Path, run_git: Git
) -> None:
    run_git("checkout", "-q", "feat/x")
    base, case = repository / "configs" / "base.yml", repository / "configs" / "cases" / "01_base.yml"
    base.write_text(base.read_text().replace("adam_b2: 0.95 ", "adam_b2: 0.951 ").replace("steps: 20 ", "steps: 21 "))
    case.parent.mkdir()
    case.write_text("gradient_accumulation_steps: 2\na_key_of_tomorrow: 1\n")
    run_git("add", "-A")
    run_git("commit", "-q", "-m", "another momentum")
    left, right = plans_of(overrides=("steps=30",))
    differing = {key: (value, right.config[key]) for key, value in left.config.items() if value != right.config[key]}
    del differing["run_name"]
    assert differing == {"adam_b2": (0.95, 0.951), "gradient_accumulation_steps": (1, 2)}
    assert left.origins["adam_b2"].startswith("configs/base.yml:")
    assert right.origins["adam_b2"].startswith("feat/x:configs/base.yml:")
    assert right.origins["gradient_accumulation_steps"] == "feat/x:configs/cases/01_base.yml:1"
    case.write_text("gradient_accumulation_steps: [\n")
    run_git("commit", "-q", "-a", "-m", "no YAML")
    with pytest.raises(ConfigError, match=r"cases/01_base\.yml:.*not valid YAML"):
        plans_of()


def test_options_override_the_file() -> None:
    options = ArmOverrides(baseline="v1", software=("branch:jax==0.11.0", "branch:flax==0.12.0"))
    baseline, branch = apply_options(SPEC, options)
    assert (baseline.ref, branch.ref) == ("v1", SPEC.arms[1].ref)
    assert branch.packages == ("jax==0.11.0", "flax==0.12.0")


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_packages_of_an_arm_override_the_projects_pins(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\ndependencies = ["idna==3.9"]\n')
    cache = tmp_path / "cache"
    python = find_python(("idna==3.7",), tmp_path, cache)
    show = [python, "-c", "import importlib.metadata as m; print(m.version('idna'))"]
    assert subprocess.run(show, capture_output=True, text=True, check=True).stdout == "3.7\n"
    assert find_python(("idna==3.7",), tmp_path, cache) == python
    assert find_python(("project",), tmp_path, cache) != python
    with pytest.raises(SoftwareError, match="cannot be installed"):
        find_python(("idna==0.0.1",), tmp_path, cache)
    # markdown-it-py requires another mdurl, and would fail at its first use
    with pytest.raises(SoftwareError, match=r"(?s)versions that go together.*markdown-it-py"):
        find_python(("markdown-it-py==3.0.0", "mdurl==0.0.1"), tmp_path, cache)
    assert len(list((cache / "environments").iterdir())) == 2  # no incomplete environment
