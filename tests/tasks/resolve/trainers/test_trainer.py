"""A trainer is one class and its lines in TRAINERS: the rest of the project does not ask which one it is."""

import re
import shutil
from pathlib import Path

import pytest

from configs import trainers
from configs.read import CONFIG_ROOT
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.judge.judge_case import judge
from tasks.ingest.run_record import build_record
from tasks.launch import job
from tasks.launch.logs import watch
from tasks.resolve.plans import Request, resolve
from tasks.resolve.trainers import TRAINERS, trainer_class
from tasks.scrape.read_log import scrape_run
from tasks.store.store import Store

FILE = """# Whether a new trainer is compared.
trainer: echo
target: cpu
cases: [01_base]
repeats: 1
tolerances: default
arms: [{name: slow, set: {learning_rate: 0.25}}, {name: fast, set: {learning_rate: 0.5}}]
"""
# a question for the kind of a trainer: a comparison with its name, or a class of one kind outside of its module
QUESTION = re.compile(r"trainer\w*(\.name)? (==|!=|in|not in) [\"({\[]|(Maxview|MaxText|Custom)Trainer\b")


def test_a_new_trainer_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trainers.TRAINERS, "echo", trainers.TrainerKind())  # its registration
    monkeypatch.setitem(TRAINERS, "echo", "tests.standins.echo_trainer")
    root = shutil.copytree(CONFIG_ROOT, tmp_path / "configs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (Path(root) / "comparisons" / "mine.yml").write_text(FILE)
    store = Store(tmp_path / "out")
    plans = resolve(Request(comparison="mine"), store.path, cache=tmp_path / "cache", root=Path(root))
    records = []
    for plan in plans:
        directory = store.run(plan.run_name)
        list(watch(job.follow(job.launch_or_attach(plan, directory), poll_s=0.05)))
        records.append(build_record(plan, directory, scrape_run(directory.log), []))
    assert [record.label for record in records] == ["slow · no commit", "fast · no commit"]
    assert [record.reading.steps["loss"].to_list() for record in records] == [[0.25], [0.5]]
    runs = CaseRuns(comparison="mine", case="01_base", target="cpu", runs=tuple(records), rules=plans[0].rules)
    result = judge(examine(runs))
    assert {floor.name for floor in result.floors if floor.evidence.startswith("the echo")} >= {"same program"}


def test_an_unknown_trainer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'maxtex' \(did you mean 'maxtext'\?\)"):
        trainer_class("maxtex")


def test_no_other_code_asks_which_trainer_it_is() -> None:
    root = CONFIG_ROOT.parent
    asked = {
        f"{path.relative_to(root)}: {line.strip()}"
        for folder in ("configs", "flows", "tasks")
        for path in (root / folder).rglob("*.py")
        if not path.name.endswith("_trainer.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if QUESTION.search(line)
    }
    assert not asked
