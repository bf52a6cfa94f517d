"""Twins of a custom program: two command lines of a trainer that passes flat lists, without a name for any array."""

import gzip
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from configs.errors import ConfigError
from configs.read import CONFIG_ROOT
from questions.invariants.evaluate_twins import evaluate_twins
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.make_record import find_first, find_other_line, make_record
from questions.invariants.twin_files import read_twin
from questions.invariants.twin_plans import TwinPair, command_of, plan_twins
from tasks.records import observation
from tasks.records.observation import Root, TensorComparison

PROGRAM = """
import argparse
import jax
import jax.numpy as jnp
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int)
parser.add_argument("--accumulate", type=int)
given = parser.parse_args()


def loss(flat, x, y):
    return jnp.mean((jnp.tanh(x @ flat[0]) @ flat[1] - y) ** 2)


@jax.jit
def update(flat, other, x, y):
    grads = [jnp.zeros_like(one) for one in flat]
    for part in range(given.accumulate):
        new = jax.grad(loss)(flat, x[part], y[part])
        grads = [one + more / given.accumulate for one, more in zip(grads, new)]
    other = [0.9 * old + 0.1 * grad for old, grad in zip(other, grads)]
    return [one - 0.01 * move for one, move in zip(flat, other)], other, loss(flat, x[0], y[0]) * 0


rng = np.random.default_rng()  # the batches of two runs differ
flat = [jax.random.normal(jax.random.key(n), shape) for n, shape in enumerate([(8, 16), (16, 4)])]
other = [jnp.zeros_like(one) for one in flat]
for _ in range(5):
    x = rng.normal(size=(given.accumulate, given.batch, 8)).astype(np.float32)
    flat, other, _ = update(flat, other, x, x[..., :4])
"""
TWIN = """
title: accumulation 2 × 4 = 8 at once
why: The gradient of a sum is the sum of the gradients.
trainers: [command]
command: ["{python}", train.py]
folder: FOLDER
left: [--batch, "8", --accumulate, "1"]
right: [--batch, "4", --accumulate, "2"]
"""
REQUEST = InvariantsOptions(trainer="command")


def write(folder: Path, program: str = PROGRAM) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(program)
    path = folder / "accumulation.yml"
    path.write_text(TWIN.replace("FOLDER", str(folder)))
    return path


def plan(path: Path, request: InvariantsOptions = REQUEST) -> TwinPair:
    (pair,), _ = plan_twins(request, [read_twin(path)], path.parent / "out")
    return pair


def test_a_changed_program_is_recorded_again(tmp_path: Path) -> None:
    before, again = (plan(write(tmp_path / "mine")) for _ in range(2))
    after = plan(write(tmp_path / "mine", PROGRAM + "\n"))
    assert before.case == "mine"
    assert before.plans is not None
    assert before.plans == again.plans
    assert after.plans is not None
    assert after.plans[0].identity != before.plans[0].identity


def test_the_python_is_named_and_packages_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    named = plan(path, InvariantsOptions(trainer="command", software=("/mine/bin/python",)))
    assert named.plans is not None
    assert named.plans[0].argv[:2] == ("/mine/bin/python", "train.py")
    with pytest.raises(ConfigError, match="name one Python"):
        plan(path, InvariantsOptions(trainer="command", software=("jax==0.9.2",)))


def test_the_next_command_names_the_file(tmp_path: Path) -> None:
    """Maxview has a twin of the same name."""
    path = write(tmp_path)
    assert command_of(REQUEST, read_twin(path), "mine") == f"maxview invariants --trainer command --twin {path}"


def test_the_next_command_asks_the_same_of_the_same_trainer() -> None:
    asked = {"trainer": "maxtext", "software": ("maxtext==0.2.5",), "model": "tiny", "overrides": ("attention=flash",)}
    words = command_of(InvariantsOptions(**asked), read_twin(CONFIG_ROOT / "invariants/scan.yml"), "01_base").split()
    pairs = dict(zip(words[2::2], words[3::2], strict=True))
    assert pairs == {
        "--trainer": "maxtext", "--with": "maxtext==0.2.5", "--case": "01_base", "--model": "tiny",
        "--set": "attention=flash", "--twin": "scan",
    }  # fmt: skip


@pytest.mark.parametrize(("different", "first"), [(("rest.18",), ""), (("rngs.key",), "train.py:14 (dot_general)")])
def test_a_first_tensor_needs_equal_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, different: tuple[str, ...], first: str
) -> None:
    root = Root(kind="operation", file="train.py", line=14, operation="dot_general", sentence="")
    tensors = TensorComparison(sentence="", first=root, different_arguments=different)
    monkeypatch.setattr(
        "questions.explain.explain_arms.explain_plans", lambda *_, **__: SimpleNamespace(tensors=tensors)
    )
    assert find_first(plan(write(tmp_path)), tmp_path, ("step 0",)) == first


def test_a_resumed_process_with_another_program_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropout that counts its keys from a process's own first step: marin-community/levanter#378."""

    def write_program(name: str, first: int) -> SimpleNamespace:
        def step(count: jax.Array) -> jax.Array:
            return jax.random.uniform(jax.random.fold_in(jax.random.key(0), count - first))  # the line

        folder = tmp_path / name
        folder.mkdir()
        text = jax.jit(step).lower(jnp.int32(0)).as_text(debug_info=True)
        (folder / observation.PROGRAM).write_bytes(gzip.compress(text.encode()))
        return SimpleNamespace(plan=None, folder=folder)

    sides = (write_program("step", 0), write_program("resumed", 2))
    monkeypatch.setattr("questions.invariants.make_record.sides_of_pair", lambda *_: sides)
    monkeypatch.setattr("questions.invariants.make_record.recorded_source", lambda *_: str(Path(__file__).parent))
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(n for n, line in enumerate(lines, 1) if line.endswith("# the line"))
    place = find_other_line(plan(write(tmp_path)), tmp_path)
    assert place == f"{Path(__file__).name}:{number}"


@pytest.mark.long
def test_two_command_lines_agree_and_a_lost_part_is_found(tmp_path: Path) -> None:
    (same,) = evaluate_twins([plan(write(tmp_path / "mine"))], tmp_path)
    assert (same.answer, same.results) == ("same", 5), same.sentence
    fault = PROGRAM.replace("one + more / given.accumulate", "more / given.accumulate")
    record = make_record(REQUEST, [read_twin(write(tmp_path / "mine", fault))], tmp_path / "other")
    (another,) = record.results
    assert another.answer == "another", another.sentence
    assert record.version.startswith("source ")
