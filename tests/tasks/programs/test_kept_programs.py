"""Floor 1 from the kept steps of runs: for any trainer that uses JAX, in any order of its text."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tasks.diff.examine.floors import floors_of, has_same_program
from tasks.programs.kept_programs import compare_kept_programs, have_programs
from tasks.records.compared_case import Floor
from tasks.records.explanation import ProgramExplanation
from tasks.records.log_reading import RunReading
from tasks.records.run import RunRecord
from tasks.store.store import Store

pytestmark = pytest.mark.flows

X = jax.ShapeDtypeStruct((4, 4), jnp.float32)


def plain(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) + x @ x


def turned(x: jax.Array) -> jax.Array:
    return x @ x + jnp.tanh(x)


def other(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) - x @ x


@pytest.fixture
def leave(tmp_path: Path) -> Callable[..., RunRecord]:
    def leave(arm: str, number: int, step: Callable[..., Any], sha256: str | None = None) -> RunRecord:
        folder = tmp_path / "runs" / f"{arm}-r{number}"
        folder.mkdir(parents=True)
        text = jax.jit(step).lower(X).as_text(debug_info=True)
        (folder / "step.mlir.gz").write_bytes(gzip.compress(text.encode()))
        return RunRecord(
            plan=None,
            arm=arm,
            label=arm,
            commit=None,
            log=str(folder / "log.txt"),
            reading=RunReading(name=folder.name, format="maxtext"),
            program={"stablehlo_sha256": sha256} if sha256 else {},
        )

    return leave


def compare(tmp_path: Path, *runs: RunRecord) -> ProgramExplanation:
    store = Store(tmp_path)
    assert have_programs(runs, store)
    found = compare_kept_programs(runs, store)
    assert found is not None
    return found


def test_one_computation_in_another_order(tmp_path: Path, leave: Callable[..., RunRecord]) -> None:
    found = compare(tmp_path, leave("a", 0, plain), leave("b", 0, turned))
    assert found.answer == "same computation in another order"


def test_a_repeat_with_another_program_is_detected(tmp_path: Path, leave: Callable[..., RunRecord]) -> None:
    found = compare(tmp_path, leave("a", 0, plain), leave("b", 0, plain), leave("a", 1, plain), leave("b", 1, other))
    assert found.answer == "differs"


def test_a_floor_proved_by_our_trainer_is_not_compared_again(tmp_path: Path, leave: Callable[..., RunRecord]) -> None:
    runs = leave("a", 0, plain, "f00"), leave("b", 0, plain, "f00")
    assert not have_programs(runs, Store(tmp_path))


def test_a_run_without_a_kept_step_is_not_compared(tmp_path: Path, leave: Callable[..., RunRecord]) -> None:
    runs = leave("a", 0, plain), leave("b", 0, plain)
    (tmp_path / "runs" / "b-r0" / "step.mlir.gz").unlink()
    assert not have_programs(runs, Store(tmp_path))


def test_another_order_holds_the_floor_but_excuses_no_time() -> None:
    texts = [Floor(name="same program", holds=True, evidence="", same_text=same) for same in (True, False)]
    assert has_same_program(texts[:1])
    assert not has_same_program(texts[1:])  # another order may be compiled into other kernels


def test_ingested_logs_have_no_floors(leave: Callable[..., RunRecord]) -> None:
    from tasks.diff.examine.arms import ArmRuns

    runs = leave("a", 0, plain), leave("b", 0, plain)
    arms = [ArmRuns(name=run.arm, label=run.label, runs=(run,)) for run in runs]
    assert floors_of(arms) == []
