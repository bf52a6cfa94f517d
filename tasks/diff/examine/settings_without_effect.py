"""Finds settings without effect, fields of step lines that one arm lacks or that never change, untrained arrays, and
arms whose runs differ among themselves."""

import re
from collections.abc import Sequence
from math import inf

import polars as pl

from configs.frozen import Frozen
from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.observed import Observations, contrast, notice, places_of
from tasks.diff.examine.parity import MIN_STEPS, NOISY_NAMES, POSITION_COLUMNS, MetricParity
from tasks.diff.examine.setting_differences import config_of
from tasks.diff.examine.undeclared_differences import trainers_differ
from tasks.diff.examine.untrained import find_untrained
from tasks.metrics.merged_steps import is_exact, place_of_row
from tasks.records.shared_fields import Source

# config keys that should change the losses of every training
EFFECTIVE = ("enable_dropout", "dropout_rate", "quantization", "learning_rate", "dtype", "weight_dtype",
             "init_weights_seed", "data_shuffle_seed")  # fmt: skip
_ARRAY = re.compile(r"param")  # beginning of the names of fields about a parameter array
OFF = frozenset({"False", "false", "0", "0.0"})  # values of enable_dropout without dropout


class FieldSummary(Frozen):
    """A summary of the values of one field of the step lines or metrics files, over all runs of an arm."""

    count: int  # number of values, without NaN
    low: float  # the smallest value
    high: float  # the largest value
    place: (
        Source | None
    )  # of the first value that is not 0 in the first run with the field, else of that run's first step

    @property
    def is_constant(self) -> bool:
        """Whether the field never changes."""
        return self.low == self.high


def find_variation(arms: Arms, parities: Sequence[MetricParity]) -> Observations:
    """Yield a finding for each arm whose runs differ among themselves, with their values at the first such step."""
    for index, arm in enumerate(arms):
        varying = [(item.parity.metric, side) for item in parities if (side := item.within[index]) is not None]
        if not varying:
            continue
        metric, first = min(varying, key=lambda pair: pair[1].step)
        names = ", ".join(name for name, _ in varying)
        message = (
            f"the runs of {arm.label} differ among themselves from step {first.step} on ({names}), so equal values "
            "cannot be required"
        )
        runs = zip(first.numbers, first.values, first.places, strict=True)
        shown = ((arm, f"run {number + 1}: {metric} {value}", place) for number, value, place in runs)
        yield notice("nondeterministic", message, *shown)


def find_missing_effects(arms: Arms, declared: frozenset[str], parities: Sequence[MetricParity]) -> Observations:
    """Yield findings for missing or constant fields, untrained arrays, and settings without effect.

    The fields of both arms are compared only if the arms have the same log format and trainer.
    """
    exact = all(is_exact(run) for arm in arms for run in arm.runs)
    fields = numeric_fields(arms[0], exact=exact), numeric_fields(arms[1], exact=exact)
    if arms[0].reading.format == arms[1].reading.format and not trainers_differ(arms):
        yield from _compare_fields(arms, *fields)
    for arm, read in zip(arms, fields, strict=True):
        yield from _frozen_fields(arm, read)
    yield from find_untrained(arms)
    yield from _without_effect(arms, declared, parities)


def numeric_fields(arm: ArmRuns, *, exact: bool) -> dict[str, FieldSummary]:
    """Return name → values of the numeric fields of the arm's step lines.

    exact: use a run's metrics file instead, if the run has one.
    """
    fields: dict[str, FieldSummary] = {}
    for number, run in enumerate(arm.runs):
        table = run.metrics if exact and run.metrics is not None else run.reading.steps
        for name, kind in table.schema.items():
            if not kind.is_numeric() or name in POSITION_COLUMNS:
                continue
            given = table[name].cast(pl.Float64).drop_nulls()
            if given.is_empty():
                continue
            before, seen = fields.get(name), given.drop_nans().to_numpy()  # all NaN: a field without a value
            fields[name] = FieldSummary(
                count=seen.size + (before.count if before else 0),
                low=min(float(seen.min(initial=inf)), before.low if before else inf),
                high=max(float(seen.max(initial=-inf)), before.high if before else -inf),
                place=before.place if before else _first_that_moves(run.reading.steps, name, number),
            )
    return fields


def _first_that_moves(steps: pl.DataFrame, name: str, run: int) -> Source | None:
    moving = steps.filter(pl.col(name).is_not_null() & (pl.col(name) != 0)) if name in steps.columns else steps
    return place_of_row(steps if moving.is_empty() else moving, run=run)


def _compare_fields(arms: Arms, left: dict[str, FieldSummary], right: dict[str, FieldSummary]) -> Observations:
    if not left or not right:
        return  # an arm without steps has died, or its log is empty
    pairs = ((arms[0], arms[1], left, right), (arms[1], arms[0], right, left))
    for arm, other, mine, theirs in pairs:
        if lacking := [name for name in theirs if name not in mine]:
            names = ", ".join(lacking)
            places = next(iter(mine.values())).place, theirs[lacking[0]].place
            message = f"the steps of {arm.label} have no {names}; those of {other.label} do"
            yield notice("missing-field", message, (arm, f"no {names}", places[0]), (other, names, places[1]))
        for name, field in theirs.items():
            have = mine.get(name)
            if have is None or NOISY_NAMES.search(name) or min(have.count, field.count) < MIN_STEPS:
                continue
            if not have.is_constant or (field.is_constant and (have.low != 0 or field.low == 0)):
                continue
            span = f"{field.low:g}" if field.is_constant else f"{field.low:g} to {field.high:g}"
            message = f"{arm.label} has {name} {have.low:g} in all steps, and {other.label} has {span}"
            shown = (arm, f"{have.low:g} in {have.count} steps", have.place), (other, span, field.place)
            yield notice("constant-field" if have.low else "zero-field", message, *shown)


def _frozen_fields(arm: ArmRuns, fields: dict[str, FieldSummary]) -> Observations:
    """Yield findings for fields about a parameter array (`params/…`, `param_norm/…`) that never change."""
    for name, field in fields.items():
        if _ARRAY.match(name) and field.is_constant and field.count >= MIN_STEPS:
            message = f"{name} of {arm.label} is {field.low:g} in all {field.count} steps: not trained"
            yield notice("frozen-array", message, (arm, f"{field.low:g}", field.place))


def _without_effect(arms: Arms, declared: frozenset[str], parities: Sequence[MetricParity]) -> Observations:
    """Yield a finding for each of the EFFECTIVE keys whose values differ although all losses are equal.

    Ignores keys that one arm lacks, and the dropout rate of arms without dropout.
    """
    if not parities or parities[0].parity.first is not None or parities[0].parity.steps < MIN_STEPS:
        return
    loss = parities[0].parity
    left, right = (config_of(arm.first) for arm in arms)
    for key in EFFECTIVE:
        values = left.get(key), right.get(key)
        if None in values or values[0] == values[1]:
            continue
        if key == "dropout_rate" and left.get("enable_dropout") in OFF and right.get("enable_dropout") in OFF:
            continue
        which = "declared difference" if key in declared else "difference"
        message = (
            f"{key} differs ({values[0]} and {values[1]}), but the losses are equal to {loss.precision} at all "
            f"{loss.steps} steps: the {which} has no effect"
        )
        yield contrast(arms, "no-effect", message, values, places_of(arms, f"config.{key}"))
