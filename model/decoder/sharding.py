"""Maps logical axis names to the axes of a mesh, and makes the mesh."""

import os
from collections.abc import Sequence
from typing import cast

import jax
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, PartitionSpec

from configs.checks import GIB, Devices, check_config
from configs.errors import ConfigError
from configs.installed import machine_memory_gib
from configs.model_checks import MESH_KEYS, mesh_shape
from configs.schema import TrainConfig

MESH_AXES = tuple(MESH_KEYS)

type MeshAxes = str | tuple[str, ...] | None

# logical axis -> mesh axes that split it, None if it is never split; the names are MaxText's, so that both lists of
# parameters can be compared
RULES: dict[str, MeshAxes] = {
    # parameters
    "vocab": "tensor",
    "embed_vocab": "fsdp",
    "embed": "fsdp",
    "mlp": "tensor",
    "heads": "tensor",
    "q_heads": "tensor",
    "kv_heads": "tensor",
    "kv": None,
    "kv_head_dim": None,
    "norm": None,
    "low_rank": None,
    "exp": "expert",
    "exp_chosen": None,
    "layers": "stage",
    # activations
    "activation_batch": ("data", "fsdp", "expert"),
    "activation_length": "context",
    "activation_embed": None,
    "activation_mlp": "tensor",
    "activation_heads": "tensor",
    "activation_kv": None,
    "activation_vocab": "tensor",
}


def mesh_spec(axes: Sequence[str]) -> PartitionSpec:
    """Return the PartitionSpec of an array with these logical axes."""
    return PartitionSpec(*(RULES[axis] for axis in axes))


def constrain(x: jax.Array, *axes: str) -> jax.Array:
    """Constrain an activation's sharding; without a mesh (`jax.set_mesh`), return it unchanged."""
    if jax.sharding.get_abstract_mesh().empty:
        return x
    return cast(jax.Array, jax.lax.with_sharding_constraint(x, mesh_spec(axes)))


def find_devices() -> None:
    """Start JAX's backend. Raises ConfigError if it finds no device of the kind in JAX_PLATFORMS."""
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # AssertionError: no installed plugin supports the kind
        kind = os.environ.get("JAX_PLATFORMS", "")
        said = f" ({error})" if str(error) else ""
        install = f"; JAX for it is an extra: uv sync --extra {kind}" if kind in ("cuda", "tpu") else ""
        raise ConfigError([f"JAX_PLATFORMS={kind}: JAX finds no such device{said}{install}"]) from error


def check_backend(config: TrainConfig) -> None:
    """Raise ConfigError if the config cannot be trained on the devices that JAX found."""
    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    memory = limit / GIB if limit else machine_memory_gib() / jax.local_device_count()
    check_config(config, Devices(count=jax.device_count(), platform=jax.default_backend(), memory_gib=memory))


def make_mesh(config: TrainConfig, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Return the mesh over `devices` (None: all). Raises ConfigError if the model cannot be split over them."""
    devices = jax.devices() if devices is None else devices
    check_config(config, Devices(count=len(devices)))
    shape = tuple(mesh_shape(config, len(devices)).values())
    # a TPU slice has two or three physical axes; meshes with more axes need to split them
    placed = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
    return Mesh(placed, MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES))


def global_batch_size(config: TrainConfig, mesh: Mesh) -> int:
    """Return the number of sequences per step over all devices."""
    return config.per_device_batch_size * config.gradient_accumulation_steps * mesh.size
