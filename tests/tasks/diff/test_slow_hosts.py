"""Branches with a slower host loop around the same program: each is found by real trainings, and named."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.judge.judge_case import judge
from tasks.ingest.run_record import build_record
from tasks.launch import job
from tasks.launch.logs import watch
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import ArmOverrides, RunPlan
from tasks.records.run import RunRecord
from tasks.resolve.plans import Request, resolve
from tasks.scrape.read_log import scrape_run
from tasks.store.store import Store

pytestmark = [pytest.mark.long, pytest.mark.by_hand]

ROOT = Path(__file__).parent.parent.parent.parent
# enough steps for one run of each to decide, also on a machine with other load
OVERRIDES = ("steps=40", "checkpoint_period=100", "max_target_length=32", "log_config=false")
# a branch, the replaced text of the trainer's loop, and the part of a step that the sentence must name
BRANCHES = {
    "sleeps": (
        "        run.outputs.before_step(step)\n",
        "        run.outputs.before_step(step)\n        __import__('time').sleep(0.4)\n",
        "other code in the step loop",
    ),
    "waits-for-input": (
        "        batch = source.next()\n",
        "        __import__('time').sleep(0.4)\n        batch = source.next()\n",
        "waiting for input",
    ),
    "logs-too-much": (
        "        report.log_step(run.setup.config, step=step,",
        # lines to a slow sink: the sink's time counts, however many lines a busy machine prints
        "        for number in range(40):\n            logging.info('array %d of step %d', number, step)\n"
        "            __import__('time').sleep(0.01)\n        report.log_step(run.setup.config, step=step,",
        "logging",
    ),
    "saves-synchronously": (
        "start_save(run, step, state, force=done == config.steps)\n",
        "start_save(run, step, state, force=True)\n            run.manager.wait_until_finished()\n",
        "saving checkpoints",
    ),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trainer as on `main`, and one branch for each way to slow its loop down."""
    folder = tmp_path_factory.mktemp("repository")
    for name in ("configs", "model"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)

    def git(*words: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgSign=false"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "as it is")
    loop = folder / "model" / "train" / "loop.py"
    for branch, (before, after, _) in BRANCHES.items():
        git("checkout", "-b", branch, "main")
        text = loop.read_text()
        assert text.count(before) == 1
        loop.write_text(text.replace(before, after))
        git("commit", "-am", branch)
    git("checkout", "main")
    return folder


@pytest.fixture(scope="module")
def compare(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ComparisonRecord]:
    """compare(branch): against `main`, with one common run of `main`."""
    out, cache = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("cache")
    store = Store(out)
    done: dict[str, RunRecord] = {}

    def train(plan: RunPlan) -> RunRecord:
        if plan.run_name not in done:
            directory = store.run(plan.run_name)
            launched = job.launch_or_attach(plan, directory)
            list(watch(job.follow(launched, poll_s=0.2)))
            done[plan.run_name] = build_record(plan, directory, scrape_run(directory.log), [])
        return done[plan.run_name]

    def run(branch: str) -> ComparisonRecord:
        arms = ArmOverrides(baseline="main", branch=branch, repository=str(repository))
        request = Request(comparison="main-vs-branch", repeats=1, overrides=OVERRIDES, arms=arms)
        records = tuple(train(plan) for plan in resolve(request, out, cache=cache))
        return judge(examine(CaseRuns(comparison="main-vs-branch", case="01_base", target="cpu", runs=records)))

    return run


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_slower_loop_around_one_program_is_found_and_named(
    branch: str, compare: Callable[[str], ComparisonRecord]
) -> None:
    record = compare(branch)
    assert {floor.name: floor.holds for floor in record.floors}["same program"]
    (row,) = [row for row in record.rows if row.metric == "step_time_s"]
    assert (record.verdict, row.verdict) == ("regressed", "regressed"), row.reason
    words, _, rest = row.reason.partition(" (")
    assert words == "same program; the host loop is slower"
    assert rest.startswith(f"{BRANCHES[branch][2]} +"), row.reason
