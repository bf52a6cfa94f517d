"""Turns either dialect's decoder into the two functions that the trainer knows: declare the parameters, apply them."""

from typing import Any, Protocol, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx

from configs.schema import TrainConfig
from model import decoder_linen, decoder_nnx

type Tree = Any


class Implementation(Protocol):
    """A decoder whose parameters are plain nested dicts, `{"params": {"decoder": …, "token_embedder": …}}`."""

    name: str  # "linen" or "nnx"

    def declare(self) -> tuple[Tree, Tree]:
        """The parameters as a tree of `jax.ShapeDtypeStruct`, and their logical axes as a tree of `PartitionSpec`."""
        ...

    def apply(self, params: Tree, tokens_BL: jax.Array, key: jax.Array) -> jax.Array:
        """The logits_BLV of tokens; `key` holds seed and step."""
        ...


class Linen:
    """The Linen decoder."""

    name = "linen"

    def __init__(self, config: TrainConfig):
        self.module = decoder_linen.Decoder(config)

    def declare(self) -> tuple[Tree, Tree]:
        tokens_BL = jax.ShapeDtypeStruct((1, 1), jnp.int32)
        key = jax.eval_shape(lambda: jax.random.key(0))
        boxed = jax.eval_shape(self.module.init, key, tokens_BL, key)
        return nn.meta.unbox(boxed), nn.get_partition_spec(boxed)

    def apply(self, params: Tree, tokens_BL: jax.Array, key: jax.Array) -> jax.Array:
        return cast(jax.Array, self.module.apply(params, tokens_BL, key))


class Nnx:
    """The NNX decoder, as a graph definition and the pure dict of its parameters."""

    name = "nnx"

    def __init__(self, config: TrainConfig):
        module = nnx.eval_shape(lambda: decoder_nnx.Decoder(config, rngs=nnx.Rngs(params=0)))
        self.graphdef, self.state = nnx.split(module, nnx.Param)

    def declare(self) -> tuple[Tree, Tree]:
        specs = nnx.get_partition_spec(self.state)
        return {"params": nnx.to_pure_dict(self.state)}, {"params": nnx.to_pure_dict(specs)}

    def apply(self, params: Tree, tokens_BL: jax.Array, key: jax.Array) -> jax.Array:
        return nnx.merge(self.graphdef, params["params"])(tokens_BL, key)


def make_implementation(config: TrainConfig) -> Implementation:
    """The dialect that `pure_nnx` asks for."""
    return Nnx(config) if config.pure_nnx else Linen(config)
