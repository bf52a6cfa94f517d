"""A trainer saves; started again with a planted fault of its restore, the array of the fault is named with the kind."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.experiments.witness_states import WitnessedRun, compare_again, witness_restoring, witness_saving
from tasks.records.plan import RunPlan

TRAINER = Path(__file__).parents[2] / "standins/restoring/trainer.py"
MOMENTS = {
    f"state['opt_state'][0].{kind}['{name}']" for kind in ("mu", "nu") for name in ("embed", "gate", "layers", "head")
}
# fault of the trainer → (array, word) of each fault that must be named, and a part of the first one's text
FAULTS = {
    "zeros": ({("state['params']['gate']", "zeros")}, "zeros"),
    "random stream": ({("state['rng']", "untouched")}, "since initialisation"),
    "cast": ({("state['params']['head']", "cast")}, "float32 → bfloat16 → float32"),
    "moments": (
        {(name, "untouched") for name in MOMENTS} | {("state['opt_state'][0].count", "untouched")},
        "since initialisation",
    ),
    "counter": ({("state['step']", "untouched")}, "(0)"),
    "swapped": (
        {("state['params']['embed']", "moved"), ("state['params']['gate']", "moved")},
        "state['params']['gate']",
    ),
    "layers swapped": ({("state['params']['layers']", "moved")}, "layers 1, 2"),
    "transposed": ({("state['params']['embed']", "moved")}, "transposed"),
    "untouched": ({("state['params']['head']", "untouched")}, "since initialisation"),
    "scaled": ({("state['params']['head']", "other")}, "× 0.5"),
}


@pytest.fixture
def started(make_plan: Callable[..., RunPlan], tmp_path: Path) -> Callable[[str], RunPlan]:
    def plan(fault: str = "") -> RunPlan:
        directory = tmp_path / "runs" / "one"
        argv = (sys.executable, str(TRAINER), f"{directory}/saved", fault)
        return make_plan(
            "", trainer="command", arm="branch", run_name="one", directory=str(directory), argv=argv,
            passed_on=("PATH", "HOME"), time_limit_s=120,
        )  # fmt: skip

    return plan


@pytest.fixture
def saved(started: Callable[[str], RunPlan], tmp_path: Path) -> WitnessedRun:
    return witness_saving(started(""), tmp_path / "saves", steps=6)


def test_what_a_run_saves_is_noted_at_every_call_and_restored_in_every_bit(
    saved: WitnessedRun, started: Callable[[str], RunPlan], tmp_path: Path
) -> None:
    assert [state.call for state in saved.states] == [0, 1, 2, 3, 4, 5, 6]
    assert {path.name for path in saved.written} >= {"4.weights", "4.rest", "6.weights"}
    again = witness_restoring(started(""), tmp_path / "again", saved)
    found = compare_again(saved, again)
    assert found.holds is True
    assert len(found.equal) == 15  # 4 weights, 8 moments, 2 counters, 1 key
    assert {Path(path).name for path in again.read} >= {"4.weights", "4.rest"}  # and not the last save
    lost = compare_again(saved, witness_restoring(started("zeros"), tmp_path / "zeros", saved))
    assert [(array.name, array.word) for array in lost.faults] == [("state['params']['gate']", "zeros")]


def test_a_state_of_two_saves_names_the_arrays_of_the_older_one(
    saved: WitnessedRun, started: Callable[[str], RunPlan], tmp_path: Path
) -> None:
    found = compare_again(saved, witness_restoring(started("unfinished save"), tmp_path / "again", saved))
    words = {array.name: (array.word, array.detail) for array in found.faults}
    weights = {f"state['params']['{name}']" for name in ("embed", "gate", "layers", "head")}
    # 11 of 15 arrays are of the fourth update: the weights are the odd ones
    assert words == dict.fromkeys(weights, ("older", "the value after 6 updates"))


def test_a_run_that_saves_nothing_or_trains_nothing_more_is_explained(
    make_plan: Callable[..., RunPlan], tmp_path: Path
) -> None:
    code = "import jax, jax.numpy as jnp\n@jax.jit\ndef train_step(w, x): return w - (x.T @ (x @ w))\n"
    code += "w = jnp.ones((4, 4))\nfor _ in range(3): w = train_step(w, jnp.ones((2, 4)))"
    run = witness_saving(make_plan(code, trainer="command"), tmp_path / "saves")
    assert [state.call for state in run.states] == [0, 1, 2, 3]  # the last one is the last call's result
    assert "no file to restore from in 3 steps" in compare_again(run, run).problem


@pytest.mark.long
@pytest.mark.by_hand  # 40 s of the processor
def test_each_fault_of_a_restore_is_named_with_its_array(
    saved: WitnessedRun, started: Callable[[str], RunPlan], tmp_path: Path
) -> None:
    for fault, (wanted, text) in FAULTS.items():
        found = compare_again(saved, witness_restoring(started(fault), tmp_path / "again", saved))
        assert {(array.name, array.word) for array in found.faults} == wanted, fault
        assert text in found.faults[0].detail, fault
        assert found.holds is False, fault
