"""From a comparison's file to the command of each arm trained by MaxText; and the records of such runs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.comparison import Arm
from configs.errors import ConfigError
from configs.read import CONFIG_ROOT
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.twin_files import load_twins
from questions.invariants.twin_plans import plan_twins
from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.examine.floors import floors_of
from tasks.diff.judge.judge_case import judge
from tasks.diff.judge.suggested_commands import options_of_arms
from tasks.ingest.run_record import build_record
from tasks.launch import job
from tasks.launch.local.process_group import build_environment
from tasks.launch.logs import watch
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.resolve.checkout import check_checkout
from tasks.resolve.plans import Request, resolve
from tasks.resolve.trainers.maxtext_trainer import MaxTextTrainer
from tasks.resolve.trainers.trainer import SOURCE
from tasks.scrape.read_log import scrape_run
from tasks.store.store import Store
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type MakePython = Callable[..., Path]


@pytest.fixture
def plans_of(tmp_path: Path, tree: Path) -> Callable[..., list[RunPlan]]:
    """plans_of(comparison, *software): the plans, nothing launched."""

    def run(
        comparison: str, *software: str, overrides: tuple[str, ...] = ("steps=3",), **changes: Any
    ) -> list[RunPlan]:
        request = Request(comparison=comparison, overrides=overrides, arms={"software": software}, **changes)
        return resolve(request, tmp_path / "out", cache=tmp_path / "cache", root=tree)

    return run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The configs, in a copy where a test may add comparisons."""
    ignored = shutil.ignore_patterns("*.py", "__pycache__")
    return Path(shutil.copytree(CONFIG_ROOT, tmp_path / "configs", ignore=ignored))


def write_comparison(tree: Path, *arms: str, trainer: str = "maxtext", more: str = "") -> None:
    head = f"# Whether it works.\ntrainer: {trainer}\ntarget: cpu\ncases: [01_base]\nrepeats: 1\ntolerances: default\n"
    (tree / "comparisons" / "mine.yml").write_text(f"{head}arms:\n" + "".join(f"  - {arm}\n" for arm in arms) + more)


def words_of(plan: RunPlan) -> dict[str, str]:
    return dict(word.split("=", 1) for word in plan.argv[4:])


def both(python: Path) -> tuple[str, str]:
    return f"linen:{python}", f"nnx:{python}"


# ---------------------------------------------------------------- plans


def test_both_implementations_of_one_release(plans_of: Callable[..., list[RunPlan]], python_024: Path) -> None:
    linen, nnx = plans_of("maxtext-linen-vs-nnx", *both(python_024))
    for plan, chosen in ((linen, "false"), (nnx, "true")):
        assert plan.trainer == "maxtext"
        assert plan.argv[:3] == (str(python_024), "-m", "maxtext.trainers.pre_train.train")
        words = words_of(plan)
        assert [words[key] for key in ("enable_nnx", "pure_nnx_decoder", "pure_nnx")] == [chosen] * 3
        assert words["metrics_file"] == f"{plan.directory}/metrics.jsonl"
        assert f"{words['base_output_directory']}/{words['run_name']}" == plan.directory
        assert plan.versions["maxtext"] == "0.2.4"
        assert plan.environment["DECOUPLE_GCLOUD"] == "TRUE"
        assert plan.commit is None
        assert plan.checkout is None
    assert linen.identity != nnx.identity


def test_a_release_with_one_implementation_refuses_the_other(
    plans_of: Callable[..., list[RunPlan]], make_python: MakePython
) -> None:
    newer = make_python("0.2.5", linen=False)
    with pytest.raises(ConfigError, match=r"MaxText 0\.2\.5: .*MaxText 0\.2\.4 "):
        plans_of("maxtext-linen-vs-nnx", *both(newer))


def test_two_releases_are_two_trainers(
    plans_of: Callable[..., list[RunPlan]], make_python: MakePython, python_024: Path
) -> None:
    older, newer = plans_of("maxtext-releases", f"older:{python_024}", f"newer:{make_python('0.2.5', linen=False)}")
    assert (older.versions["maxtext"], newer.versions["maxtext"]) == ("0.2.4", "0.2.5")
    assert "pure_nnx" in words_of(older)
    assert "pure_nnx" not in words_of(newer)


def test_a_changed_source_is_another_run(plans_of: Callable[..., list[RunPlan]], make_python: MakePython) -> None:
    """An editable install keeps its version after any change."""
    python = make_python("0.2.4")
    before = plans_of("maxtext-linen-vs-nnx", *both(python))
    assert [plan.identity for plan in plans_of("maxtext-linen-vs-nnx", *both(python))] == [p.identity for p in before]
    package = next(python.parent.parent.rglob("maxtext/__init__.py"))
    package.write_text("changed = True\n")
    after = plans_of("maxtext-linen-vs-nnx", *both(python))
    assert after[0].versions[SOURCE] != before[0].versions[SOURCE]
    assert not {plan.identity for plan in before} & {plan.identity for plan in after}


def test_the_variable_is_used_without_another_setting(
    plans_of: Callable[..., list[RunPlan]], python_024: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"maxtext: no MaxText is given\. .* `--with maxtext:maxtext==") as caught:
        plans_of("maxview-vs-maxtext")
    assert "export MAXVIEW_MAXTEXT_PYTHON=" in str(caught.value)
    monkeypatch.setenv("MAXVIEW_MAXTEXT_PYTHON", str(python_024))
    ours, theirs = plans_of("maxview-vs-maxtext")
    assert (ours.trainer, theirs.trainer) == ("maxview", "maxtext")
    assert ours.argv[1:3] == ("-m", "model.train")
    assert theirs.argv[0] == str(python_024)


def test_packages_without_a_version_of_maxtext(plans_of: Callable[..., list[RunPlan]]) -> None:
    for word in ("jax==0.11.0", "maxtext"):
        with pytest.raises(ConfigError, match="which MaxText"):
            plans_of("maxview-vs-maxtext", f"maxtext:{word}")


def test_a_python_without_maxtext(plans_of: Callable[..., list[RunPlan]]) -> None:
    with pytest.raises(ConfigError, match=r"has no MaxText \(uv pip install"):
        plans_of("maxview-vs-maxtext", f"maxtext:{sys.executable}")


def test_a_value_unsupported_by_maxtext_is_reported_for_the_arm(
    plans_of: Callable[..., list[RunPlan]], tree: Path, python_024: Path
) -> None:
    write_comparison(tree, "{name: a}", "{name: b, set: {pure_nnx: true}}")
    base = next(python_024.parent.parent.rglob("maxtext/configs/base.yml"))
    text = base.read_text()
    try:
        base.write_text(text.replace("dropout_rate: 0\n", ""))
        with pytest.raises(ConfigError) as caught:
            plans_of("mine", f"a:{python_024}", f"b:{python_024}")
    finally:
        base.write_text(text)
    (problem,) = caught.value.problems  # once, not for every run
    assert problem.startswith("MaxText 0.2.4: has no key 'dropout_rate'")


# ---------------------------------------------------------------- checkouts


@pytest.fixture
def maxtext_repository(tmp_path: Path, write_maxtext: Callable[..., Path], git: Callable[..., str]) -> Path:
    """A minimal clone of MaxText: main, and a branch with another file."""
    folder = tmp_path / "maxtext-clone"
    write_maxtext(folder / "src")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "checkout", "-q", "-b", "feat/x")
    (folder / "src/maxtext/added.py").write_text("x = 1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "two")
    return folder


def test_each_arm_runs_its_own_commit_of_maxtext(
    plans_of: Callable[..., list[RunPlan]], tree: Path, maxtext_repository: Path, python_024: Path,
    git: Callable[..., str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("MAXVIEW_MAXTEXT_PYTHON", str(python_024))
    write_comparison(
        tree, "{name: baseline, ref: main}", "{name: branch, ref: feat/x}", more=f"repository: {maxtext_repository}\n"
    )
    baseline, branch = plans_of("mine")
    assert (baseline.ref, branch.ref) == ("main", "feat/x")
    assert baseline.commit == git(maxtext_repository, "rev-parse", "main")
    assert baseline.versions[SOURCE] != branch.versions[SOURCE]
    assert "maxtext" not in baseline.versions  # a checkout is not a release
    for plan in (baseline, branch):
        assert plan.checkout is not None
        assert plan.argv[3] == f"{plan.checkout}/maxtext/configs/base.yml"
        # it starts there, so that its source precedes the release in the same environment
        Path(plan.directory).mkdir(parents=True)
        done = subprocess.run(
            plan.argv, cwd=plan.checkout, env=build_environment(plan, os.environ), capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        assert f"started in {plan.checkout}" in done.stdout
        check_checkout(plan.checkout, str(plan.commit))  # a changed checkout could not be reused


def test_one_commit_in_both_implementations_is_a_comparison(
    plans_of: Callable[..., list[RunPlan]], tree: Path, maxtext_repository: Path, python_024: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("MAXVIEW_MAXTEXT_PYTHON", str(python_024))
    more = f"repository: {maxtext_repository}\n"
    write_comparison(tree, "{name: a, ref: main, set: {pure_nnx: true}}", "{name: b, ref: main}", more=more)
    assert len({plan.commit for plan in plans_of("mine")}) == 1
    write_comparison(tree, "{name: a, ref: main}", "{name: b, ref: main}", more=more)
    with pytest.raises(ConfigError, match="would be compared with itself"):
        plans_of("mine")


def test_a_release_against_a_commit(
    plans_of: Callable[..., list[RunPlan]], tree: Path, maxtext_repository: Path, python_024: Path
) -> None:
    where = f"ref: feat/x, repository: {maxtext_repository}, python: {python_024}"
    write_comparison(tree, f"{{name: release, python: {python_024}}}", f"{{name: branch, {where}}}")
    release, branch = plans_of("mine")
    assert (release.ref, branch.ref) == (None, "feat/x")
    assert (release.versions["maxtext"], release.checkout) == ("0.2.4", None)
    assert branch.checkout is not None
    # no --branch: the request has none for a comparison with one ref
    software = ["--with", f"release:{python_024}", "--with", f"branch:{python_024}"]
    assert options_of_arms([release, branch]) == software


def test_a_ref_needs_a_repository(plans_of: Callable[..., list[RunPlan]], tree: Path, wording: Wording) -> None:
    write_comparison(tree, "{name: a, ref: main}", "{name: b, ref: main}")
    with pytest.raises(ConfigError, match=r"a: .*`repository:`") as error:
        plans_of("mine")
    wording("errors", error.value)


def test_fields_of_an_arm_that_exclude_each_other(
    tree: Path, plans_of: Callable[..., list[RunPlan]], wording: Wording
) -> None:
    write_comparison(tree, "{name: a, image: 'i:1', packages: [jax]}", "{name: b}", trainer="maxview")
    with pytest.raises(ConfigError, match=r"a: .*packages, python and image") as error:
        plans_of("mine")
    wording("errors", error.value)
    write_comparison(tree, "{name: a, repository: /x}", "{name: b}")
    with pytest.raises(ConfigError, match="a: a repository ") as error:
        plans_of("mine")
    wording("errors", error.value)


# ---------------------------------------------------------------- in a pod

VARIABLES = {
    "MAXVIEW_CLUSTER": "c", "MAXVIEW_PROJECT": "p", "MAXVIEW_ZONE": "us-east5-b", "MAXVIEW_IMAGE": "gcr.io/p/maxtext:1",
}  # fmt: skip


@pytest.fixture
def on_a_cluster(monkeypatch: pytest.MonkeyPatch, python_024: Path) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MAXVIEW_MAXTEXT_PYTHON", str(python_024))


@pytest.mark.usefixtures("on_a_cluster")
@pytest.mark.parametrize("shared", ["true", "false"])
def test_a_pod_runs_maxtext(
    shared: str, plans_of: Callable[..., list[RunPlan]], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAXVIEW_SHARED_OUT", shared)
    write_comparison(tree, "{name: a, set: {pure_nnx: false}}", "{name: b, set: {pure_nnx: true}}")
    plan = plans_of("mine", target="v6e-32")[1]
    assert plan.argv[:4] == ("python", "-m", "maxtext.trainers.pre_train.train", "src/maxtext/configs/base.yml")
    words = words_of(plan)
    assert (words["pure_nnx"], words["hardware"]) == ("true", "tpu")
    assert "skip_jax_distributed_system" not in words  # the pods of a slice must find each other
    assert words["metrics_file"] == '""'  # every process would append to it, also in a shared folder
    assert "DECOUPLE_GCLOUD" not in plan.environment
    assert plan.launch is not None
    assert plan.launch.image == "gcr.io/p/maxtext:1"
    assert plan.versions == {}  # the image's versions are unknown before the run


@pytest.mark.usefixtures("on_a_cluster")
def test_an_image_must_have_the_version_whose_keys_are_read(
    plans_of: Callable[..., list[RunPlan]], tree: Path, python_024: Path
) -> None:
    write_comparison(
        tree, f"{{name: a, image: 'gcr.io/p/a:1', python: {python_024}}}", "{name: b, image: 'gcr.io/p/b:1'}"
    )
    first, second = plans_of("mine", target="v6e-32")
    assert [plan.launch.image for plan in (first, second) if plan.launch] == ["gcr.io/p/a:1", "gcr.io/p/b:1"]
    assert first.software == ("image gcr.io/p/a:1",)
    with pytest.raises(ConfigError, match="cpu runs no images"):
        plans_of("mine")


# ---------------------------------------------------------------- runs


def run_to_its_end(plan: RunPlan, store: Store) -> RunRecord:
    directory = store.run(plan.run_name)
    launched = job.launch_or_attach(plan, directory)
    list(watch(job.follow(launched, poll_s=0.05)))
    return build_record(plan, directory, scrape_run(directory.log), [])


def test_runs_become_records_and_a_comparison(
    plans_of: Callable[..., list[RunPlan]],
    python_024: Path,
    tmp_path: Path,
    wording: Wording,
) -> None:
    plans = plans_of("maxtext-linen-vs-nnx", *both(python_024))
    assert not job.proves_by_restoring(plans[1], plans[0])
    store = Store(tmp_path / "out")
    records = tuple(run_to_its_end(plan, store) for plan in plans)
    for plan, record in zip(plans, records, strict=True):
        assert record.reading.exit_code == 0
        assert record.label == f"{plan.arm} · MaxText 0.2.4"
        assert record.metrics is not None
        assert record.metrics["step"].to_list() == [0, 1, 2]
        assert record.metrics["loss"][1] != pytest.approx(record.reading.steps["loss"][1], abs=1e-6)  # in full
        log = Path(record.log).read_text()
        assert f"started in {plan.directory}" in log  # not where packages of ours would be found
    runs = CaseRuns(comparison="maxtext-linen-vs-nnx", case="01_base", target="cpu", runs=records)
    result = judge(examine(runs))
    floors = {floor.name: (floor.holds, floor.evidence) for floor in result.floors}
    assert floors["same program"][0] is None
    wording("reasons", floors["same program"][1])
    assert floors["same bits"] == (False, "loss differs at step 0: 9.0 and 8.99")
    assert not [finding for finding in result.findings if finding.kind in ("same-commit", "environment-variable")]


def test_with_equal_metrics_the_bits_are_still_not_proved(
    plans_of: Callable[..., list[RunPlan]],
    python_024: Path,
    tmp_path: Path,
    tree: Path,
    wording: Wording,
) -> None:
    write_comparison(tree, "{name: a, set: {steps: 3}}", "{name: b, set: {steps: 3}}")
    plans = plans_of("mine", f"a:{python_024}", f"b:{python_024}", overrides=())
    store = Store(tmp_path / "out")
    records = tuple(run_to_its_end(plan, store) for plan in plans)
    arms = [ArmRuns(name=record.arm, label=record.label, runs=(record,)) for record in records]
    bits = next(floor for floor in floors_of(arms) if floor.name == "same bits")
    assert bits.holds is None
    assert bits.evidence.startswith("loss, grad_norm, param_norm ")
    wording("reasons", bits.evidence)


def test_a_missing_maxtext(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAXVIEW_MAXTEXT_PYTHON", raising=False)
    with pytest.raises(ConfigError, match="a: no MaxText is given"):
        MaxTextTrainer.find(Arm(name="a"), None, tmp_path, None)
    monkeypatch.setenv("MAXVIEW_MAXTEXT_PYTHON", os.devnull)
    with pytest.raises(ConfigError, match="cannot be run"):
        MaxTextTrainer.find(Arm(name="a"), None, tmp_path, None)


def test_twins_of_a_release_without_linen_are_written_in_nnx(make_python: MakePython, tmp_path: Path) -> None:
    request = InvariantsOptions(trainer="maxtext", software=(str(make_python("0.2.5", linen=False)),))
    (pair,), _ = plan_twins(request, load_twins(("scan",)), tmp_path)
    assert pair.plans is not None, pair.why_not
    assert [words_of(plan)["scan_layers"] for plan in pair.plans] == ["true", "false"]
    assert [plan.config["pure_nnx"] for plan in pair.plans] == [True, True]
