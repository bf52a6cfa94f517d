"""Losses that differ by rounding: *changed*, never *regressed*; the limit follows from the type of the training."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from configs.verdict_rules import load_tolerances
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.run import RunRecord

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], MetricDiff]

STEPS = 20
CURVE = 8.7 - 0.05 * np.arange(STEPS)
# the largest gaps of 60 steps with `x / sqrt(v)` in place of `x * rsqrt(v)`, as measured: 01_base, 16_f32_exact and
# 06_moe; a changed constant of a norm can be as small, which loss curves cannot show
ROUNDING = {"bfloat16": 5.5e-4, "float32": 1e-6, "choices": 4.1e-3}


@pytest.fixture
def arms(make_run: MakeRun) -> Callable[..., list[list[RunRecord]]]:
    """arms(gap, kind of band): two equal runs of each arm; the candidate's losses wander and end higher (ends: 1)."""

    def make(gap: float, kind: str | None, ends: float = 1.0) -> list[list[RunRecord]]:
        signs = np.where(np.arange(STEPS) < 15, np.cos(np.arange(STEPS)), ends)
        types = {"dtype": "bfloat16", "num_experts": 8} if kind == "choices" else {"dtype": kind} if kind else {}
        plan: dict[str, Any] = {"config": {"steps": STEPS} | types}

        def run(arm: str, curve: Sequence[float], repeat: int) -> RunRecord:
            seconds = [1.0 + 0.01 * repeat + 0.001 * step + 0.0001 * len(arm) for step in range(STEPS)]
            table = pl.DataFrame({"step": range(STEPS), "loss": curve, "step_time_s": seconds})
            return make_run(arm, losses=curve, seconds=seconds, repeat=repeat, record={"metrics": table}, plan=plan)

        curves = {"linen": CURVE, "nnx": CURVE + gap * signs}
        return [[run(arm, curve.tolist(), repeat) for repeat in range(2)] for arm, curve in curves.items()]

    return make


@pytest.mark.parametrize("kind", list(ROUNDING))
@pytest.mark.parametrize("ends", [1.0, -1.0])
def test_a_rounding_difference_is_changed(
    kind: str, ends: float, arms: Callable[..., list[list[RunRecord]]], compare: Compare, row_of: RowOf
) -> None:
    record = compare(*arms(ROUNDING[kind], kind, ends))
    row = row_of(record, "loss_per_step")
    assert row.verdict == "changed", row.reason
    assert "rounding can explain it" in row.reason
    assert load_tolerances("default")[f"loss_of_rounding_{kind}"].why in row.reason
    assert row_of(record, "final_loss").verdict == "changed"
    assert record.verdict == "changed", record.headline
    assert "regressed" not in record.headline
    beyond = compare(*arms(20 * ROUNDING[kind], kind, ends))
    assert row_of(beyond, "loss_per_step").verdict == ("regressed" if ends > 0 else "changed")
    assert "rounding" not in row_of(beyond, "loss_per_step").reason


def test_float32_does_not_round_like_bfloat16(
    arms: Callable[..., list[list[RunRecord]]], compare: Compare, row_of: RowOf
) -> None:
    assert row_of(compare(*arms(ROUNDING["bfloat16"], "float32")), "loss_per_step").verdict == "regressed"
    # a log that names no type: the difference may be rounding
    assert row_of(compare(*arms(ROUNDING["bfloat16"], None)), "loss_per_step").verdict == "changed"


def test_rules_without_a_band_judge_as_they_did(
    arms: Callable[..., list[list[RunRecord]]], compare: Compare, row_of: RowOf
) -> None:
    """Plans of older versions store their rules, which lack the bands."""
    older = {name: one for name, one in load_tolerances("default").items() if "rounding" not in name}
    record = compare(*arms(ROUNDING["float32"], "float32"), tolerances=older)
    assert row_of(record, "loss_per_step").verdict == "regressed"
