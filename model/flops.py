"""Turns a config into the floating-point operations of one training step, by MaxText's formula."""

from dataclasses import dataclass

from configs.schema import TrainConfig


@dataclass(frozen=True)
class StepFlops:
    """Floating-point operations per step and device, in units of 10¹²: forward once, backward twice."""

    weights_t: float  # matmuls with learned kernels
    attention_t: float  # queries with keys, weights with values

    @property
    def total_t(self) -> float:
        return self.weights_t + self.attention_t


def tokens_per_device(config: TrainConfig) -> int:
    """Tokens that one device trains on in a step."""
    return config.per_device_batch_size * config.gradient_accumulation_steps * config.max_target_length


def step_flops(config: TrainConfig) -> StepFlops:
    """2 operations per multiply-add, backward twice the forward; the causal mask halves attention.

    Norms, rotary embeddings, the embedding lookup and recomputation under remat do not count.
    """
    tokens = tokens_per_device(config)
    heads = config.base_num_query_heads * config.head_dim
    kv_heads = config.base_num_kv_heads * config.head_dim
    mlp = 3 * config.base_emb_dim * config.base_mlp_dim
    projections = config.base_emb_dim * (heads + 2 * kv_heads) + heads * config.base_emb_dim
    head = config.base_emb_dim * config.vocab_size
    weights = 2 * tokens * (config.base_num_decoder_layers * (mlp + projections) + head)
    attention = config.base_num_decoder_layers * 4 * tokens * config.max_target_length * heads / 2
    return StepFlops(weights_t=3 * weights / 1e12, attention_t=3 * attention / 1e12)
