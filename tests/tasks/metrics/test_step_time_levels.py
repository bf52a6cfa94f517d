"""The two levels of a run, and their uncertainty."""

import numpy as np
import pytest

from tasks.metrics.step_time_levels import find_levels, middle_level, usable_steps, usual_step


def test_disturbed_steps_change_the_steady_level_less_than_the_median() -> None:
    busy = np.full(50, 0.1)
    busy[10:40] = np.linspace(0.13, 0.25, 30)  # most steps, each by another amount
    levels = find_levels(busy)
    assert levels is not None
    assert levels.quick.seconds == pytest.approx(0.1)
    assert levels.middle.seconds > 0.14


def test_stalls_and_artefacts_do_not_change_the_usual_step() -> None:
    # by hand: a quarter of nine are three; 0.006, 0.008 and 0.070 are not within a quarter, 0.070, 0.070 and 0.071 are
    seconds = np.array([2.864, 0.006, 0.070, 0.424, 0.071, 0.070, 9.285, 0.072, 0.008])
    assert usual_step(seconds) == pytest.approx(0.070)
    assert usable_steps(seconds).tolist() == [2.864, 0.070, 0.424, 0.071, 0.070, 9.285, 0.072]
    # a step up to a fifth quicker than usual is possible; a quicker one is an artefact
    assert usable_steps(np.array([0.1, 0.1, 0.1, 0.1, 0.081, 0.05])).tolist() == [0.1, 0.1, 0.1, 0.1, 0.081]


def test_dispatch_artefacts_and_stalls_are_neither_steady_nor_middle_steps() -> None:
    levels = find_levels(np.array([0.006, 0.008, 0.070, 0.070, 0.071, 0.072, 0.424, 2.864, 9.285]))
    assert levels is not None
    # by hand: the steps within a factor of 1.4 of the median, 0.071
    assert levels.middle.seconds == pytest.approx((0.070 * 0.070 * 0.071 * 0.072) ** (1 / 4))
    assert levels.quick.seconds == pytest.approx(0.070)


def test_the_middle_steps_are_a_mean_of_calm_steps_and_a_median_beside_slow_ones() -> None:
    rng = np.random.default_rng(4)
    calm = np.sort(rng.normal(0.0, 0.1, (2000, 100)), axis=1)
    # σ / √n; the median of n normal values scatters by 1.25 times as much
    assert float(middle_level(calm).std()) == pytest.approx(0.1 / 100**0.5, rel=0.05)
    quiet = rng.normal(0.0, 0.001, (2000, 100))
    # 0 to 30 of 100 steps take 15 % longer, another number in each run: the mean would move by up to 4.5 %
    slow = np.log(1.15) * (rng.random((2000, 100)) < rng.uniform(0, 0.3, (2000, 1)))
    assert np.abs(middle_level(np.sort(quiet + slow, axis=1))).max() < 0.002
    # 70 to 100 of them: the mean would lie up to 4.5 % below
    slow = np.log(1.15) * (rng.random((2000, 100)) < rng.uniform(0.7, 1, (2000, 1)))
    assert np.abs(middle_level(np.sort(quiet + slow, axis=1)) - np.log(1.15)).max() < 0.002


def test_two_steps_far_apart_have_a_middle_level() -> None:
    assert middle_level(np.log([0.1, 10.0])) == pytest.approx(np.log(0.1))


@pytest.mark.parametrize("seconds", [[], [0.1], [np.nan, 0.1], [0.1, np.inf]])
def test_fewer_than_two_steps_have_no_level(seconds: list[float]) -> None:
    assert find_levels(np.array(seconds)) is None


def test_equal_steps_have_only_the_uncertainty_of_rounding() -> None:
    steps = np.full(50, 0.031)
    exact, printed = find_levels(steps), find_levels(steps, unit=0.001)
    assert exact is not None
    assert printed is not None
    assert exact.quick.error == pytest.approx(0.0, abs=1e-12)
    assert printed.quick.error == pytest.approx(0.001 / 12**0.5 / 0.031)  # of a uniform distribution


def test_independent_steps_have_the_error_of_independent_values() -> None:
    rng = np.random.default_rng(1)
    found = [find_levels(np.exp(rng.normal(0.0, 0.05, 400))) for _ in range(20)]
    # the mean of n normal values scatters by σ / √n; at 3 × 1.28 σ from the median lie 0.01 % of them
    mean = float(np.mean([levels.middle.error for levels in found if levels]))
    assert mean == pytest.approx(0.05 / 400**0.5, rel=0.15)


def test_autocorrelated_steps_have_a_larger_error() -> None:
    rng = np.random.default_rng(1)
    shocks = rng.normal(0.0, 0.05, 400)
    waves = np.repeat(rng.normal(0.0, 0.05, 20), 20)
    alone, together = find_levels(np.exp(shocks)), find_levels(np.exp(waves))
    assert alone is not None
    assert together is not None
    assert together.middle.error > 2 * alone.middle.error


def test_equal_steps_have_equal_errors() -> None:
    steps = np.exp(np.random.default_rng(3).normal(0.0, 0.1, 50))
    assert find_levels(steps) == find_levels(steps.copy())


def test_a_long_run_is_more_certain_and_quickly_evaluated() -> None:
    rng = np.random.default_rng(2)
    short, long = (find_levels(np.exp(rng.normal(0.0, 0.05, n))) for n in (5_000, 500_000))
    assert short is not None
    assert long is not None
    assert long.middle.error == pytest.approx(short.middle.error / 10, rel=0.3)
