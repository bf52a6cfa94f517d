"""The batches of two recorded steps: equal, reordered or other; the step in float64 sees a difference or none."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from configs.environment import pass_on
from maxview_probe.observe.observation_files import OBSERVATION
from tasks.experiments.same_data import RESULT, compare_batch, compare_recorded
from tasks.observe.recorder import prepare_recorder
from tasks.records.data import DataComparison

pytestmark = pytest.mark.flows

TRAINER = """
import sys
import jax, jax.numpy as jnp, numpy as np

@jax.jit
def train_step(params, opt_state, batch):
    def loss_of(w):
        return jnp.mean((batch["x"] @ w["w"] - batch["y"]) ** 2)
    loss, gradient = jax.value_and_grad(loss_of)(params)
    opt_state = jax.tree.map(lambda m, g: 0.9 * m + g, opt_state, gradient)
    return jax.tree.map(lambda w, m: w - 0.1 * m, params, opt_state), opt_state, loss

params = {"w": jnp.ones((4, 2))}
opt_state = {"w": jnp.zeros((4, 2))}
random = np.random.default_rng(0)
for step in range(5):
    batch = {"x": random.normal(size=(8, 4)).astype("f"), "y": random.normal(size=(8, 2)).astype("f")}
    if step >= 2 and sys.argv[1] == "reversed":
        batch = {name: one[::-1].copy() for name, one in batch.items()}
    if step >= 3 and sys.argv[1] == "other":
        batch["x"] = batch["x"] + 1
    params, opt_state, loss = train_step(params, opt_state, batch)
"""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording per behaviour of the trainer, made by our recorder."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "train.py").write_text(TRAINER)
    for name in ("plain", "reversed", "other"):
        record(folder / "train.py", folder / name, name)
    return folder


def record(program: Path, folder: Path, word: str) -> None:
    folder.mkdir()
    environment = pass_on(os.environ) | {"JAX_PLATFORMS": "cpu"}
    environment |= prepare_recorder(folder, environment, observe=True, batches=5)
    argv = [sys.executable, str(program), word]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert (folder / OBSERVATION).exists(), done.stderr[-2000:]


def compare(recordings: Path, tmp_path: Path, word: str) -> DataComparison | None:
    for side, name in (("baseline", "plain"), ("candidate", word)):
        (tmp_path / side).symlink_to(recordings / name)
    return compare_recorded(tmp_path, lambda _: None)


def test_equal_batches_start_no_process(recordings: Path, tmp_path: Path) -> None:
    assert compare(recordings, tmp_path, "plain") == DataComparison(steps=5, kind="equal", starts_equal=True)
    assert not (tmp_path / RESULT).exists()


def test_the_order_of_rows_is_nothing_to_a_mean(recordings: Path, tmp_path: Path) -> None:
    found = compare(recordings, tmp_path, "reversed")
    assert found is not None
    assert (found.kind, found.first, found.evaluated, found.are_equal) == ("reordered", 2, (2, 3, 4), True)
    assert found.gap is not None
    assert found.gap < 1e-14
    assert compare_recorded(tmp_path, lambda _: None) == found


def test_other_first_weights_are_no_equal_start(recordings: Path, tmp_path: Path) -> None:
    shutil.copytree(recordings / "plain", tmp_path / "other-weights")
    file = tmp_path / "other-weights" / OBSERVATION
    record = json.loads(file.read_text())
    record["arguments"][0]["digest"] = "another"
    file.write_text(json.dumps(record))
    (tmp_path / "baseline").symlink_to(recordings / "plain")
    (tmp_path / "other-weights").rename(tmp_path / "candidate")
    found = compare_recorded(tmp_path, lambda _: None)
    assert found is not None
    assert (found.kind, found.starts_equal) == ("equal", False)


def test_other_data_give_other_results(recordings: Path, tmp_path: Path) -> None:
    found = compare(recordings, tmp_path, "other")
    assert found is not None
    assert (found.kind, found.first, found.evaluated, found.are_equal) == ("other", 3, (3, 4), False)
    assert found.gap is not None
    assert found.gap > 1e-2


def test_no_recording_is_no_comparison(tmp_path: Path) -> None:
    assert compare_recorded(tmp_path, lambda _: None) is None


ROWS = np.arange(12, dtype=np.int32).reshape(4, 3)


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ({"x": ROWS, "y": ROWS + 1}, "equal"),
        ({"x": ROWS[::-1], "y": ROWS[::-1] + 1}, "reordered"),
        ({"x": ROWS[::-1], "y": ROWS + 1}, "other"),  # the rows of one array only
        ({"x": ROWS.reshape(3, 4), "y": ROWS + 1}, "other"),
    ],
)
def test_rows_are_those_of_all_arrays(other: dict[str, np.ndarray], kind: str) -> None:
    assert compare_batch({"x": ROWS, "y": ROWS + 1}, other) == kind
