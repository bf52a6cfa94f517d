"""FLOPs per step: the figures that the seeds' logs and MaxText's guide print for their models."""

from pathlib import Path

import pytest

from configs.load import CONFIG_ROOT, load_train_config
from model.flops import step_flops


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
