"""An announced save that does not exist is a failed proof of its run: there is a verdict and a page."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.flows

type Maxview = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parents[2]
TRAINER = """\
import sys

out, announces = sys.argv[1], sys.argv[2] == "lost"
for step in range(int(sys.argv[3])):
    print(f"completed step: {step}, seconds: 0.100, total_weights: 8, loss: {9 - step / 10:.3f}", flush=True)
    if announces and step == 2:
        print(f"Finished saving checkpoint to `{out}/checkpoints/2`.", flush=True)
print("EXIT_CODE=0", flush=True)
"""
COMPARISON = """\
# Does the candidate leave what it announces?
trainer: command
target: cpu
command:
  argv: ["{python}", train.py, "{out}", kept, "{steps}"]
  folder: FOLDER
  checkpoints: checkpoints
arms:
  - name: kept
    set: {}
  - name: lost
    command:
      argv: ["{python}", train.py, "{out}", lost, "{steps}"]
      folder: FOLDER
      checkpoints: checkpoints
cases: [01_base]
repeats: 1
tolerances: default
"""


@pytest.mark.long
def test_a_missing_announced_save_is_regressed_with_a_page(
    maxview: Maxview, custom_trainer: Callable[..., Path], tmp_path: Path
) -> None:
    (custom_trainer(COMPARISON) / "train.py").write_text(TRAINER)
    result = maxview("compare", "mine", "--set", "steps=6", "--repeats", "1", "--out", "o", "--json")
    assert result.returncode == 1, result.stderr
    (comparison,) = json.loads(result.stdout)
    (row,) = [row for row in comparison["rows"] if row["metric"] == "checkpoints"]
    assert (row["verdict"], comparison["verdict"]) == ("regressed", "regressed")
    assert "step 2: " in row["reason"]
    (proof,) = comparison["candidate"]["proofs"]
    assert (proof["step"], proof["ok"]) == (2, False)
    page = next((tmp_path / "o" / "comparisons").rglob("index.html"))
    assert proof["problems"][0]["message"] in page.read_text(encoding="utf-8")
