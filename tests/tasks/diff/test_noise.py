"""The noise of equal runs: as stated for the device, and increasingly as in its history."""

import numpy as np
import pytest
from scipy import stats

from configs.verdict_rules import DeviceNoise, load_noises
from tasks.diff.examine.noise import MIN_PAIRS, Noise, Past, learn_noise

STATED = DeviceNoise(equal_runs=0.1, weight=4, days_apart=0.1, tolerance=0.05, least=0.01, why="a busy machine")


def past(sizes: object) -> Past:
    return Past(differences=tuple(np.asarray(sizes, dtype=float).tolist()), source="history of cpu")


def test_without_a_history_the_noise_is_as_stated() -> None:
    for known in (None, past([]), past([0.001] * (MIN_PAIRS - 1)), past([np.nan] * 50)):
        noise = learn_noise(STATED, known)
        assert (noise.scale, noise.df, noise.pairs, noise.source) == (0.1, 4.0, 0, "a busy machine")


def test_the_stated_noise_follows_the_device() -> None:
    scales = [learn_noise(load_noises()[kind]).scale for kind in ("tpu", "gpu", "cpu")]
    assert scales == sorted(scales)
    assert scales[-1] > 10 * scales[0]


@pytest.mark.parametrize(("df", "scale"), [(6.0, 0.02), (8.0, 0.01)])
def test_a_long_history_replaces_the_statement(df: float, scale: float) -> None:
    drawn = stats.t.rvs(df, scale=scale, size=3000, random_state=1)
    noise = learn_noise(STATED, past(drawn))
    assert noise.scale == pytest.approx(scale, rel=0.06)
    assert noise.df == pytest.approx(df, rel=0.25)
    assert (noise.pairs, noise.source) == (3000, "history of cpu")


def test_a_history_can_show_more_noise_than_stated_and_heavier_tails() -> None:
    rng = np.random.default_rng(3)
    # the statement is not an upper bound: 40 values estimate their deviation to a ninth, 400 to a thirtieth
    forty, many = (learn_noise(STATED, past(rng.normal(0, 2 * STATED.equal_runs, pairs))) for pairs in (40, 400))
    assert forty.scale == pytest.approx(0.2, rel=0.35)
    assert many.scale == pytest.approx(0.2, rel=0.1)
    # one pair in ten was disturbed: the tails are heavier than stated, and the middle is narrower
    noise = learn_noise(STATED, past(rng.normal(0, 0.03, 40) + 0.5 * (np.arange(40) % 10 == 0)))
    assert noise.scale < STATED.equal_runs
    assert noise.df < STATED.weight


def test_eight_pairs_of_a_machine_with_two_clock_states_show_both() -> None:
    """Pairs differ by 0, +6 or -6 %, in the expected ratio 1 : 2 : 1: one more difference of 6 % is then expected."""
    gpu = load_noises()["gpu"].replace(equal_runs=0.014, weight=6)
    known = learn_noise(gpu, past([0.06, 0.0, -0.06, 0.004, 0.06, -0.002, 0.001, -0.06]))

    def p(noise: Noise) -> float:
        return float(2 * stats.t.sf(0.06 / noise.scale, noise.df))

    assert p(learn_noise(gpu)) < 0.0067 < 0.05 < p(known)


def test_a_longer_history_has_more_weight() -> None:
    rng = np.random.default_rng(2)
    off = []
    for pairs in (MIN_PAIRS, 16, 128):
        found = [learn_noise(STATED, past(rng.normal(0, 0.01, pairs))).scale for _ in range(10)]
        off.append(float(np.mean(np.abs(np.log(np.array(found) / 0.01)))))
    assert off == sorted(off, reverse=True)
    assert off[-1] < 0.15  # the deviation of 128 values is estimated to 6 %, and heavy tails are possible


def test_few_pairs_contribute_few_degrees_of_freedom() -> None:
    noise = learn_noise(STATED, past([0.01, -0.02, 0.01, 0.0, 0.015, -0.01]))
    assert noise.df <= 4 + 6 / 2  # the stated degrees, and half of one for each pair
    assert learn_noise(STATED, past(np.random.default_rng(4).normal(0, 0.01, 400))).df > 10


def test_a_history_without_any_noise_is_not_believed_exactly() -> None:
    assert learn_noise(STATED, past([0.0] * 50)).scale >= 1e-4
