"""Checks before launch whether given devices can train a config.

The trainer repeats the checks on its real devices, with the same messages.
"""

import math
from collections.abc import Iterator

from configs.errors import ConfigError
from configs.frozen import Frozen
from configs.kernels import choose_attention
from configs.model_checks import device_problems, mesh_shape, pipeline_shape
from configs.schema import TrainConfig

GIB = 2.0**30
BYTES = {"float32": 4, "bfloat16": 2}  # per value


class Devices(Frozen):
    """The devices of a training run."""

    count: int
    platform: str | None = None  # JAX's name: cpu, tpu or gpu; None: unknown
    memory_gib: float | None = None  # GiB per device; None: unknown


def check_config(config: TrainConfig, devices: Devices) -> None:
    """Raise ConfigError with the results of `find_problems`; do nothing if there are none."""
    problems = list(find_problems(config, devices))
    if problems:
        raise ConfigError(problems)


def find_problems(config: TrainConfig, devices: Devices) -> Iterator[str]:
    """Yield the reasons why these devices cannot train the config; each begins with the keys to change.

    The memory is checked only if it is known and the arrays can be split over the devices.
    """
    if devices.platform is not None and devices.platform != config.hardware:
        yield (
            f"hardware={config.hardware}, but the devices are {devices.platform} "
            f"(set JAX_PLATFORMS={config.hardware} or hardware={devices.platform})"
        )
    problems = device_problems(config, devices.count)
    yield from problems
    if devices.memory_gib is not None and not problems:
        yield from find_excess(config, mesh_shape(config, devices.count), devices.memory_gib)


def mlp_width(config: TrainConfig) -> int:
    """Return the sum of the hidden widths of all MLPs and experts in the decoder."""
    if config.num_experts == 1:
        return config.base_num_decoder_layers * config.base_mlp_dim
    mixtures = config.base_num_decoder_layers - config.first_num_dense_layers
    experts = config.num_experts + config.shared_experts
    return config.first_num_dense_layers * config.base_mlp_dim + mixtures * experts * config.base_moe_mlp_dim


def find_excess(config: TrainConfig, shape: dict[str, int], memory_gib: float) -> Iterator[str]:
    """Yield a problem if a lower bound of a step's memory exceeds the memory of a device.

    shape: number of devices along each mesh axis.
    """
    tensor = shape["tensor"]
    batch = config.per_device_batch_size * tensor  # the devices along the tensor axis process the same sequences
    length, value_bytes = config.max_target_length, BYTES[config.dtype]
    tokens = batch * length  # per device
    layers, emb = config.base_num_decoder_layers, config.base_emb_dim
    # Bytes on all devices together, at least: weights and two optimizer moments of one embedding and of the MLPs, which
    # have three matrices each.
    state_bytes = 3 * BYTES[config.weight_dtype] * emb * (config.vocab_size + 3 * mlp_width(config))
    input_bytes = layers * tokens * emb * value_bytes  # of the layers' inputs, which every remat policy stores
    # the dot_product kernel stores a score of 4 bytes for every pair of positions
    stores_scores = choose_attention(config).kernel == "dot_product"
    score_bytes = 4 * tokens * length * config.base_num_query_heads if stores_scores else 0
    if shape["stage"] > 1:  # a stage processes one microbatch at a time
        score_bytes //= pipeline_shape(config).microbatches
    logit_bytes = tokens * config.vocab_size * value_bytes
    needed = state_bytes / math.prod(shape.values()) + input_bytes + max(logit_bytes, score_bytes) / tensor
    if needed / GIB > memory_gib:
        keys: tuple[str, ...] = (
            "per_device_batch_size", "max_target_length", "base_emb_dim", "base_mlp_dim", "base_num_decoder_layers",
            "base_num_query_heads", "vocab_size",
        )  # fmt: skip
        keys += ("num_experts", "base_moe_mlp_dim") if config.num_experts > 1 else ()
        named = ", ".join(f"{key}={getattr(config, key)}" for key in keys)
        asked, has = f"{needed / GIB:,.1f}", f"{memory_gib:,.1f}"
        yield f"{named}: a step needs at least {asked} GiB of a device that has {has} (make one smaller)"
