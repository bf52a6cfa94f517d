"""The learning-rate schedule at its edges, and clipping."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from configs.schema import TrainConfig
from model.train.optimizer import clip, make_schedule

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]


def rates(config: TrainConfig) -> np.ndarray:
    schedule = make_schedule(config)
    return np.asarray([float(schedule(jnp.int32(step))) for step in range(config.steps)])


def test_the_rate_warms_up_from_zero_and_ends_at_the_final_share(mini_config: MiniConfig) -> None:
    found = rates(
        mini_config(steps=40, learning_rate=1.0, warmup_steps_fraction=0.25, learning_rate_final_fraction=0.1)
    )
    np.testing.assert_allclose(found[:11], np.arange(11) / 10, atol=1e-6)
    # 30 steps of decay, the last of them at the end of the cosine: half-way lies between the 15th and the 16th
    np.testing.assert_allclose((found[24] + found[25]) / 2, 0.55, atol=1e-3)
    np.testing.assert_allclose(found[39], 0.1, atol=1e-6)
    assert np.all(np.diff(found[10:]) < 0)


def test_the_first_step_of_a_short_run_changes_nothing(mini_config: MiniConfig) -> None:
    """The seeds' ten steps: one of warm-up, at rate 0, so that steps 0 and 1 print the same loss."""
    found = rates(mini_config(steps=10, learning_rate=3.0e-5))
    assert found[0] == 0.0
    np.testing.assert_allclose([found[1], found[9]], [3.0e-5, 3.0e-6], rtol=1e-5)


def test_a_schedule_shorter_than_the_run_ends_in_zeros(mini_config: MiniConfig) -> None:
    found = rates(mini_config(steps=12, learning_rate=1.0, learning_rate_schedule_steps=10))
    np.testing.assert_allclose(found[9], 0.1, rtol=1e-5)
    assert list(found[10:]) == [0.0, 0.0]


@pytest.mark.parametrize(("fraction", "last"), [(0.0, 0.1), (1.0, 0.9)])
def test_all_decay_or_all_warm_up(fraction: float, last: float, mini_config: MiniConfig) -> None:
    found = rates(mini_config(steps=10, learning_rate=1.0, warmup_steps_fraction=fraction))
    np.testing.assert_allclose(found[-1], last, rtol=1e-5)


def test_clipping_scales_to_the_threshold_and_zero_disables_it(mini_config: MiniConfig) -> None:
    gradients = {"a": jnp.asarray([3.0, 0.0]), "b": jnp.asarray([[4.0]])}
    for threshold, norm in [(1.0, 1.0), (10.0, 5.0), (0.0, 5.0)]:
        clipped = clip(mini_config(gradient_clipping_threshold=threshold), gradients)
        found = np.hypot(clipped.gradients["a"][0], clipped.gradients["b"][0, 0])
        np.testing.assert_allclose([found, clipped.norm, clipped.raw_norm], [norm, norm, 5.0], rtol=1e-6)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e3, np.inf, np.nan])
def test_clipping_equals_optaxs(scale: float, mini_config: MiniConfig) -> None:
    gradients = {"a": scale * jnp.asarray([0.3, 0.0, -7.0]), "b": scale * jnp.asarray([[0.1]])}
    expected, _ = optax.clip_by_global_norm(1.0).update(gradients, optax.EmptyState())
    found = clip(mini_config(gradient_clipping_threshold=1.0), gradients)
    for name in gradients:
        np.testing.assert_allclose(found.gradients[name], expected[name], rtol=1e-6)  # a few roundings of 6e-8 each
    if scale < 0.1:
        assert all(np.array_equal(found.gradients[name], gradients[name]) for name in gradients)
