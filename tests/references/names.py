"""The names and layouts of our parameters in other libraries: the table by which weights are handed over.

Ours: kernels are (inputs, outputs), heads have axes of their own, scanned layers are axis 1, and a norm's scale is a
vector. transformers: weights are (outputs, inputs) in two axes, one array for each layer.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from configs.schema import TrainConfig

type Array = NDArray[Any]
type Arrays = dict[str, Array]


class Row(NamedTuple):
    """One of their parameters, made of one or two of ours."""

    theirs: str
    ours: tuple[str, ...]
    change: Callable[..., Array]
    factor: float = 1.0  # theirs is ours times this


def same(array: Array) -> Array:
    """A vector, or the embedding."""
    return array


def turned(array: Array) -> Array:
    """(inputs, outputs) -> (outputs, inputs)."""
    return array.T


def to_heads(array: Array) -> Array:
    """(inputs, heads, width) -> (heads · width, inputs)."""
    return array.reshape(array.shape[0], -1).T


def from_heads(array: Array) -> Array:
    """(heads, width, outputs) -> (outputs, heads · width)."""
    return array.reshape(-1, array.shape[-1]).T


def gate_and_up(gate: Array, up: Array) -> Array:
    """Two of (experts, inputs, outputs) -> (experts, both outputs, inputs)."""
    return np.concatenate([gate, up], axis=-1).swapaxes(1, 2)


def experts_turned(array: Array) -> Array:
    """(experts, inputs, outputs) -> (experts, outputs, inputs)."""
    return array.swapaxes(1, 2)


def pairs_side_by_side(width: int) -> Callable[[Array], Array]:
    """The last `width` channels: ours rotate k with k + width/2, DeepSeek's 2k with 2k + 1 (its published weights)."""

    def change(array: Array) -> Array:
        fixed, turning = np.split(array, [array.shape[-1] - width], axis=-1)
        first, second = np.split(turning, 2, axis=-1)
        return np.concatenate([fixed, np.stack([first, second], -1).reshape(turning.shape)], -1)

    return change


def rows(config: TrainConfig) -> Iterator[Row]:
    """transformers' Llama, Mixtral or DeepSeek-V2, parameter by parameter."""
    yield Row("model.embed_tokens.weight", ("token_embedder/embedding",), same)
    yield Row("model.norm.weight", ("decoder/decoder_norm/scale",), same)
    yield Row("lm_head.weight", ("decoder/logits_dense/kernel",), turned)
    deep, routed = config.attention_type == "mla", config.num_experts > 1
    for number in range(config.base_num_decoder_layers):
        dense = not routed or number < config.first_num_dense_layers
        group = "layers" if not config.first_num_dense_layers else "dense_layers" if dense else "moe_layers"
        first = config.first_num_dense_layers if group == "moe_layers" else 0
        theirs, ours = f"model.layers.{number}.", f"decoder/{group}[{number - first}]/"
        for row in [*(latent(config) if deep else attention(config)), *(mlp("") if dense else experts(config))]:
            yield row._replace(theirs=theirs + row.theirs, ours=tuple(ours + name for name in row.ours))
        yield Row(f"{theirs}input_layernorm.weight", (f"{ours}pre_self_attention_layer_norm/scale",), same)
        yield Row(f"{theirs}post_attention_layernorm.weight", (f"{ours}post_self_attention_layer_norm/scale",), same)


def attention(config: TrainConfig) -> Iterator[Row]:
    """Separate heads. Theirs divide the logits by √width; ours, like MaxText's and T5's, have that factor in the
    kernel.
    """
    yield Row("self_attn.q_proj.weight", ("self_attention/query/kernel",), to_heads, config.head_dim**0.5)
    yield Row("self_attn.k_proj.weight", ("self_attention/key/kernel",), to_heads)
    yield Row("self_attn.v_proj.weight", ("self_attention/value/kernel",), to_heads)
    yield Row("self_attn.o_proj.weight", ("self_attention/out/kernel",), from_heads)


def latent(config: TrainConfig) -> Iterator[Row]:
    """Keys and values through a low rank."""
    paired = pairs_side_by_side(config.qk_rope_head_dim)
    yield Row("self_attn.q_a_proj.weight", ("self_attention/query/wq_a/kernel",), turned)
    yield Row("self_attn.q_a_layernorm.weight", ("self_attention/query/q_norm/scale",), same)
    yield Row("self_attn.q_b_proj.weight", ("self_attention/query/wq_b/kernel",), lambda a: to_heads(paired(a)))
    yield Row("self_attn.kv_a_proj_with_mqa.weight", ("self_attention/wkv_a/kernel",), lambda a: turned(paired(a)))
    yield Row("self_attn.kv_a_layernorm.weight", ("self_attention/kv_norm/scale",), same)
    yield Row("self_attn.kv_b_proj.weight", ("self_attention/wkv_b/kernel",), to_heads)
    yield Row("self_attn.o_proj.weight", ("self_attention/out/kernel",), from_heads)


def mlp(name: str) -> Iterator[Row]:
    """silu(gate) · up, then down; `name` is the name of shared experts."""
    theirs, ours = f"mlp.{name}.".replace("..", "."), f"mlp/{name}/".replace("//", "/")
    yield Row(f"{theirs}gate_proj.weight", (f"{ours}wi_0/kernel",), turned)
    yield Row(f"{theirs}up_proj.weight", (f"{ours}wi_1/kernel",), turned)
    yield Row(f"{theirs}down_proj.weight", (f"{ours}wo/kernel",), turned)


def experts(config: TrainConfig) -> Iterator[Row]:
    """A router and its experts; with shared ones ours are one level deeper."""
    ours = "mlp/routed_experts/" if config.shared_experts else "mlp/"
    yield Row("mlp.gate.weight", (f"{ours}gate/kernel",), turned)
    yield Row("mlp.experts.gate_up_proj", (f"{ours}wi_0", f"{ours}wi_1"), gate_and_up)
    yield Row("mlp.experts.down_proj", (f"{ours}wo",), experts_turned)
    if config.shared_experts:
        yield from mlp("shared_experts")


def to_transformers(config: TrainConfig, ours: Arrays, *, gradients: bool = False, kind: Any = np.float32) -> Arrays:
    """Our arrays under their names, of NumPy's type `kind`; for gradients a factor is inverted."""
    made = {}
    for row in rows(config):
        array = row.change(*(pick(ours, name).astype(kind) for name in row.ours))
        made[row.theirs] = np.ascontiguousarray(array * (1 / row.factor if gradients else row.factor), kind)
    return made


def pick(ours: Arrays, name: str) -> Array:
    """An array by its name; `layers[3]/…` is the fourth layer of the scanned ones."""
    found = re.fullmatch(r"(.*)\[(\d+)\](.*)", name)
    if found is None:
        return ours[name]
    return np.take(ours[found[1] + found[3]], int(found[2]), axis=1 if ours[found[1] + found[3]].ndim > 1 else 0)


def to_maxtext(name: str) -> str:
    """MaxText's name of one of our parameters; its arrays have our layout."""
    for pattern, theirs in (
        (r"self_attention/query/(wq_a|wq_b|q_norm)/", r"self_attention/\1/"),
        (r"/mlp/routed_experts/", r"/DeepSeekMoeBlock_0/MoeBlock_0/"),
        (r"/mlp/shared_experts/", r"/DeepSeekMoeBlock_0/shared_experts/"),
        (r"/layers/mlp/(gate/kernel|wi_0|wi_1|wo)$", r"/layers/MoeBlock_0/\1"),
    ):
        name = re.sub(pattern, theirs, name)
    return name
