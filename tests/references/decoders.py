"""The decoders that are compared with transformers', and our configs in its keys."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from configs.schema import TrainConfig
from tests.references.names import to_transformers
from tests.references.our_step import draw_weights, make_batches, mini

MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True, "load_balance_loss_weight": 0.0}
# the norms of the latents have epsilon 1e-6 in transformers, whatever `rms_norm_eps` is
DEEPSEEK = MIXTURE | {"norm_topk_prob": False, "shared_experts": 1, "first_num_dense_layers": 1, "base_num_kv_heads": 4,
                      "normalization_layer_epsilon": 1e-6}  # fmt: skip
# name -> the case, its changes, and the class of their config
DECODERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "llama": ("01_base", {}, "LlamaConfig"),
    "llama with flash": ("15_flash_attention", {}, "LlamaConfig"),
    "mixtral": ("06_moe", MIXTURE, "MixtralConfig"),
    # theirs balances all layers and sequences at once: with one of each both definitions agree
    "mixtral, balanced": (
        "06_moe",
        MIXTURE | {"load_balance_loss_weight": 0.5, "base_num_decoder_layers": 1, "per_device_batch_size": 1},
        "MixtralConfig",
    ),
    "deepseek": ("07_mla", DEEPSEEK, "DeepseekV2Config"),
}


def keys_of(config: TrainConfig) -> dict[str, Any]:
    """Return our config in their keys."""
    keys = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.base_emb_dim,
        "intermediate_size": config.base_mlp_dim,
        "num_hidden_layers": config.base_num_decoder_layers,
        "num_attention_heads": config.base_num_query_heads,
        "num_key_value_heads": config.base_num_kv_heads,
        "rms_norm_eps": config.normalization_layer_epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": float(config.rope_max_timescale)},
        "max_position_embeddings": config.max_target_length,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "pad_token_id": None,
    }
    if config.attention_type == "global":
        keys |= {"head_dim": config.head_dim}
    if config.num_experts > 1:
        keys |= {"num_experts_per_tok": config.num_experts_per_tok}
    if config.attention_type == "mla":
        names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "norm_topk_prob")
        return keys | {name: getattr(config, name) for name in names} | {
            "n_routed_experts": config.num_experts,
            "n_shared_experts": config.shared_experts,
            "moe_intermediate_size": config.base_moe_mlp_dim,
            "first_k_dense_replace": config.first_num_dense_layers,
            "topk_method": "greedy",
            "routed_scaling_factor": 1.0,
        }  # fmt: skip
    if config.num_experts > 1:
        keys |= {"num_local_experts": config.num_experts, "intermediate_size": config.base_moe_mlp_dim}
    return keys


def decoder_config(name: str, *, packed: bool, pure_nnx: bool) -> TrainConfig:
    """A decoder of the table."""
    case, changes, _ = DECODERS[name]
    config: TrainConfig = mini(case, pure_nnx=pure_nnx, **changes)
    return config.replace(dataset_type="grain") if packed else config


def write_job(folder: Path, name: str, *, packed: bool, float64: bool = False) -> None:
    """A job for `hf_decoder.py`. float64: in place of float32."""
    config = decoder_config(name, packed=packed, pure_nnx=False)
    balance = config.load_balance_loss_weight if config.num_experts > 1 else 0.0
    reported = {"config": DECODERS[name][2], "keys": keys_of(config), "balance": balance, "float64": float64}
    # constants that our step holds in float32; the factor of Llama's logits is in our kernels (names.py)
    reported["held"] = ["variance_epsilon", *(["scaling"] if config.attention_type == "mla" else [])]
    (folder / "job.json").write_text(json.dumps(reported), encoding="utf-8")
    kind = np.float64 if float64 else np.float32
    np.savez(folder / "weights.npz", **to_transformers(config, draw_weights(config), kind=kind))
    np.savez(folder / "batch.npz", **make_batches(config, 1, packed=packed)[0])


def write_plain_job(folder: Path, config: TrainConfig, weights: Any, batches: Sequence[Any]) -> None:
    """A job for `plain_trainer.py`."""
    (folder / "job.json").write_text(config.model_dump_json(), encoding="utf-8")
    np.savez(folder / "weights.npz", **weights)
    np.savez(folder / "batches.npz", **{name: np.stack([batch[name] for batch in batches]) for name in batches[0]})
