"""Our decoders against Hugging Face's Llama, Mixtral and DeepSeek-V2, from the same weights on the same batches."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configs.schema import TrainConfig

type Arrays = dict[str, Any]

pytestmark = pytest.mark.long
LOSS, LOGITS, GRADIENTS = 1e-6, 5e-5, 1e-4  # float32 on both sides: absolute, absolute, relative to the largest

MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True, "load_balance_loss_weight": 0.0}
DEEPSEEK = MIXTURE | {"norm_topk_prob": False, "shared_experts": 1, "first_num_dense_layers": 1, "base_num_kv_heads": 4}
# name -> the case, what is changed in it, and the class of their config
DECODERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "llama": ("01_base", {}, "LlamaConfig"),
    "llama with flash": ("15_flash_attention", {}, "LlamaConfig"),
    "mixtral": ("06_moe", MIXTURE, "MixtralConfig"),
    # theirs balances all layers and sequences at once: one of each is where both mean the same
    "mixtral, balanced": (
        "06_moe",
        MIXTURE | {"load_balance_loss_weight": 0.5, "base_num_decoder_layers": 1, "per_device_batch_size": 1},
        "MixtralConfig",
    ),
    "deepseek": ("07_mla", DEEPSEEK, "DeepseekV2Config"),
}
JOBS = [(name, packed) for name in DECODERS for packed in (False, True) if not (packed and name == "mixtral, balanced")]


def keys_of(config: TrainConfig) -> dict[str, Any]:
    """Our config in their words."""
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


def config_of(references: Any, name: str, *, packed: bool, pure_nnx: bool) -> TrainConfig:
    """A decoder of the table. Nothing is clipped, so that the first moment is the gradient."""
    case, changes, _ = DECODERS[name]
    config = references.mini(case, pure_nnx=pure_nnx, **changes)
    return config.model_copy(update={"dataset_type": "grain"}) if packed else config


@pytest.fixture(scope="module")
def theirs(references: Any, torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Arrays]:
    """What transformers computes, all of it in one process: loading torch takes seconds."""
    folders = {}
    for job in JOBS:
        config = config_of(references, job[0], packed=job[1], pure_nnx=False)
        folder = folders[job] = tmp_path_factory.mktemp("job")
        told = {"config": DECODERS[job[0]][2], "keys": keys_of(config), "balance": config.load_balance_loss_weight}
        (folder / "job.json").write_text(json.dumps(told | {"balance": told["balance"] * (config.num_experts > 1)}))
        np.savez(folder / "weights.npz", **references.to_transformers(config, references.draw_weights(config)))
        np.savez(folder / "batch.npz", **references.make_batches(config, 1, packed=job[1])[0])
    references.run(torch_python, "hf_decoder.py", *folders.values())
    return {job: dict(np.load(folder / "found.npz")) for job, folder in folders.items()}


@pytest.mark.parametrize(("name", "packed"), JOBS)
def test_a_decoder_is_that_of_transformers(
    name: str, packed: bool, pure_nnx: bool, theirs: dict[Any, Arrays], references: Any, worst: Callable[..., Any]
) -> None:
    expected = theirs[name, packed]
    config = config_of(references, name, packed=packed, pure_nnx=pure_nnx)
    batches = references.make_batches(config, 1, packed=packed)
    ours = references.train(config, references.draw_weights(config), batches)
    assert abs(ours.loss - float(expected["loss"])) <= LOSS
    counted = batches[0]["weights"] > 0
    np.testing.assert_allclose(ours.logits[counted], expected["logits"][counted], rtol=0, atol=LOGITS)
    gradients = {key.removeprefix("gradients/"): value for key, value in expected.items() if key.startswith("grad")}
    found = references.to_transformers(config, ours.gradients, gradients=True)
    assert worst(found, gradients) <= (GRADIENTS, "~")


@pytest.mark.parametrize("name", [name for name in DECODERS if name != "mixtral, balanced"])
def test_a_packed_text_alone_gives_the_same_bits(name: str, pure_nnx: bool, references: Any) -> None:
    """Each text of a sequence, moved to its own sequence of the same length and padded, has the logits that it had."""
    config = config_of(references, name, packed=True, pure_nnx=pure_nnx)
    (batch,) = references.make_batches(config, 1, packed=True)
    weights = references.draw_weights(config)
    logits = references.train(config, weights, [batch]).logits
    for text in (1, 2):
        alone = {key: np.where(batch["segment_ids"] == text, array, 0) for key, array in batch.items()}
        found = references.train(config, weights, [alone]).logits
        kept = batch["segment_ids"] == text
        np.testing.assert_array_equal(found[kept], logits[kept])
