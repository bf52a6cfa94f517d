"""The interval of two programs in turns contains the truth at every look, whatever their executables differ by."""

from itertools import pairwise

import numpy as np
import pytest

from maxview_probe.turns.paired_times import Rule, interval_at, is_decided, looks, ratio_of

CHANCE = 0.05  # large, so that few trials show an error rate beyond it


def trial(rng: np.random.Generator, *, effect: float, most: int, between: float, rule: Rule) -> tuple[bool, bool]:
    """Return whether an interval ever missed the effect, and whether the first decision was "different"."""
    ratios = effect + rng.normal(0, between, most)
    due = looks(most)
    seen = [interval_at(ratios[:draws], look, rule.chance) for look, draws in enumerate(due, 1)]
    seen.append(interval_at(ratios, None, rule.chance))
    missed = any(not one.low <= effect <= one.high for one in seen)
    decided = next((one for one in seen if is_decided(one, rule)), None)
    return missed, decided is not None and abs(decided.effect) >= rule.least and decided.low * decided.high > 0


def test_all_looks_together_miss_the_truth_in_at_most_the_chance() -> None:
    """Draws are independent normal numbers, for which the bound is exact; 3 standard errors are allowed."""
    rng, trials = np.random.default_rng(0), 2000
    rule = Rule(CHANCE, 0.015, 0.0)
    missed = [trial(rng, effect=0.004, most=60, between=0.01, rule=rule)[0] for _ in range(trials)]
    assert np.mean(missed) <= CHANCE + 3 * np.sqrt(CHANCE * (1 - CHANCE) / trials)
    assert np.mean(missed) > 0.01  # the bound is not met by intervals that contain everything


def test_equal_programs_in_unequal_executables_are_rarely_called_different() -> None:
    rng, trials = np.random.default_rng(1), 2000
    rule = Rule(CHANCE, 0.015, 0.005)
    different = [trial(rng, effect=0.0, most=60, between=0.013 * 2**0.5, rule=rule)[1] for _ in range(trials)]
    assert np.mean(different) <= CHANCE + 3 * np.sqrt(CHANCE * (1 - CHANCE) / trials)


def test_a_ratio_is_that_of_neighbouring_turns() -> None:
    """Both programs become 50 % slower at one moment: the ratio of neighbours stays."""
    baseline = np.array([1.0, 1.0, 1.5, 1.5, 1.5])
    assert ratio_of(baseline, 1.02 * baseline) == pytest.approx(np.log(1.02))


def test_looks_are_rare_and_grow() -> None:
    assert looks(7) == []
    found = looks(100)
    assert found[0] == 8
    assert all(later > earlier for earlier, later in pairwise(found))
    assert len(found) < 12


def test_a_difference_below_the_least_is_not_decided_by_its_sign() -> None:
    rule = Rule(0.01, 0.015, 0.005)
    quiet = interval_at([0.003, 0.0031] * 10, 3, rule.chance)
    assert quiet.low > 0
    assert is_decided(quiet, rule)  # inside the tolerance
    assert not is_decided(quiet, Rule(0.01, 0.001, 0.005))
