"""Finds differences in the work of two arms: model, data, seeds, steps, and every config key."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from configs.findings import FindingKind
from tasks.diff.metric_row import Arms
from tasks.diff.observed import Observations, Observed, compare, notice, places_of
from tasks.diff.setting_differences import IMPLEMENTATION_KEYS, Difference, config_differences, variable_differences
from tasks.diff.software_differences import software_differs
from tasks.metrics.merged_steps import RATE, place_of
from tasks.records import RunReading

OTHER_UNIT = 1.5  # least ratio of the arms' tokens per step for a finding; rounding causes far smaller ratios
SINGLE = 5  # most differing keys of a kind with a finding each; more become one finding


def find_work(arms: Arms, declared: frozenset[str]) -> Observations:
    """Yield findings for differences in FLOPs, tokens, steps and config keys that are not declared."""
    left, right = arms[0].reading, arms[1].reading
    flops = left.flops.total_tflops, right.flops.total_tflops
    message = "the model does different work per step ({} and {} TFLOPs)"
    yield from compare(arms, "flops", flops, message, places_of(arms, "flops"))
    ends = place_of(left.steps, -1), place_of(right.steps, -1)
    tokens = _at(left, "total_weights", -1), _at(right, "total_weights", -1)
    yield from compare(arms, "tokens", tokens, "different numbers of tokens per step ({} and {})", ends)
    yield from _clocks(arms)
    begins, counts = (place_of(left.steps), place_of(right.steps)), (arms[0].counts_from, arms[1].counts_from)
    message = "the logs count their steps from {} and from {}: the n-th of one is compared with the n-th of the other"
    yield from compare(arms, "numbering", counts, message, begins)
    for index, word, places in ((0, "began", begins), (-1, "ended", ends)):
        steps = _at(left, "step", index), _at(right, "step", index)
        if index == 0 or not any(arm.dead for arm in arms):
            yield from compare(arms, "steps", steps, f"the arms {word} at different steps ({{}} and {{}})", places)
    yield from _configs(arms, declared)


def _clocks(arms: Arms) -> Observations:
    """Yield a finding if tokens per step (seconds × tokens per second) differ. Speed does not change this product."""
    left, right = (_tokens_of_step(arm.reading) for arm in arms)
    if left is not None and right is not None and not left / OTHER_UNIT <= right <= left * OTHER_UNIT:
        message = (
            "seconds per step × Tokens/s/device gives {:.0f} and {:.0f} tokens per step: the arms do different work or "
            "use different units"
        )
        places = place_of(arms[0].reading.steps), place_of(arms[1].reading.steps)
        yield from compare(arms, "tokens", (left, right), message, places)


def _tokens_of_step(reading: RunReading) -> float | None:
    if RATE not in reading.steps.columns:
        return None
    product = reading.steps.select(pl.col("seconds") * pl.col(RATE).cast(pl.Float64)).to_series().median()
    return product if isinstance(product, float) and product > 0 else None


def _at(reading: RunReading, column: str, index: int) -> Any:
    if reading.steps.is_empty() or column not in reading.steps.columns:
        return None
    return reading.steps[column][index]


def _configs(arms: Arms, declared: frozenset[str]) -> Observations:
    if "pure_nnx" in declared:
        declared |= IMPLEMENTATION_KEYS  # MaxText has three keys for the implementation
    # releases have different default configs, so only planned keys are compared between different software
    runs = arms[0].first, arms[1].first
    found = [item for item in config_differences(*runs, planned=software_differs(arms)) if item.name not in declared]
    yield from _observe(arms, [*found, *variable_differences(*runs)])


def _observe(arms: Arms, found: Sequence[Difference]) -> Observations:
    """Yield one observation per setting. Settings without effect for the same reason, or many of a kind, share one."""
    for kind, why in dict.fromkeys((item.kind, item.why) for item in found):
        same = [item for item in found if (item.kind, item.why) == (kind, why)]
        if len(same) > SINGLE or why:
            yield _together(arms, kind, same, why)
            continue
        for item in same:
            message = f"{item.name} differs ({{}} and {{}}), but is not declared to differ"
            yield from compare(arms, kind, item.values, message, places_of(arms, f"config.{item.name}"))


def _together(arms: Arms, kind: FindingKind, found: list[Difference], why: str) -> Observed:
    """Return one observation for several settings, with their values as evidence."""
    shown = ", ".join(item.name for item in found[:SINGLE])
    shown += f" and {len(found) - SINGLE} more" if len(found) > SINGLE else ""
    message = f"{len(found)} config keys differ, but are not declared to differ: {shown}"
    if why:
        message = f"{shown} {'differs' if len(found) == 1 else 'differ'}, which cannot matter: {why}"
    evidence = (
        (arm, f"{item.name}={value}", place)
        for item in found
        for arm, value, place in zip(arms, item.values, places_of(arms, f"config.{item.name}"), strict=True)
    )
    return notice(kind, message, *evidence)
