"""What equal runs differ by: as stated of the device, and the more as its history shows the longer that is."""

import numpy as np
import pytest
from scipy import stats

from configs.noise import DeviceNoise, load_noises
from tasks.diff.noise import LEAST_PAIRS, Past, learn_noise

STATED = DeviceNoise(equal_runs=0.1, weight=4, days_apart=0.1, tolerance=0.05, least=0.01, why="a busy machine")


def past(sizes: object) -> Past:
    return Past(differences=tuple(np.asarray(sizes, dtype=float).tolist()), source="history of cpu")


def test_without_a_history_the_noise_is_as_stated() -> None:
    for known in (None, past([]), past([0.001] * (LEAST_PAIRS - 1)), past([np.nan] * 50)):
        noise = learn_noise(STATED, known)
        assert (noise.scale, noise.df, noise.pairs, noise.source) == (0.1, 4.0, 0, "a busy machine")


def test_what_is_stated_follows_the_device() -> None:
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


def test_a_history_never_makes_the_rule_blinder_than_the_statement_unless_that_is_surely_wrong() -> None:
    rng = np.random.default_rng(3)
    twice = [learn_noise(STATED, past(rng.normal(0, 2 * STATED.equal_runs, pairs))).scale for pairs in (8, 40, 400)]
    assert twice[0] < 0.15  # the spread of 8 is known to a quarter
    assert twice == sorted(twice)
    assert twice[-1] == pytest.approx(0.2, rel=0.2)  # less two standard errors, and what its tails take
    # one pair in ten that something else disturbed: heavy tails lend no fewer degrees of freedom than the statement
    disturbed = rng.normal(0, 0.03, 40) + 0.5 * (np.arange(40) % 10 == 0)
    noise = learn_noise(STATED, past(disturbed))
    assert noise.scale < STATED.equal_runs
    assert noise.df == STATED.weight


def test_the_history_is_believed_more_the_longer_it_is() -> None:
    rng = np.random.default_rng(2)
    off = []
    for pairs in (LEAST_PAIRS, 16, 128):
        found = [learn_noise(STATED, past(rng.normal(0, 0.01, pairs))).scale for _ in range(10)]
        off.append(float(np.mean(np.abs(np.log(np.array(found) / 0.01)))))
    assert off == sorted(off, reverse=True)
    assert off[-1] < 0.15  # the deviation of 128 values is known to 6 %, and tails are allowed for


def test_few_pairs_lend_few_degrees_of_freedom() -> None:
    noise = learn_noise(STATED, past([0.01, -0.02, 0.01, 0.0, 0.015, -0.01]))
    assert noise.df <= 4 + 6 / 2  # what was stated, and half of one for each pair
    assert learn_noise(STATED, past(np.random.default_rng(4).normal(0, 0.01, 400))).df > 10


def test_a_history_without_any_noise_is_not_believed_to_the_last_bit() -> None:
    assert learn_noise(STATED, past([0.0] * 50)).scale >= 1e-4
