"""A night of a custom trainer: from its comparison's file to the command's output."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.publish.markdown.night import night_message
from tasks.records.night import NightRecord

pytestmark = pytest.mark.flows

type Maxview = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "custom-trainer.md").read_text()


def block(kind: str, containing: str) -> str:
    """Return the document's code block of a language that contains these words."""
    return next(text for text in re.findall(rf"```{kind}\n(.*?)```", DOC, re.S) if containing in text)


@pytest.mark.long
@pytest.mark.by_hand  # the verdict is about time: no other test may run beside it
def test_two_nights_of_a_custom_trainer(maxview: Maxview, custom_trainer: Callable[..., Path], tmp_path: Path) -> None:
    mine, trainer = custom_trainer(block("yaml", "~/mine").replace("~/mine", "FOLDER")), block("python", "step_of")
    (tmp_path / "nightly-mine.yml").write_text(block("yaml", "previous"))

    def commit(text: str) -> None:
        (mine / "train.py").write_text(text)
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "tag.gpgSign=false"]
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-q", "-m", "one"]):
            subprocess.run(["git", *words], cwd=mine, check=True, capture_output=True)

    def night() -> tuple[int, NightRecord]:
        words = ("--config", "nightly-mine.yml", "--set", "steps=4", "--repeats", "1", "--out", "out")
        done = maxview("nightly", *words)
        records = [
            NightRecord.model_validate_json(path.read_text()) for path in tmp_path.glob("out/nightly/*/record.json")
        ]
        assert records, done.stderr
        return done.returncode, max(records, key=lambda record: record.ended)

    commit(trainer)
    code, record = night()
    assert code != 1
    [result] = record.results
    assert (result.cell.comparison, result.cell.case, result.cell.arms.aa) == ("mine", "01_base", True)
    commit(trainer.replace("args.lr * gradient", "0.5 * args.lr * gradient"))
    code, record = night()
    [result] = record.results
    assert (code, result.outcome, result.cell.arms.aa) == (1, "regressed", False)
    assert len(list(tmp_path.glob("out/runs/*"))) == 3  # the first night's commit is not trained again
    [change] = record.changes
    assert change.line.startswith("mine 01_base: regressed, was ")


NIGHTLY = """\
target: cpu
comparisons:
  - {name: mine, branch: main, baseline: previous}
bisect: auto
bisect_budget: 10m
"""
PRINTS = """\
import sys

TOUCHED = 0
for step in range(int(sys.argv[1])):
    print(f"completed step: {step}, seconds: 0.500, total_weights: 8, loss: {2 / (step + 1):.3f}", flush=True)
"""


@pytest.mark.long
def test_a_night_with_bisect_auto_names_the_commit_that_dies(
    maxview: Maxview, custom_trainer: Callable[..., Path], tmp_path: Path
) -> None:
    mine = custom_trainer()
    (tmp_path / "nightly-mine.yml").write_text(NIGHTLY)

    def git(*words: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=mine, check=True, capture_output=True)

    def commit(subject: str, text: str) -> None:
        (mine / "train.py").write_text(text)
        git("add", "-A")
        git("commit", "-qm", subject)

    def night() -> tuple[NightRecord, str]:
        done = maxview("nightly", "--config", "nightly-mine.yml", "--set", "steps=6", "--out", "out")
        paths = tmp_path.glob("out/nightly/*/record.json")
        records = [NightRecord.model_validate_json(path.read_text()) for path in paths]
        assert records, done.stderr
        return max(records, key=lambda record: record.ended), done.stdout

    git("init", "-q", "-b", "main")
    commit("start", PRINTS)
    first, _ = night()
    assert not any(change.kind == "bisected" for change in first.changes)
    commit("touch", PRINTS.replace("TOUCHED = 0", "TOUCHED = 1"))
    broken = PRINTS + 'raise RuntimeError("planted")\n'
    commit("break it", broken)
    commit("touch again", broken.replace("TOUCHED = 0", "TOUCHED = 2"))
    second, reported = night()
    (culprit,) = [change for change in second.changes if change.kind == "bisected"]
    assert re.search(r'"break it" .* 01_base .*: RuntimeError: planted', culprit.text)
    assert "## Bisected" in reported
    for text in (reported, night_message(second), (tmp_path / "out" / "index.html").read_text()):
        assert "is the first commit " in text
    # both ends are the nights' own three runs; only the two commits between are trained
    assert len(list(tmp_path.glob("out/runs/*"))) <= 3 + 2
