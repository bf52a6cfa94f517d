"""Checks relations between the keys of a training config, and between the config and the number of devices.

Each problem that the functions return names the keys to change.
"""

import math
from typing import NamedTuple

from configs.config_keys import ConfigKeys
from configs.kernels import flash_problems

# mesh axis → key with its number of devices; names and order are MaxText's
MESH_KEYS = {
    "data": "ici_data_parallelism",
    "stage": "ici_pipeline_parallelism",
    "fsdp": "ici_fsdp_parallelism",
    "context": "ici_context_parallelism",
    "tensor": "ici_tensor_parallelism",
    "expert": "ici_expert_parallelism",
}


def config_problems(config: ConfigKeys) -> list[str]:
    """Return the problems of a config that do not depend on the number of devices: bad values and contradictions."""
    problems = []
    if config.base_num_query_heads % config.base_num_kv_heads:
        problems.append(
            "base_num_query_heads must be a multiple of base_num_kv_heads (each key and value head serves equally many)"
        )
    if config.head_dim % 2:
        problems.append("head_dim must be even (rotary embeddings turn pairs of channels)")
    left = [key for key in MESH_KEYS.values() if getattr(config, key) == -1]
    if len(left) > 1:
        problems.append(f"only one of {' and '.join(left)} may be -1 (= all devices that are left)")
    if config.qk_rope_head_dim % 2:
        problems.append("qk_rope_head_dim must be even (rotary embeddings turn pairs of channels)")
    if config.num_experts_per_tok > config.num_experts:
        problems.append("num_experts_per_tok must be at most num_experts (each expert is chosen once)")
    if config.num_experts > 1 and config.first_num_dense_layers >= config.base_num_decoder_layers:
        problems.append("first_num_dense_layers must be less than base_num_decoder_layers (else no layer has experts)")
    problems += _pipeline_problems(config)
    if config.attention == "flash":
        problems += flash_problems(config)
    if config.resume_after_step >= config.steps - 1:
        problems.append("resume_after_step must be less than steps - 1 (else nothing is left to do after it)")
    if config.resume_after_step >= 0 and not config.enable_checkpointing:
        problems.append("resume_after_step needs enable_checkpointing: true (it resumes from a checkpoint)")
    return problems


class Pipeline(NamedTuple):
    """The distribution of the decoder layers over the mesh axis `stage`."""

    stages: int  # number of devices along that axis
    chunks: int  # number of chunks of layers per stage (virtual stages)
    layers: int  # number of layers per chunk
    microbatches: int  # number of parts of a batch


def pipeline_shape(config: ConfigKeys) -> Pipeline:
    """Return the pipeline of a config; `chunks` is rounded down if the layers cannot be divided evenly."""
    stages, layers = config.ici_pipeline_parallelism, config.num_layers_per_pipeline_stage
    asked = config.num_pipeline_microbatches
    microbatches = stages if asked == -1 else asked
    return Pipeline(stages, config.base_num_decoder_layers // (stages * layers), layers, microbatches)


def _pipeline_problems(config: ConfigKeys) -> list[str]:
    if config.ici_pipeline_parallelism == 1:
        return []
    shape, problems = pipeline_shape(config), []
    if shape.chunks * shape.stages * shape.layers != config.base_num_decoder_layers:
        problems.append(
            "base_num_decoder_layers must be a multiple of ici_pipeline_parallelism × num_layers_per_pipeline_stage "
            "(each stage holds equally many chunks)"
        )
    if shape.microbatches % shape.stages:
        problems.append("num_pipeline_microbatches must be a multiple of ici_pipeline_parallelism (they go in groups)")
    if config.num_experts > 1:
        problems.append("ici_pipeline_parallelism > 1 needs num_experts=1 (no mixture runs in a pipeline)")
    if not config.scan_layers:
        problems.append("ici_pipeline_parallelism > 1 needs scan_layers: true (its parameters have a layer axis)")
    return problems


def mesh_shape(config: ConfigKeys, num_devices: int) -> dict[str, int]:
    """Return the number of devices by mesh axis. Raises ValueError if the product cannot be `num_devices`."""
    asked = {axis: getattr(config, key) for axis, key in MESH_KEYS.items()}
    fixed = math.prod(size for size in asked.values() if size > 0)
    shape = {axis: num_devices // fixed if size == -1 else size for axis, size in asked.items()}
    if math.prod(shape.values()) != num_devices:
        said = {axis: size for axis, size in asked.items() if size != 1} or asked
        keys = ", ".join(f"{MESH_KEYS[axis]}={size}" for axis, size in said.items())
        if -1 in said.values():
            raise ValueError(f"{keys}: they need a multiple of {fixed} devices, and there are {num_devices}")
        raise ValueError(
            f"{keys}: a mesh of {fixed} devices, and there are {num_devices} (set one of its keys to -1 to fill up)"
        )
    return shape


def device_problems(config: ConfigKeys, num_devices: int) -> list[str]:
    """Return the reasons why a config's batch or arrays cannot be split over `num_devices`."""
    try:
        shape = mesh_shape(config, num_devices)
    except ValueError as error:
        return [str(error)]
    problems = []
    parts = pipeline_shape(config).microbatches * math.prod(shape[axis] for axis in ("data", "fsdp", "expert"))
    if shape["stage"] > 1 and config.per_device_batch_size * num_devices % parts:
        problems.append(
            f"per_device_batch_size={config.per_device_batch_size} gives {config.per_device_batch_size * num_devices} "
            f"sequences, which {parts} parts cannot share (num_pipeline_microbatches × devices of the batch)"
        )
    split = [
        ("base_emb_dim", "fsdp"),
        ("max_target_length", "context"),
        ("base_num_query_heads", "tensor"),
        ("base_num_kv_heads", "tensor"),
        ("base_mlp_dim", "tensor"),
        ("vocab_size", "tensor"),
        ("num_experts", "expert"),
    ] + ([("base_moe_mlp_dim", "tensor")] if config.num_experts > 1 else [])
    return problems + [
        f"{key}={getattr(config, key)} cannot be split over {MESH_KEYS[axis]}={shape[axis]}: make it a multiple"
        for key, axis in split
        if getattr(config, key) % shape[axis]
    ]
