"""The new operations of the culprit's training step: JAX lowers both steps, from the functions below."""

import gzip
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from questions.bisect.culprit_program import compare_culprit_program
from questions.bisect.ledger import FOLDER, describe_program_change, ledger_key
from tasks.records.bisection import BisectedPoint, LedgerEntry
from tasks.records.compiled import LOWERED
from tasks.records.observation import PROGRAM
from tasks.records.plan import Commit, RunPlan
from tasks.store.store import Store, open_store

pytestmark = pytest.mark.long

X = jax.ShapeDtypeStruct((4, 8), jnp.float32)


def step(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) @ x.T


def scaled_step(x: jax.Array) -> jax.Array:
    return (jnp.tanh(x) * 0.75) @ x.T


@pytest.fixture
def plan(make_plan: Callable[..., RunPlan]) -> RunPlan:
    return make_plan("pass")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def make_points(*programs: str) -> list[BisectedPoint]:
    """Points whose program is an empty text do not compile."""
    entries = [LedgerEntry(program=text) if text else LedgerEntry(error="SyntaxError") for text in programs]
    return [
        BisectedPoint(
            commit=Commit(sha=f"{number}" * 40, time="", author="", subject=""), source=f"source {number}", ledger=entry
        )
        for number, entry in enumerate(entries)
    ]


def keep(store: Store, plan: RunPlan, point: BisectedPoint, text: str) -> None:
    folder = store.path / FOLDER / "programs" / ledger_key(point.source, plan)
    folder.mkdir(parents=True)
    (folder / LOWERED).write_bytes(gzip.compress(text.encode()))


def test_the_new_operation_is_reported_with_its_line(store: Store, plan: RunPlan) -> None:
    points = make_points("a", "", "b")
    for number, function in ((0, step), (2, scaled_step)):
        keep(store, plan, points[number], jax.jit(function).lower(X).as_text(debug_info=True))
    found = compare_culprit_program(points, 2, plan, {}, store)
    assert found is not None
    line = scaled_step.__code__.co_firstlineno + 1
    assert "222222222 alone computes 1 × multiply f32[4,8] with 0.75" in found.sentence
    assert f"test_culprit_program.py:{line} scaled_step" in found.sentence


def test_without_a_ledger_kept_programs_are_compared(store: Store, plan: RunPlan) -> None:
    points = [point.replace(ledger=LedgerEntry()) for point in make_points("a", "b")]
    runs: dict[int, Any] = {}
    for number, function in enumerate((step, scaled_step)):
        log = store.run(f"run-{number}").path / "log.txt"
        log.parent.mkdir(parents=True)
        text = jax.jit(function).lower(X).as_text(debug_info=True)
        (log.parent / PROGRAM).write_bytes(gzip.compress(text.encode()))
        runs[number] = [SimpleNamespace(log=str(log))]
    found = compare_culprit_program(points, 1, plan, runs, store)
    assert found is not None
    assert "111111111 alone computes 1 × multiply f32[4,8] with 0.75" in found.sentence


def test_equal_or_missing_programs_are_not_reported(store: Store, plan: RunPlan) -> None:
    points = make_points("a", "b")
    assert compare_culprit_program(points, 1, plan, {}, store) is None
    for point in points:
        keep(store, plan, point, jax.jit(step).lower(X).as_text(debug_info=True))
    assert compare_culprit_program(points, 1, plan, {}, store) is None
    same = LedgerEntry(program="a")
    assert describe_program_change(same, same).startswith("the same program as before: the host loop")
