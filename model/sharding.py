"""Turns logical axis names into places on a mesh: which axis of which array is split over which devices."""

import math
from collections.abc import Sequence
from typing import Any, cast

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from configs.load import ConfigError
from configs.schema import TrainConfig

MESH_AXES = ("data", "fsdp", "tensor")

type MeshAxes = str | tuple[str, ...] | None

# Logical axes are MaxText's, so that its parameter dump and ours can be laid side by side.
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
    "layers": None,
    # activations
    "activation_batch": ("data", "fsdp"),
    "activation_length": None,
    "activation_embed": None,
    "activation_mlp": "tensor",
    "activation_heads": "tensor",
    "activation_kv": None,
    "activation_vocab": "tensor",
}


def mesh_spec(axes: Sequence[str]) -> PartitionSpec:
    """The mesh axes that an array with these logical axes is split over."""
    return PartitionSpec(*(RULES[axis] for axis in axes))


def constrain(x: jax.Array, *axes: str) -> jax.Array:
    """Pin an activation to its place on the mesh; outside a mesh (`jax.set_mesh`) it stays as it is."""
    if jax.sharding.get_abstract_mesh().empty:
        return x
    return cast(jax.Array, jax.lax.with_sharding_constraint(x, mesh_spec(axes)))


def check_backend(config: TrainConfig) -> None:
    """Raises ConfigError if JAX found other devices than the config asks for."""
    if jax.default_backend() != config.hardware:
        found = f"hardware={config.hardware}, but JAX found {jax.default_backend()} devices"
        raise ConfigError([f"{found} (set JAX_PLATFORMS={config.hardware} or hardware={jax.default_backend()})"])


def mesh_shape(config: TrainConfig, num_devices: int) -> tuple[int, int, int]:
    """Devices along (data, fsdp, tensor). Raises ConfigError if they do not multiply to `num_devices`."""
    asked = (config.ici_data_parallelism, config.ici_fsdp_parallelism, config.ici_tensor_parallelism)
    fixed = math.prod(size for size in asked if size > 0)
    shape = tuple(num_devices // fixed if size == -1 else size for size in asked)
    if math.prod(shape) != num_devices:
        keys = ", ".join(f"ici_{name}_parallelism={size}" for name, size in zip(MESH_AXES, asked, strict=True))
        raise ConfigError(
            [f"{keys}: their product must be the number of devices, {num_devices} (set one of them to -1 to fill up)"]
        )
    return shape[0], shape[1], shape[2]


def make_mesh(config: TrainConfig, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """The mesh (data, fsdp, tensor) over `devices`, by default all. Raises ConfigError if the model cannot be split."""
    devices = jax.devices() if devices is None else devices
    shape = mesh_shape(config, len(devices))
    problems = [
        f"{key}={size} cannot be split over ici_{axis}_parallelism={ways}: make it a multiple"
        for key, size, axis, ways in [
            ("base_emb_dim", config.base_emb_dim, "fsdp", shape[1]),
            ("base_num_query_heads", config.base_num_query_heads, "tensor", shape[2]),
            ("base_mlp_dim", config.base_mlp_dim, "tensor", shape[2]),
            ("vocab_size", config.vocab_size, "tensor", shape[2]),
        ]
        if size % ways
    ]
    if problems:
        raise ConfigError(problems)
    return jax.make_mesh(shape, MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES), devices=devices)


def named_shardings(mesh: Mesh, axes: Any) -> Any:
    """A tree of logical axes (PartitionSpecs of logical names) as NamedShardings on the mesh."""
    return jax.tree.map(
        lambda spec: NamedSharding(mesh, mesh_spec(spec)), axes, is_leaf=lambda node: isinstance(node, PartitionSpec)
    )


def global_batch_size(config: TrainConfig, mesh: Mesh) -> int:
    """Sequences per step over all devices."""
    return config.per_device_batch_size * mesh.size
