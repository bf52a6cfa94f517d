"""Arms with a custom trainer: the one in docs/custom-trainer.md, from its comparison to its verdict."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from configs.errors import ConfigError
from configs.read import CONFIG_ROOT
from questions.nightly.plan_night import plan_night
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.judge.judge_case import judge
from tasks.ingest.run_record import build_record
from tasks.launch import job
from tasks.launch.local.process_group import build_environment
from tasks.launch.logs import watch
from tasks.records.night import NightPlan
from tasks.records.plan import ArmOverrides, RunPlan
from tasks.records.run import RunRecord
from tasks.resolve.options import NightOptions
from tasks.resolve.plans import Request, resolve
from tasks.resolve.trainers.trainer import SOURCE
from tasks.scrape.read_log import scrape_run
from tasks.store.store import Store
from tasks.verify.steps_to_prove import find_unverified
from tasks.verify.verification import verify_checkpoint
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

DOC = Path(__file__).parents[4] / "docs" / "custom-trainer.md"
SLOWER = ("args.lr * gradient", "0.5 * args.lr * gradient")
POD = {"CLUSTER": "c", "PROJECT": "p", "ZONE": "us-east5-b", "IMAGE": "gcr.io/p/mine:1"}

type Plans = Callable[..., list[RunPlan]]


def block(kind: str) -> str:
    """The document's first code block of a language."""
    return re.findall(rf"```{kind}\n(.*?)```", DOC.read_text(), re.S)[0]


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "tag.gpgSign=false"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The document's trainer, and a branch of it with half the learning rate."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.py").write_text(block("python"))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "checkout", "-q", "-b", "feat/x")
    (folder / "train.py").write_text(block("python").replace(*SLOWER))
    git(folder, "commit", "-q", "-a", "-m", "half as fast")
    git(folder, "checkout", "-q", "main")
    return folder


@pytest.fixture
def comparison(tmp_path: Path, mine: Path) -> Path:
    """The document's comparison, among the configs."""
    shutil.copytree(CONFIG_ROOT, tmp_path / "configs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    path = tmp_path / "configs" / "comparisons" / "mine.yml"
    path.write_text(block("yaml").replace("~/mine", str(mine)))
    return path


@pytest.fixture
def plans_of(tmp_path: Path, comparison: Path) -> Plans:
    """plans_of(*overrides, …): the plans of one repeat, nothing launched."""

    def run(*overrides: str, branch: str | None = "feat/x", **changes: Any) -> list[RunPlan]:
        wanted = {"repeats": 1, "overrides": overrides, "arms": {"branch": branch}} | changes
        request = Request(comparison="mine", **wanted)
        return resolve(request, tmp_path / "out", cache=tmp_path / "cache", root=tmp_path / "configs")

    return run


@pytest.fixture
def in_a_folder(comparison: Path, mine: Path) -> None:
    """The comparison without refs: two learning rates of the program in the folder."""
    text = comparison.read_text().split("repository:")[0].replace("  argv", f"  folder: {mine}\n  argv", 1)
    arms = "arms:\n  - {name: a, set: {learning_rate: 0.1}}\n  - {name: b, set: {learning_rate: 0.05}}\n"
    comparison.write_text(f"{text}target: cpu\ncases: [01_base]\nrepeats: 1\ntolerances: default\n{arms}")


def run_to_its_end(plan: RunPlan, store: Store) -> RunRecord:
    directory = store.run(plan.run_name)
    launched = job.launch_or_attach(plan, directory)
    list(watch(job.follow(launched, poll_s=0.05)))
    proofs = [
        verify_checkpoint(path, manifest=directory.manifests / f"{path.name}.json", mode="record")
        for path in find_unverified(launched.checkpoints, [])
    ]
    return build_record(plan, directory, scrape_run(directory.log), proofs)


def test_the_documents_trainer_is_trained_verified_and_compared(
    plans_of: Plans, tmp_path: Path, wording: Wording
) -> None:
    plans = plans_of("steps=4")
    for plan in plans:
        words = ("--steps=4", "--lr=0.1", f"--out={plan.directory}")
        assert plan.argv == (sys.executable, "train.py", *words)
        assert plan.config.keys() - {"run_name", "base_output_directory"} == {"steps", "learning_rate"}
        assert plan.checkout is not None
    records = tuple(run_to_its_end(plan, Store(tmp_path / "out")) for plan in plans)
    for record, ref in zip(records, ("main", "feat/x"), strict=True):
        assert record.reading.exit_code == 0, Path(record.log).read_text()
        assert record.reading.steps["step"].to_list() == [0, 1, 2, 3]
        assert [(proof.step, proof.ok) for proof in record.proofs] == [(0, True), (3, True)]
        assert record.metrics is not None
        assert record.label.startswith(f"{ref} · ")
    case = CaseRuns(comparison="main-vs-branch", case="01_base", target="cpu", runs=records, rules=plans[0].rules)
    result = judge(examine(case))
    floors = {floor.name: (floor.holds, floor.evidence) for floor in result.floors}
    assert floors["same program"][0] is None
    wording("reasons", floors["same program"][1])
    assert floors["same bits"][0] is False
    assert floors["same bits"][1].startswith("loss differs at step 1: ")  # the branch's first step is the same
    assert not [finding.kind for finding in result.findings if finding.effect == "blocks"]


def night_of(tmp_path: Path, item: str = "{name: mine, branch: feat/x}", **wanted: Any) -> NightPlan:
    """The plan of a night with this comparison beside another one."""
    (tmp_path / "night.yml").write_text(f"target: cpu\ncomparisons:\n  - {item}\n  - {{name: linen-vs-nnx}}\n")
    request = NightOptions(config=str(tmp_path / "night.yml"), **wanted)
    return plan_night(request, Store(tmp_path / "out"), day=date(2026, 11, 21), root=tmp_path / "configs")


def commit_of(folder: Path, name: str) -> str:
    found = subprocess.run(["git", "rev-parse", name], cwd=folder, check=True, capture_output=True, text=True)
    return found.stdout.strip()


@pytest.mark.usefixtures("comparison")
def test_a_night_has_the_cases_of_its_comparison(tmp_path: Path, mine: Path) -> None:
    night = night_of(tmp_path)
    cells = [cell for cell in night.cells if cell.comparison == "mine"]
    assert [cell.case for cell in cells] == ["01_base"]
    assert len(night.cells) > 10  # linen-vs-nnx has every case
    assert cells[0].arms == ArmOverrides(
        baseline=f"main:{commit_of(mine, 'main')}", branch=f"feat/x:{commit_of(mine, 'feat/x')}"
    )
    assert {cell.case for cell in night_of(tmp_path, cases=("03_dropout",)).cells} == {"03_dropout"}


def test_a_night_resolves_each_ref_in_its_arms_repository(tmp_path: Path, mine: Path, comparison: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(mine), str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "another main")
    text = re.sub("repository: .*\n", "", comparison.read_text())
    text = text.replace("ref: main", f"ref: main\n    repository: {mine}")
    comparison.write_text(text.replace("ref: .", f"ref: main\n    repository: {other}"))
    arms = night_of(tmp_path, "{name: mine}").cells[0].arms
    assert (arms.baseline, arms.branch) == (f"main:{commit_of(mine, 'main')}", f"main:{commit_of(other, 'main')}")
    assert arms.repository is None
    assert not arms.aa


def test_one_commit_with_two_commands_is_not_a_control(tmp_path: Path, comparison: Path) -> None:
    text = comparison.read_text().replace("ref: main", "ref: HEAD").replace("ref: .", "ref: HEAD")
    comparison.write_text(text)
    assert night_of(tmp_path, "{name: mine}").cells[0].arms.aa
    other = "ref: HEAD\n    command: {argv: [sh, -c, 'train {steps} {learning_rate}']}\nset"
    comparison.write_text(text.replace("ref: HEAD\nset", other))
    assert not night_of(tmp_path, "{name: mine}", fresh=True).cells[0].arms.aa


@pytest.mark.usefixtures("in_a_folder")
def test_a_folders_runs_depend_on_its_source(plans_of: Plans, mine: Path) -> None:
    before = plans_of(branch=None)
    assert [plan.config["learning_rate"] for plan in before] == [0.1, 0.05]
    assert [plan.start_folder for plan in before] == [str(mine)] * 2
    assert all(plan.commit and not plan.dirty and plan.checkout is None for plan in before)
    assert [plan.identity for plan in plans_of(branch=None)] == [plan.identity for plan in before]
    (mine / "train.py").write_text(block("python").replace(*SLOWER))
    after = plans_of(branch=None)
    assert all(plan.dirty for plan in after)
    assert after[0].versions[SOURCE] != before[0].versions[SOURCE]
    assert not {plan.identity for plan in before} & {plan.identity for plan in after}


@pytest.mark.usefixtures("in_a_folder")
def test_a_run_with_a_checkpoint_is_resumed(plans_of: Plans, comparison: Path, tmp_path: Path, mine: Path) -> None:
    (mine / "train.py").write_text("import sys; print(sys.argv[1:])")
    comparison.write_text(comparison.read_text().replace("  argv", '  resume: ["--from={out}/checkpoints"]\n  argv', 1))
    plan, _ = plans_of(branch=None)
    store = Store(tmp_path / "out")
    run_to_its_end(plan, store)
    directory = store.run(plan.run_name)
    assert "--from=" not in directory.log.read_text()
    directory.log.unlink()
    (directory.checkpoints / "5.orbax-checkpoint-tmp").mkdir(parents=True)  # no finished run
    assert not job.has_checkpoint(plan, directory)
    (directory.checkpoints / "3").mkdir()
    run_to_its_end(plan, store)
    assert f"--from={plan.directory}/checkpoints" in directory.log.read_text()


def test_a_case_without_a_placeholder_in_the_command_is_refused(plans_of: Plans, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        plans_of(cases=("03_dropout",))
    assert "03_dropout.yml:3: 'dropout_rate' " in str(caught.value)
    wording("errors", caught.value)
    assert "dtype" not in str(caught.value)  # not changed by the case


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("checkpoints: checkpoints", "within: sub", r"a subfolder is only started in a copy"),
        (
            "{learning_rate}",
            "{learning_rat}",
            r"nothing stands for \{learning_rat\} \(did you mean 'learning_rate'\?\)",
        ),
        ("{learning_rate}", "{learning_rate:.3f}", r"is not a plain name; a brace that is meant is written twice"),
        ("{learning_rate}", "{out.parent}", r"is not a plain name"),
        ("checkpoints: checkpoints", "checkpoints: ../mine", r"must be a path inside the run's folder"),
        ("checkpoints: checkpoints", "resume: [--resume]", r"resume: say with `checkpoints:`"),
        ("checkpoints: checkpoints", "folder: /mine", r"set exactly one of ref and command\.folder"),
        ("repository: ", "# ", r"baseline: say where its ref is, with `repository:`"),
        ("trainer: command", "trainer: maxview", r"a command is only run for `trainer: command`"),
    ],
)
def test_an_invalid_command(comparison: Path, plans_of: Plans, old: str, new: str, message: str) -> None:
    assert old in comparison.read_text()
    comparison.write_text(comparison.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        plans_of()


def test_variables_of_the_command_and_the_target(comparison: Path, plans_of: Plans, wording: Wording) -> None:
    text = comparison.read_text()
    comparison.write_text(
        text.replace("  argv", '  environment: {WHERE: "{out}", PYTHONPATH: "{checkout}"}\n  argv', 1)
    )
    plan, _ = plans_of()
    environment = build_environment(plan, {})
    assert (environment["WHERE"], environment["PYTHONPATH"]) == (plan.directory, plan.checkout)
    comparison.write_text(text.replace("  argv", "  environment: {JAX_PLATFORMS: tpu}\n  argv", 1))
    with pytest.raises(ConfigError, match=r"JAX_PLATFORMS, .*configs/targets/cpu\.yml: ") as error:
        plans_of()
    wording("errors", error.value)


def test_in_a_pod_the_image_contains_the_program(
    plans_of: Plans, comparison: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in POD.items():
        monkeypatch.setenv(f"MAXVIEW_{name}", value)
    text = comparison.read_text()
    comparison.write_text(
        text.replace("ref: main", 'ref: main\n    image: "i:1"').replace("ref: .", 'ref: HEAD\n    image: "i:2"')
    )
    plan, other = plans_of(target="v6e-32")
    assert plan.argv[:2] == ("python", "train.py")
    assert plan.launch is not None
    assert plan.launch.image == "i:1"
    assert plan.identity != other.identity
