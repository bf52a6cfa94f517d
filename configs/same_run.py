"""Turns a config and its data into what a run keeps when it goes on, and two of these into the keys that differ.

Steps, learning rates, intervals, numerics, layout and devices may change between two starts of a run. What is here may
not: other values would fit its checkpoints too, and what goes on would be neither of two runs.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from configs.data_checks import place
from configs.schema import PLACE_KEYS, TrainConfig

KEPT = (
    "init_weights_seed", "quantization", "normalization_layer_epsilon", "rope_max_timescale", "num_experts_per_tok",
    "capacity_factor", "dataset_type", "data_shuffle_seed", "max_target_length",
)  # fmt: skip
LOOKED_AT = 1 << 16  # bytes of each file that tell it from another of its size


def identity(config: TrainConfig, texts: Mapping[str, str]) -> dict[str, Any]:
    """What a run that goes on keeps besides the shapes of its arrays, by the key that decides it.

    texts: of `describe_texts`; empty where none are read.
    """
    kept = {key: getattr(config, key) for key in KEPT}
    return kept | {"dropout_rate": config.dropout_rate if config.enable_dropout else 0.0} | dict(texts)


def describe_texts(config: TrainConfig, paths: Sequence[str], share: str) -> dict[str, str]:
    """What a place in texts counts in: with other files, tokens or rows the same number would be another text.

    Where the files lie does not matter. share: which rows of which batch each process reads.
    """
    size, known = 0, 0
    for path in map(Path, paths):
        size += (held := path.stat().st_size)
        with path.open("rb") as file:
            known = zlib.crc32(b"%d" % held + file.read(LOOKED_AT), known)
    model = place(config.tokenizer_path).read_bytes() if config.tokenizer_path else b""
    return {
        "grain_train_files": f"{size} bytes in {len(paths)} file{'s'[: len(paths) > 1]} (CRC {known:08x})",
        "grain_file_type": config.grain_file_type,
        "tokenizer_path": f"a model (CRC {zlib.crc32(model):08x})" if model else "single bytes",
        "per_device_batch_size": share,
    }


def find_difference(before: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """The keys that two runs differ in, with both values; None if there are none, or none is known of `before`."""
    keys = [key for key in here if key in before and here[key] != before[key]]
    told = [f"{key} is {_show(here[key])} here and {_show(before[key])} there" for key in keys]
    return ", ".join(told) or None


def _show(value: object) -> object:
    return "empty" if value == "" else value


def config_lines(config: TrainConfig) -> list[str]:
    """`key: value`, as JSON writes it, which is YAML too."""
    return [f"{key}: {json.dumps(value)}" for key, value in config.model_dump().items()]


def find_changes(config: TrainConfig, text: str) -> str:
    """What the config that began a run says otherwise: "scan_layers: true, …". text: its lines, or a launcher's."""
    own = {*config_lines(config)}
    lines = [line.partition("  # ")[0] for line in text.splitlines()]
    changed = [line for line in lines if line and line not in own]
    return ", ".join(line for line in changed if line.partition(":")[0] not in PLACE_KEYS)
