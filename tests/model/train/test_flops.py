"""FLOPs per step: the figures in the seeds' logs and in MaxText's guide for their models."""

from pathlib import Path

import pytest

from configs.load import CONFIG_ROOT, load_train_config
from model.decoder.declaration import Declaration
from model.train.api import make_api
from model.train.flops import step_flops

pytestmark = pytest.mark.flows


@pytest.mark.parametrize(
    ("length", "total", "weights", "attention"),
    [(2048, "13.59", "93.93", "6.07"), (128, "0.80", "99.60", "0.40")],
)
def test_the_seeds_figures(length: int, total: str, weights: str, attention: str) -> None:
    words = ["per_device_batch_size=1", f"max_target_length={length}"]
    flops = step_flops(load_train_config(CONFIG_ROOT / "models" / "seed-1b.yml", words))
    assert f"{flops.total_t:.2f}" == total
    assert f"{100 * flops.weights_t / flops.total_t:.2f}" == weights
    assert f"{100 * flops.attention_t / flops.total_t:.2f}" == attention


def test_the_guides_figures_of_a_mixture_with_latent_attention(seeds: Path) -> None:
    words = ["per_device_batch_size=24", "max_target_length=2048"]
    flops = step_flops(load_train_config(CONFIG_ROOT / "models" / "deepseek2-16b.yml", words))
    share = 100 * flops.weights_t / flops.total_t
    ours = f"Total TFLOPs: {flops.total_t:.2f} \n split as {share:.2f}% learnable weight flops and {100 - share:.2f}%"
    (guide,) = seeds.glob("003_*.txt")
    assert ours in guide.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words",
    [
        ["base_num_kv_heads=4"],
        [
            "num_experts=8",
            "num_experts_per_tok=2",
            "shared_experts=1",
            "first_num_dense_layers=1",
            "attention_type=mla",
        ],
        ["attention_type=mla", "q_lora_rank=64", "scan_layers=false"],
    ],
)
def test_the_formula_counts_the_declared_kernels(words: list[str]) -> None:
    """Two operations for each weight, and twice as many backward; of the experts those of a token."""
    config = load_train_config(CONFIG_ROOT / "models" / "seed-1b.yml", ["per_device_batch_size=1", *words])
    chosen = config.num_experts_per_tok / config.num_experts

    def used(path: str, one: Declaration) -> float:
        if "norm" in one.axes or "token_embedder" in path:
            return 0.0
        return one.size * (chosen if "exp" in one.axes else 1.0)

    kernels = sum(used(path, one) for path, one in make_api(config).declare().items())
    assert step_flops(config).weights_t == pytest.approx(6 * config.max_target_length * kernels / 1e12, rel=1e-12)
