"""FLOPs per step: the figures that the seeds' logs print for the seeds' model."""

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


def test_a_mixture_counts_the_experts_that_a_token_goes_to() -> None:
    """deepseek2-16b as published activates 2.4 billion of its parameters for a token, embeddings and all."""
    words = ["per_device_batch_size=1", "max_target_length=1"]
    flops = step_flops(load_train_config(CONFIG_ROOT / "models" / "deepseek2-16b.yml", words))
    active = flops.weights_t * 1e12 / 6 + 102400 * 2048
    assert abs(active / 1e9 - 2.4) < 0.3
