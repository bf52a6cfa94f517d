"""Loops of several functions in float64: what is one function, what is another, and what stays unknown."""

import json
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from benchmarks.whole_step import Edit, judge, read_pairs, record, write_trainer
from tasks.experiments.recordings import SIDES


def compare(folder: Path, trainer: str, edit: Edit) -> tuple[str, str]:
    """Return the word and the sentence of a trainer against its edited copy."""
    for side, one in zip(SIDES, (None, edit), strict=True):
        record(write_trainer(folder / f"source {side}", trainer, one), folder / side)
    return judge(folder)


def by_hand(trainer: str, number: int) -> ParameterSet:
    """Return a pair that CI leaves out: each records two trainers and evaluates their loops."""
    return pytest.param(trainer, number, marks=pytest.mark.by_hand)


@pytest.mark.long
@pytest.mark.parametrize(
    ("trainer", "number"), [by_hand("average", 1), by_hand("static_schedule", 0), ("eager_optimizer", 0)]
)
def test_a_change_in_another_function_than_the_step_is_found(tmp_path: Path, trainer: str, number: int) -> None:
    word, sentence = compare(tmp_path, trainer, read_pairs()[trainer][0][number])
    assert word == "another", sentence


@pytest.mark.by_hand
@pytest.mark.parametrize(("trainer", "number"), [("average", 0), ("multi_steps", 0), ("accumulation", 0)])
def test_a_rewriting_and_accumulation_by_calls_compute_the_same(tmp_path: Path, trainer: str, number: int) -> None:
    """The mean of the gradients of equal parts of a batch is the gradient of its mean loss."""
    word, sentence = compare(tmp_path, trainer, read_pairs()[trainer][1][number])
    assert word == "same", sentence


@pytest.mark.long
def test_weights_that_numpy_changes_are_unknown(tmp_path: Path) -> None:
    old = "    params, momentum = update(params, momentum, gradients, rate_of(step))\n"
    new = old + "    params = {name: 0.999 * np.asarray(value) for name, value in params.items()}\n"
    edit = Edit("NumPy decays", ((old, new), ("import math\n", "import math\nimport numpy as np\n")))
    word, sentence = compare(tmp_path, "static_schedule", edit)
    assert word == "unknown", sentence
    assert "comes back changed from the host" in sentence


@pytest.mark.long
def test_the_answer_names_the_functions(tmp_path: Path) -> None:
    edit = Edit("the average forgets faster", [("DECAY = 0.875", "DECAY = 0.88")])
    word, sentence = compare(tmp_path, "average", edit)
    assert word == "another"
    assert "`train_step` (14 results) and `ema` (4 results)" in sentence  # 4 weights, 8 moments, a count, a loss; 4
    assert "not evaluated: `eval_step`" in sentence
    found = json.loads((tmp_path / "function.json").read_text())
    assert found["states"]
