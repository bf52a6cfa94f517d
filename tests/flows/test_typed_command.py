"""`maxview compare -- python train.py`, of a trainer without a readable log that writes where it is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

TRAINER = """\
import json, sys
import jax, jax.numpy as jnp
from loss import loss_of

config = json.load(open(sys.argv[2]))
weights = {"a": 0.1 * jax.random.normal(jax.random.key(0), (16, 32)), "b": jnp.full((32, 1), 0.1)}
x = jnp.load("data/x.npy")

@jax.jit
def update(weights, x):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x)
    weights = jax.tree.map(lambda w, g: w - config["rate"] * g, weights, gradients)
    return weights, {"loss": loss, "norm": sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients))}

for n in range(config["steps"]):
    weights, metrics = update(weights, x)
    if n % 5 == 0:
        print("iteration", n, "has", float(metrics["loss"]))
print("done", file=open("result.txt", "a"))
"""
LOSS = """\
import jax.numpy as jnp


def loss_of(weights, x):
    return jnp.mean((jnp.tanh(x @ weights["a"]) @ weights["b"] - 2 * x[:, :1]) ** 2)
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose data git ignores; the working tree has another loss."""
    folder = tmp_path / "trainer"
    (folder / "data").mkdir(parents=True)
    (folder / "train.py").write_text(TRAINER)
    (folder / "loss.py").write_text(LOSS)
    (folder / "tiny.json").write_text('{"rate": 0.1, "steps": 40}')
    (folder / ".gitignore").write_text("data/\n")
    make = "import numpy; numpy.save('data/x.npy', numpy.random.default_rng(0).normal(size=(64, 16)).astype('float32'))"
    subprocess.run([sys.executable, "-c", make], cwd=folder, check=True)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "the trainer"]):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words], cwd=folder, check=True)
    (folder / "loss.py").write_text(LOSS.replace(" ** 2)", " ** 2) * 1.001"))
    return folder


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
