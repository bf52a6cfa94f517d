"""`maxview compare … --only`: both steps are recorded and compared; nothing is trained."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

type Maxview = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.long

SMALL = ("--set", "steps=6", "--set", "max_target_length=32", "--case", "01_base")


def test_one_program_in_both_arms_takes_no_turns(maxview: Maxview, tmp_path: Path) -> None:
    done = maxview("compare", "linen-vs-nnx", *SMALL, "--only", "time", "--out", "o", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == "same"
    assert record["turns"] is None
    assert [(row["title"], row["verdict"]) for row in record["rows"]] == [("Step time of the program", "same")]
    assert "nothing was trained" in record["headline"]
    assert not [*(tmp_path / "o").glob("runs/*/record.json")]
