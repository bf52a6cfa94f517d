"""Finds where the losses of two runs stop being equal, at the best precision that both are known in."""

import struct
from math import isfinite, isnan

import polars as pl

from configs.schema import Frozen
from tasks.diff.arms import is_exact, printed_steps, step_table
from tasks.records import FirstDivergence, RunRecord

EXACT = "the last bit (float32)"
LEAST_DECIMALS = 3  # MaxText prints three; a log in which they all happen to end in 0 prints three too


class LossParity(Frozen):
    """How far the losses of two runs agree, over the steps that both have."""

    common: int
    precision: str
    unit: float  # one unit of the last printed digit; 0 where losses are known in full
    first: FirstDivergence | None = None
    worst: tuple[int, float, float] | None = None  # the step with the largest difference, and both losses there


def compare_losses(baseline: RunRecord, candidate: RunRecord) -> LossParity:
    """Compare step by step: bits if both trainers wrote them, else what both logs print."""
    exact = is_exact(baseline) and is_exact(candidate)
    tables = [step_table(run) if exact else printed_steps(run) for run in (baseline, candidate)]
    left, right = (_losses(table) for table in tables)
    steps = sorted(left.keys() & right.keys())
    decimals = max(map(_decimals, [*left.values(), *right.values()]), default=LEAST_DECIMALS)
    precision = EXACT if exact else f"printed precision ({decimals} decimals)"
    different = [step for step in steps if not (same_bits if exact else _same)(left[step], right[step])]
    first = None
    if different:
        texts = [repr(side[different[0]]) if exact else f"{side[different[0]]:.{decimals}f}" for side in (left, right)]
        first = FirstDivergence(
            metric="loss", step=different[0], baseline=texts[0], candidate=texts[1], precision=precision
        )
    worst = max(different, key=lambda step: _distance(left[step], right[step]), default=None)
    return LossParity(
        common=len(steps),
        precision=precision,
        unit=0.0 if exact else 10.0**-decimals,
        first=first,
        worst=None if worst is None else (worst, left[worst], right[worst]),
    )


def _losses(table: pl.DataFrame) -> dict[int, float]:
    known = table.filter(pl.col("loss").is_not_null())  # a step that was skipped has none
    return dict(zip(known["step"], known["loss"], strict=True))


def _decimals(value: float) -> int:
    text = repr(value)
    return LEAST_DECIMALS if "e" in text or not isfinite(value) else max(LEAST_DECIMALS, len(text.partition(".")[2]))


def _same(left: float, right: float) -> bool:
    return left == right or (isnan(left) and isnan(right))


def same_bits(left: float, right: float) -> bool:
    """Whether the bits are equal, so that NaN equals NaN and 0.0 differs from -0.0."""
    return struct.pack("<d", left) == struct.pack("<d", right)


def _distance(left: float, right: float) -> float:
    distance = abs(left - right)
    return distance if isfinite(distance) else float("inf")
