"""Compares the config and data of a resumed run with the config and data at the run's start.

Steps, learning rates, intervals, numerics, layout and devices may change on resume. The values of `identity` may not:
the checkpoints would load with other values too, and the result would be a mixture of two runs.
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
CHECKSUM_BYTES = 1 << 16  # bytes at the start of each text file that enter the checksum


def identity(config: TrainConfig, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that a resumed run must keep, by key. Array shapes are checked elsewhere.

    texts: the result of `describe_texts`; empty if the run reads no text files.
    """
    kept = {key: getattr(config, key) for key in KEPT}
    return kept | {"dropout_rate": config.dropout_rate if config.enable_dropout else 0.0} | dict(texts)


def describe_texts(config: TrainConfig, paths: Sequence[str], share: str) -> dict[str, str]:
    """Return a description of the text files, tokenizer and batch split, by key.

    If a description changed, the stored position in the data would point to another text. The files may move to
    another folder.

    share: the sequences of each batch that each process reads, in words.
    """
    size, known = 0, 0
    for path in map(Path, paths):
        size += (held := path.stat().st_size)
        with path.open("rb") as file:
            known = zlib.crc32(b"%d" % held + file.read(CHECKSUM_BYTES), known)
    model = place(config.tokenizer_path).read_bytes() if config.tokenizer_path else b""
    return {
        "grain_train_files": f"{size} bytes in {len(paths)} file{'s'[: len(paths) > 1]} (CRC {known:08x})",
        "grain_file_type": config.grain_file_type,
        "tokenizer_path": f"a model (CRC {zlib.crc32(model):08x})" if model else "single bytes",
        "per_device_batch_size": share,
    }


def find_difference(before: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """Return the keys whose values differ, with both values; None if all common keys have equal values."""
    keys = [key for key in here if key in before and here[key] != before[key]]
    different = [f"{key} is {_show(here[key])} here and {_show(before[key])} there" for key in keys]
    return ", ".join(different) or None


def _show(value: object) -> object:
    return "empty" if value == "" else value


def config_lines(config: TrainConfig) -> list[str]:
    """Return the config as lines `key: value`, with values in JSON, which is also YAML."""
    return [f"{key}: {json.dumps(value)}" for key, value in config.model_dump().items()]


def find_changed_keys(config: TrainConfig, text: str) -> str:
    """Return the lines of a run's original config file `text` that `config` lacks: "scan_layers: true, …"; "" if none.

    Leaves out the lines of PLACE_KEYS.
    """
    own = {*config_lines(config)}
    lines = [line.partition("  # ")[0] for line in text.splitlines()]
    changed = [line for line in lines if line and line not in own]
    return ", ".join(line for line in changed if line.partition(":")[0] not in PLACE_KEYS)
