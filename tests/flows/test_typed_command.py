"""`maxview compare -- python train.py`, of a trainer without a readable log that writes where it is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long


def compare(clone: Path, environment: dict[str, str], *words: str) -> tuple[int, dict[str, Any]]:
    """Return exit status and record of a comparison of the typed command."""
    root = Path(__file__).parents[2]
    command = ["--", "python", "train.py", "--config", "tiny.json"]
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "compare", *words, "--out", str(clone.parent / "o"), "--json", *command],
        cwd=clone, env=environment | {"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    (record,) = json.loads(done.stdout)
    return done.returncode, record


def test_a_typed_command_is_asked_for_its_function_and_trained(clone: Path, user_environment: dict[str, str]) -> None:
    status, record = compare(clone, user_environment, "--only", "function")
    assert (status, record["verdict"]) == (1, "changed")
    first = record["explanation"]["tensors"]["first"]
    assert (first["file"], first["line"]) == ("loss.py", 5)

    status, record = compare(clone, user_environment, "--steps", "12", "--repeats", "1", "--interleave", "off")
    assert status == 1
    rows = {row["metric"]: row for row in record["rows"]}
    assert rows["loss_per_step"]["verdict"] == "changed"
    # the scalars that the step returned, in full precision; by hand: 1.001 at the first step
    left, right = (rows["loss_per_step"][side] for side in ("baseline", "candidate"))
    assert right / left == pytest.approx(1.001, rel=1e-6)
    logs = [*clone.parent.glob("o/runs/*/log.txt")]
    assert len(logs) == 2
    for log in logs:
        text = log.read_text()
        assert "ended after 12 calls of update, as asked" in text
        assert text.count("completed step: ") == 12
    assert {path.name for path in clone.iterdir()} == {".git", ".gitignore", "data", "loss.py", "tiny.json", "train.py"}
