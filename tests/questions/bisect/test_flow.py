"""`maxview bisect` as a user runs it: a real server, real processes, real git; the trainer only prints."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.flows

ROOT = Path(__file__).parents[3]
TRAINER = """\
import sys

if {dies}:
    raise RuntimeError("planted")
for step in range(6):
    print(
        f"completed step: {{step}}, seconds: 0.500, TFLOP/s/device: 1.000, Tokens/s/device: 30.000, "
        f"total_weights: 8, loss: {{{loss} / (step + 1):.3f}}",
        flush=True,
    )
"""

type Maxview = Callable[..., subprocess.CompletedProcess[str]]


def make_repository(folder: Path, commits: list[tuple[str, float, bool]]) -> None:
    """Make a commit for each (subject, loss, dies); the trainers are equal except for a note beside them."""
    (folder / "model").mkdir(parents=True)
    (folder / "configs").mkdir()
    (folder / "configs" / "base.yml").write_bytes((ROOT / "configs" / "base.yml").read_bytes())
    (folder / "model" / "__init__.py").write_text('"""A trainer."""\n')

    def git(*words: str) -> None:
        identity = ["-c", "user.name=A Nother", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for number, (subject, loss, dies) in enumerate(commits):
        (folder / "model" / "train.py").write_text(TRAINER.format(loss=loss, dies=dies))
        (folder / "notes.md").write_text(f"{number}\n")
        if subject.startswith("touch"):  # other source that trains alike
            (folder / "model" / "__init__.py").write_text(f'"""A trainer."""\nTOUCHED = {number}\n')
        git("add", "-A")
        git("commit", "-qm", subject)
        git("tag", f"v{number + 1}")


HISTORY = [
    ("start", 2.0, False), ("docs", 2.0, False), ("touch a", 2.0, False), ("touch b", 2.0, False),
    ("break", 2.0, True), ("mend", 2.0, False), ("docs again", 2.0, False), ("more loss", 3.0, False),
    ("touch c", 3.0, False), ("last docs", 3.0, False),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.by_hand  # CI bisects in a night
def test_a_killed_bisection_names_the_commit_that_changed_the_loss_and_trains_nothing_twice(
    start: Callable[..., subprocess.Popen[str]], maxview: Maxview, tmp_path: Path
) -> None:
    make_repository(tmp_path / "repository", HISTORY)
    words = ["bisect", "main-vs-branch", "--repository", "repository", "--good", "v1", "--bad", "main"]
    words += ["--set", "steps=6", "--out", "o", "--json"]
    flow = start(*words)
    records = tmp_path / "o" / "runs"
    deadline = time.monotonic() + 300
    while len(list(records.glob("*/record.json"))) < 2 and flow.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(flow.pid, signal.SIGKILL)
    flow.wait()
    before = {path: path.stat().st_mtime_ns for path in records.glob("*/record.json")}
    assert len(before) >= 2
    done = maxview(*words)
    assert done.returncode == 1, done.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    (record,) = json.loads(done.stdout)
    assert record["outcome"] == "found"
    subjects = [point["commit"]["subject"] for point in record["points"]]
    assert subjects == [subject for subject, _, _ in HISTORY]
    assert subjects[record["culprit"]] == "more loss"
    assert record["metric"] == "loss_per_step"
    assert re.search(r'"more loss" .* regressed', record["headline"])
    assert "model/train.py" in record["diffstat"]
    # commits with the source of the previous commit are never trained
    docs = [point for point in record["points"] if "docs" in point["commit"]["subject"]]
    assert [point["ruled_out"] for point in docs] == ["no source of the trainer changed"] * 3
    page = next((tmp_path / "o" / "bisections").rglob("index.html")).read_text()
    assert "more loss" in page
    runs = {path: path.stat().st_mtime_ns for path in records.glob("*/log.txt")}
    again = maxview(*words, "--metric", "loss")
    assert again.returncode == 1, again.stderr
    assert {path: path.stat().st_mtime_ns for path in records.glob("*/log.txt")} == runs
    assert json.loads(again.stdout)[0]["headline"] == record["headline"]


@pytest.mark.by_hand
@pytest.mark.long
def test_the_commit_that_dies_is_named_and_a_dying_good_end_is_reported(maxview: Maxview, tmp_path: Path) -> None:
    history = [*HISTORY[:4], ("break", 2.0, True), ("docs 2", 2.0, True), ("touch d", 2.0, True)]
    make_repository(tmp_path / "repository", history)
    words = ["bisect", "main-vs-branch", "--repository", "repository", "--set", "steps=6", "--out", "o"]
    done = maxview(*words, "--good", "v1", "--bad", "main")
    assert done.returncode == 1, done.stderr
    assert re.search(r'"break" .* 01_base .*: RuntimeError: planted', done.stdout)
    bad = maxview(*words, "--good", "v6", "--bad", "main")
    assert bad.returncode == 3, bad.stderr
    assert "good died itself" in bad.stdout
    assert "name an earlier --good" in bad.stdout


PRINTS = """\
import sys

SECONDS = 0.5
TOUCHED = 0
for step in range(int(sys.argv[1])):
    print(f"completed step: {step}, seconds: {SECONDS + step / 1000:.3f}, total_weights: 8, loss: 2.000", flush=True)
"""


@pytest.mark.by_hand
@pytest.mark.long
def test_a_slower_step_inside_a_merge_of_a_custom_trainer_is_named(
    maxview: Maxview, custom_trainer: Callable[..., Path]
) -> None:
    """The first parents' line ends at the merge; the search continues among its commits, with the runs of both ends."""
    folder = custom_trainer(repeats=3)

    def git(*words: str) -> None:
        identity = ["-c", "user.name=A Nother", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    def commit(subject: str, *, seconds: float = 0.5, touched: int = 0, file: str = "train.py") -> None:
        text = PRINTS.replace("SECONDS = 0.5", f"SECONDS = {seconds}").replace("TOUCHED = 0", f"TOUCHED = {touched}")
        (folder / file).write_text(text)
        git("add", "-A")
        git("commit", "-qm", subject)

    git("init", "-q", "-b", "main")
    commit("start")
    git("tag", "v1")
    git("checkout", "-qb", "side")
    commit("tidy", touched=1)
    commit("slower", seconds=2.0, touched=1)
    commit("tidy again", seconds=2.0, touched=2)
    git("checkout", "-q", "main")
    commit("docs", file="notes.md")
    git("merge", "-q", "--no-ff", "-m", "merge side", "side")
    commit("last docs", file="more.md")
    words = ["bisect", "mine", "--good", "v1", "--bad", "main", "--set", "steps=20"]
    done = maxview(*words, "--metric", "Step time, steady", "--out", "o", "--json")
    assert done.returncode == 1, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["outcome"] == "found", record["headline"]
    assert record["points"][record["culprit"]]["commit"]["subject"] == "slower"
    assert any("it came in with the merge" in note for note in record["notes"])
    # 0.5 to 2.0 seconds, each plus the same few milliseconds
    assert "+29" in record["headline"]


def test_bad_input_is_reported_before_a_server_starts(maxview: Maxview, tmp_path: Path) -> None:
    make_repository(tmp_path / "repository", HISTORY[:3])
    words = ["bisect", "main-vs-branch", "--repository", "repository"]
    swapped = maxview(*words, "--good", "main", "--bad", "v1")
    assert swapped.returncode == 2
    assert "good and bad are swapped" in swapped.stderr
    case = maxview(*words, "--good", "v1", "--bad", "main", "--case", "03_dropot", "--set", "stepps=3")
    assert case.returncode == 2
    assert "did you mean '03_dropout'?" in case.stderr
    assert "stepps" in case.stderr
    assert "flow run" not in case.stderr.lower()
    row = maxview(*words, "--good", "v1", "--bad", "main", "--metric", "los")
    assert row.returncode == 2
    assert "did you mean 'loss'?" in row.stderr
