"""Finds out whether the two arms did the same work: the model, the data, the seeds, the steps, and every config key."""

import re
from typing import Any

from configs.findings import FindingKind
from configs.schema import PLACE_KEYS
from tasks.diff.observed import Observations, Observed, compare, last_step_line, places_of, show_each
from tasks.diff.rows import Arms
from tasks.diff.trainers import config_of
from tasks.records import RunReading

PLACES = PLACE_KEYS | {"tensorboard_dir", "checkpoint_dir", "metrics_dir"}  # MaxText's, derived from PLACE_KEYS
SINGLE = 5  # more keys than this that differ become one finding
# keys of MaxText, of ours and of Megatron, by what they decide
KEYS: tuple[tuple[FindingKind, re.Pattern[str]], ...] = (
    ("seed", re.compile(r"seed")),
    ("data", re.compile(r"^(data|dataset|eval_dataset|train_data|hf|grain|tfds|tokenizer|c4_mlperf)(_|$)|_split$|"
                        r"^(split|packing|vocab_file|merge_file|mock_data|num_epoch)$")),
    ("xla-flags", re.compile(r"xla_flags|libtpu_init_args|^xla_")),
)  # fmt: skip


def find_work(arms: Arms, declared: frozenset[str]) -> Observations:
    """Other work per step, other steps, other data, seeds, flags or config keys than were declared to differ."""
    left, right = arms[0].reading, arms[1].reading
    flops = left.flops.total_tflops, right.flops.total_tflops
    message = "the model does different work per step ({} and {} TFLOPs)"
    yield from compare(arms, "flops", flops, message, places_of(arms, "flops"))
    ends = last_step_line(left), last_step_line(right)
    tokens = _last(left, "total_weights"), _last(right, "total_weights")
    yield from compare(arms, "tokens", tokens, "different numbers of tokens per step ({} and {})", ends)
    if not any(arm.dead for arm in arms):
        steps = _last(left, "step"), _last(right, "step")
        yield from compare(arms, "steps", steps, "the arms ended at different steps ({} and {})", ends)
    yield from _configs(arms, declared)


def _last(reading: RunReading, column: str) -> Any:
    if reading.steps.is_empty() or column not in reading.steps.columns:
        return None
    return reading.steps[column][-1]


def _configs(arms: Arms, declared: frozenset[str]) -> Observations:
    left, right = (config_of(arm) for arm in arms)
    keys = sorted((left.keys() & right.keys()) - PLACES - declared)
    different = [key for key in keys if left[key] != right[key]]
    for kind in dict.fromkeys(map(kind_of, different)):
        same_kind = [key for key in different if kind_of(key) == kind]
        if len(same_kind) > SINGLE:
            yield _many(arms, kind, same_kind, (left, right))
            continue
        for key in same_kind:
            message = f"{key} differs ({{}} and {{}}), and was not meant to"
            yield from compare(arms, kind, (left[key], right[key]), message, places_of(arms, f"config.{key}"))


def _many(arms: Arms, kind: FindingKind, keys: list[str], configs: tuple[dict[str, str], dict[str, str]]) -> Observed:
    """One observation for many keys, as two versions of a trainer have them: their values are the evidence."""
    shown = ", ".join(keys[:SINGLE])
    return Observed(
        kind=kind,
        message=f"{len(keys)} config keys differ, and were not meant to: {shown} and {len(keys) - SINGLE} more",
        evidence=tuple(
            evidence
            for key in keys
            for evidence in show_each(
                arms, (f"{key}={configs[0][key]}", f"{key}={configs[1][key]}"), places_of(arms, f"config.{key}")
            )
        ),
    )


def kind_of(key: str) -> FindingKind:
    """What a config key decides, by its name."""
    return next((kind for kind, pattern in KEYS if pattern.search(key)), "config")
