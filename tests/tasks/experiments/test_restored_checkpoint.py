"""A typed command and a run's folder restore an Orbax checkpoint; the arrays that are not as saved are named."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.errors import ConfigError
from flows.cli.app import call_command
from tasks.experiments.restored_checkpoint import compare_run_with_checkpoint
from tasks.records.plan import RunPlan
from tasks.store.json_records import model_to_json

TRAINER = """
import sys
from pathlib import Path
import jax, jax.numpy as jnp, orbax.checkpoint as ocp
manager = ocp.CheckpointManager(Path(sys.argv[1]).absolute())
state = {"w": jax.random.normal(jax.random.key(1), (8, 8)), "b": jnp.ones(8)}
x = jax.random.normal(jax.random.key(0), (16, 8))
@jax.jit
def train_step(p, x):
    loss, g = jax.value_and_grad(lambda p: jnp.mean((x @ p["w"] + p["b"]) ** 2))(p)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss
first = 0
if (last := manager.latest_step()) is not None:
    fresh, first = state["b"], last + 1
    state = manager.restore(last, args=ocp.args.StandardRestore(state))
    state["b"] = {"zeros": 0 * fresh, "fresh": fresh}.get(sys.argv[2], state["b"])
for n in range(first, 4):
    state, loss = train_step(state, x)
    if n == 2:
        manager.save(n, args=ocp.args.StandardSave(state))
        manager.wait_until_finished()
"""

pytestmark = pytest.mark.long


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "train.py").write_text(TRAINER)
    (folder / ".gitignore").write_text("saved\n")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words], cwd=folder, check=True)
    subprocess.run([sys.executable, "train.py", "saved", ""], cwd=folder, check=True, capture_output=True)
    monkeypatch.setenv("MAXVIEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(folder)
    return folder


def test_a_typed_command_restores_a_checkpoint(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path.relative_to(clone) for path in clone.rglob("*"))
    command = ["--", sys.executable, "train.py", "saved"]
    assert call_command(["verify", "saved/2", "--restored-by", *command, ""]) == 0
    assert call_command(["verify", "saved/2", "--json", "--restored-by", *command, "zeros"]) == 1
    shown = capsys.readouterr().out
    found = json.loads(shown[shown.index("{") :])
    faults = [(array["name"], array["word"]) for array in found["arrays"] if array["is_fault"]]
    assert faults == [("p['b']", "zeros")]
    assert sorted(path.relative_to(clone) for path in clone.rglob("*")) == before  # nothing is written into the clone


def test_a_runs_folder_is_started_again_in_a_copy(
    clone: Path, make_plan: Callable[..., RunPlan], tmp_path: Path
) -> None:
    run = tmp_path / "out" / "runs" / "one"
    run.mkdir(parents=True)
    shutil.copytree(clone / "saved", run / "saved")
    argv = (sys.executable, str(clone / "train.py"), f"{run}/saved", "fresh")
    plan = make_plan("", trainer="command", directory=str(run), run_name="one", argv=argv, passed_on=("PATH", "HOME"))
    (run / "plan.json").write_text(model_to_json(plan))
    found = compare_run_with_checkpoint(str(run / "saved" / "2"), str(run))
    assert [(array.name, array.word) for array in found.faults] == [("p['b']", "untouched")]
    assert found.notes == ()
    with pytest.raises(ConfigError, match="type it: --restored-by -- COMMAND"):
        compare_run_with_checkpoint(str(run / "saved" / "2"), str(clone))
