"""Planted level changes are found, equal levels give none, and drifts and outliers are distinguished from changes."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from questions.history.change_points import (
    MIN_NIGHTS,
    best_split,
    estimate_autocorrelation,
    find_trend,
    pair_sums,
)


def noise(nights: int, seed: int, memory: float = 0.0) -> np.ndarray:
    """Draw normal noise of unit variance with autocorrelation `memory` at lag 1."""
    draws = np.random.default_rng(seed).normal(0, 1, nights)
    series = draws.copy()
    for i in range(1, nights):
        series[i] = memory * series[i - 1] + np.sqrt(1 - memory**2) * draws[i]
    return series


def slow_split(series: np.ndarray, least: int) -> tuple[int, float]:
    """Return the best split by the definition of the energy distance, pair by pair."""
    best = (0, -np.inf)
    for end in range(2 * least, len(series) + 1):
        for split in range(least, end - least + 1):
            x, y = series[:split], series[split:end]
            m, n = len(x), len(y)
            between = np.mean([abs(a - b) for a in x for b in y])
            left = np.mean([abs(a - b) for a, b in combinations(x, 2)])
            right = np.mean([abs(a - b) for a, b in combinations(y, 2)])
            q = m * n / (m + n) * (2 * between - left - right)
            if q > best[1]:
                best = (split, q)
    return best


@pytest.mark.parametrize("seed", range(5))
def test_the_split_equals_its_definition(seed: int) -> None:
    series = noise(14, seed)
    series[9:] += seed
    found = best_split(pair_sums(series), 0, 14, least=2)
    assert found is not None
    split, q = slow_split(series, 2)
    assert found == (split, pytest.approx(q))


def test_a_section_is_split_independently_of_its_surroundings() -> None:
    series = noise(30, 3)
    inner, alone = best_split(pair_sums(series), 8, 25, least=3), best_split(pair_sums(series[8:25]), 0, 17, least=3)
    assert inner is not None
    assert alone is not None
    assert inner == (alone[0] + 8, pytest.approx(alone[1]))


def test_a_short_section_has_no_split() -> None:
    assert best_split(pair_sums(noise(5, 0)), 0, 5, least=3) is None


@pytest.mark.parametrize("place", [5, 20, 36])
@pytest.mark.parametrize("size", [-6.0, 6.0])
def test_a_step_is_found_at_its_place_with_its_size(place: int, size: float) -> None:
    for seed in range(10):
        series = 100 + noise(40, seed)
        series[place:] += size
        trend = find_trend(series.tolist())
        (change,) = [change for change in trend.changes if abs(change.index - place) <= 1]
        assert change.low < change.after - change.before < change.high
        assert change.after - change.before == pytest.approx(size, abs=2.5)
        assert change.relative == pytest.approx(size / 100, abs=0.025)
        assert change.p < 0.001


def test_the_interval_has_its_nominal_coverage() -> None:
    held = 0
    for seed in range(100):
        series = 100 + noise(40, seed)
        series[20:] += 8
        changes = [change for change in find_trend(series.tolist()).changes if change.index == 20]
        held += any(change.low <= 8 <= change.high for change in changes)
    assert held >= 88  # of 95 expected; 88 is three standard deviations below


def test_up_and_down_again_are_two_changes() -> None:
    series = 100 + noise(60, 1)
    series[20:40] += 6
    assert [change.index for change in find_trend(series.tolist()).changes] == pytest.approx([20, 40], abs=1)


def test_changes_far_apart_in_a_long_series_are_all_found() -> None:
    series = 100 + noise(400, 2)
    for place in (60, 150, 290):
        series[place:] += 6
    found = [change.index for change in find_trend(series.tolist()).changes]
    for place in (60, 150, 290):
        assert min(abs(index - place) for index in found) <= 1
    assert len(found) <= 4  # one more is possible by chance, two are a fault


def test_equal_levels_give_few_false_alarms() -> None:
    false = sum(bool(find_trend((100 + noise(60, seed)).tolist()).changes) for seed in range(60))
    assert false <= 5  # 2 expected


def test_autocorrelated_nights_are_not_changes() -> None:
    false = sum(bool(find_trend((100 + noise(60, seed, memory=0.6)).tolist()).changes) for seed in range(60))
    assert false <= 10  # without the correction, more than half of the series have false alarms


def test_memory_is_estimated_within_the_levels() -> None:
    for true in (0.0, 0.6):
        found = []
        for seed in range(40):
            series = noise(100, seed, memory=true)
            series[50:] += 30  # a level change, which is not autocorrelation
            found.append(estimate_autocorrelation(series, [50]))
        assert np.mean(found) == pytest.approx(true, abs=0.08)


@pytest.mark.parametrize("spike", [1, 2])
def test_isolated_nights_are_outliers_and_no_change(spike: int) -> None:
    for seed in range(10):
        series = 100 + noise(40, seed)
        series[17 : 17 + spike] += 40
        trend = find_trend(series.tolist())
        assert set(range(17, 17 + spike)) <= set(trend.outliers)
        assert not any(16 <= change.index <= 19 for change in trend.changes)


def test_the_last_night_may_start_a_level_and_is_not_an_outlier() -> None:
    series = 100 + noise(30, 4)
    series[-1] += 40
    trend = find_trend(series.tolist())
    assert 29 not in trend.outliers
    assert not trend.changes


def test_an_outlier_before_a_step_does_not_hide_it() -> None:
    series = 100 + noise(40, 5)
    series[10] += 60
    series[25:] += 6
    trend = find_trend(series.tolist())
    assert 10 in trend.outliers
    assert [change.index for change in trend.changes] == pytest.approx([25], abs=1)


def test_a_drift_is_not_reported_as_steps() -> None:
    for seed in range(10):
        series = 100 + noise(60, seed) + 0.3 * np.arange(60)
        trend = find_trend(series.tolist())
        assert not trend.changes
        assert trend.drift is not None
        assert trend.drift.low < 0.3 < trend.drift.high or abs(trend.drift.slope - 0.3) < 0.02


def test_a_step_is_not_reported_as_a_drift() -> None:
    for seed in range(10):
        series = 100 + noise(60, seed)
        series[30:] += 6
        assert find_trend(series.tolist()).drift is None


def test_too_few_nights_give_no_answer_and_a_message() -> None:
    for nights in range(2 * MIN_NIGHTS):
        trend = find_trend([1.0, 9.0, 2.0, 7.0, 3.0, 8.0][:nights])
        assert trend.too_few
        assert not trend.changes
    assert not find_trend([1.0, 1.1, 1.05, 9.0, 9.1, 9.05]).too_few
    (change,) = find_trend([1.0, 1.1, 1.05, 9.0, 9.1, 9.05]).changes
    assert change.index == 3


def test_in_a_series_without_noise_every_different_value_is_a_change() -> None:
    values = [1.5] * 12 + [1.75] * 12 + [1.5]
    trend = find_trend(values)
    assert trend.exact
    assert [(change.index, change.before, change.after, change.p) for change in trend.changes] == [
        (12, 1.5, 1.75, 0.0),
        (24, 1.75, 1.5, 0.0),
    ]
    assert (trend.changes[0].low, trend.changes[0].high) == (0.25, 0.25)


def test_irrelevant_changes_are_not_reported() -> None:
    series = 100 + 0.01 * noise(40, 1)
    series[20:] += 0.1
    assert find_trend(series.tolist()).changes
    assert not find_trend(series.tolist(), least_change=0.005).changes
    assert not find_trend([1000.0] * 10 + [1001.0] * 10, least_change=0.005).changes


def test_levels_around_zero_have_no_relative_size() -> None:
    (change,) = find_trend([0.0] * 10 + [2.0] * 10, least_change=0.005).changes
    assert change.relative is None


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="leave those nights out"):
        find_trend([1.0, float("nan")])


@pytest.mark.parametrize("nights", [0, 1, 2, 7, 51, 101])
def test_series_of_any_length_have_an_answer(nights: int) -> None:
    trend = find_trend(noise(nights, 7).tolist())
    assert trend.nights == nights
    assert all(a.index < b.index for a, b in pairwise(trend.changes))
