"""`maxview init` watches a command, and its file is right as written."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from configs.comparison import load_comparison
from configs.errors import ConfigError
from configs.names import find
from flows.cli.app import call_command
from questions.init.project_file import check_free, name_of
from questions.init.typed_words import find_keys, value_of
from questions.init.watch_command import _remedy
from tasks.resolve.plans import Request, resolve

# the form of Flax's examples: one function makes gradients, another one updates
TRAIN = """
import argparse, json, jax, jax.numpy as jnp, numpy as np
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--workdir")
args = parser.parse_args()
weights = {"w": jnp.zeros((8, 4)), "b": jnp.zeros(4)}
moments = jax.tree.map(jnp.zeros_like, weights)
x, y = jax.random.normal(jax.random.key(0), (16, 8)), jnp.ones((16, 4))

@jax.jit
def apply_model(weights, moments, x, y):
    return jax.value_and_grad(lambda w: jnp.mean((x @ w["w"] + w["b"] - y) ** 2))(weights)

@jax.jit
def update_model(weights, moments, gradients):
    moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, gradients)
    return jax.tree.map(lambda w, m: w - args.lr * m, weights, moments), moments

for step in range(8):
    loss, gradients = apply_model(weights, moments, x, y)
    weights, moments = update_model(weights, moments, gradients)
    print(json.dumps({"step": step, "loss": float(loss)}))
np.savez(args.workdir + ".npz", **weights)
"""


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words], cwd=folder, check=True)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a clone with a trainer."""
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "one")):
        git(folder, *words)
    monkeypatch.setenv("MAXVIEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.long
def test_the_file_is_right_as_written(clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["init", "--", "python", "train.py", "--lr=0.125", "--workdir", "/nowhere/out"]
    assert call_command(words) == 0
    told = capsys.readouterr().out
    assert "`apply_model`" in told
    assert "`update_model`" in told
    assert "8 rows of json_lines" in told
    assert "NumPy, 1 checkpoint, not proved" in told
    assert told.splitlines()[-2].split() == ["next", "maxview", "compare", "train", "--only", "function"]
    spec = load_comparison("train")
    assert find("comparisons", "train") == clone / ".maxview" / "comparisons" / "train.yml"
    assert spec.command is not None
    assert spec.command.argv == ("{python}", "train.py", "--lr={learning_rate}", "--workdir", "{out}/out")
    assert not spec.command.ended  # it ended by itself
    plans = resolve(Request(comparison="train", overrides=("learning_rate=0.25",)), tmp_path)
    assert plans[-1].argv[1:3] == ("train.py", "--lr=0.25")
    # the tree's only changes are maxview's own files
    assert call_command(["compare", "train", "--only", "function", "--out", str(tmp_path / "out")]) == 0
    before = (clone / ".maxview/comparisons/train.yml").read_text()
    assert call_command(words) == 2
    assert "is there already: edit it, or remove it first" in capsys.readouterr().err
    assert (clone / ".maxview/comparisons/train.yml").read_text() == before


@pytest.mark.flows
def test_a_command_without_a_step_leaves_no_file(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (clone / "train.py").write_text("import jax\nprint(jax.jit(lambda x: x + 1)(1.0))\n")
    assert call_command(["init", "--", "python", "train.py"]) == 2
    assert "the command trains no step that maxview sees" in capsys.readouterr().err
    assert not (clone / ".maxview").exists()


def test_an_error_of_a_run_alone_has_a_remedy() -> None:
    assert "no terminal" in _remedy("EOFError: EOF when reading a line at train.py:2 in <module>")
    assert "WANDB_MODE=offline" in _remedy("wandb.errors.errors.UsageError: No API key configured. Use `wandb login`")
    assert _remedy("ValueError: shapes differ") == ""


def test_without_a_command_it_tells_how(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["python", "train.py"]):
        assert call_command(["init", *words]) == 2
        assert "for example: maxview init -- python train.py" in capsys.readouterr().err


def test_names_come_from_the_script_or_module() -> None:
    assert name_of(["python", "src/train.py", "--a"]) == "train"
    assert name_of(["python", "-m", "mine.launch", "x=1"]) == "launch"
    assert name_of(["./run"]) == "run"


def test_a_known_name_is_refused_before_a_run(clone: Path) -> None:
    (clone / ".maxview/comparisons").mkdir(parents=True)
    (clone / ".maxview/comparisons/train.yml").write_text("")
    with pytest.raises(ConfigError, match="is there already"):
        check_free(["python", "train.py"])


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["--lr", "0.1", "--steps=12"], {"learning_rate": 0.1, "steps": 12}),
        (["--optimizer.learning-rate", "3e-4", "dtype=bfloat16"], {"learning_rate": 3e-4, "dtype": "bfloat16"}),
        (["--lr", "0.1", "--learning_rate", "0.2"], {}),  # it is not known which one counts
        (["--unknown", "3", "--verbose", "--lr", "{python}"], {}),
    ],
)
def test_options_that_are_keys(words: list[str], keys: dict[str, Any]) -> None:
    assert {key: value_of(option) for key, option in find_keys(words).items()} == keys
