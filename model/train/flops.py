"""Counts the floating-point operations of one training step, by MaxText's formula."""

from dataclasses import dataclass

from configs.schema import TrainConfig
from model.decoder.layers import layer_groups, query_width


@dataclass(frozen=True)
class StepFlops:
    """Floating-point operations per step and device, in units of 10¹². The backward pass counts twice the forward."""

    weights_t: float  # matmuls with learned kernels
    attention_t: float  # the products of queries with keys and of weights with values

    @property
    def total_t(self) -> float:
        return self.weights_t + self.attention_t


def tokens_per_device(config: TrainConfig) -> int:
    """Return the tokens that one device trains on in a step."""
    return config.per_device_batch_size * config.gradient_accumulation_steps * config.max_target_length


def step_flops(config: TrainConfig) -> StepFlops:
    """Count the operations of a step: 2 per multiply-add, and half of attention because of the causal mask.

    Norms, rotary embeddings, the embedding lookup and recomputation under remat do not count.
    """
    tokens, layers = tokens_per_device(config), config.base_num_decoder_layers
    kernels = layers * attention_kernels(config) + sum(
        group.layers * mlp_kernels(config, mixture=group.mlp != "dense") for group in layer_groups(config)
    )
    weights = 2 * tokens * (kernels + config.base_emb_dim * config.vocab_size)
    widths = {"global": 2 * config.head_dim, "mla": query_width(config) + config.v_head_dim}  # of keys and of values
    products = config.base_num_query_heads * widths[config.attention_type]
    attention = layers * 2 * tokens * config.max_target_length * products / 2
    return StepFlops(weights_t=3 * weights / 1e12, attention_t=3 * attention / 1e12)


def attention_kernels(config: TrainConfig) -> int:
    """Return the multiply-adds per token in the projections of one layer's attention."""
    width, heads = config.base_emb_dim, config.base_num_query_heads
    if config.attention_type == "global":
        return 2 * width * (heads + config.base_num_kv_heads) * config.head_dim
    rank, queries = config.q_lora_rank, heads * query_width(config)
    query = rank * (width + queries) if rank else width * queries
    low_rank = width * (config.kv_lora_rank + config.qk_rope_head_dim)
    key_value = config.kv_lora_rank * heads * (config.qk_nope_head_dim + config.v_head_dim)
    return query + low_rank + key_value + heads * config.v_head_dim * width


def mlp_kernels(config: TrainConfig, *, mixture: bool) -> int:
    """Return the multiply-adds per token in one layer's MLP; mixture: in its router and the token's experts."""
    if not mixture:
        return 3 * config.base_emb_dim * config.base_mlp_dim
    experts = config.num_experts_per_tok + config.shared_experts
    return config.base_emb_dim * (config.num_experts + 3 * experts * config.base_moe_mlp_dim)
