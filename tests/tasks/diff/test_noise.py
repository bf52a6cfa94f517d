"""What equal runs differ by: fitted to differences that were drawn, and the constants of few values."""

import numpy as np
import pytest
from scipy import stats

from tasks.diff.effect import Sample, measure_effect, runs_wanted
from tasks.diff.noise import Difference, NoisePrior, fit_prior, neighbour_differences, small_sample


@pytest.mark.parametrize(("df", "scale"), [(3.0, 0.02), (8.0, 0.01)])
def test_the_fit_finds_what_differences_were_drawn_from(df: float, scale: float) -> None:
    drawn = stats.t.rvs(df, scale=scale, size=3000, random_state=1)
    prior = fit_prior([Difference(size=size) for size in drawn], "drawn")
    assert prior is not None
    assert prior.scale == pytest.approx(scale, rel=0.06)
    assert prior.df == pytest.approx(df, rel=0.25)
    assert (prior.pairs, prior.source, prior.growth) == (3000, "drawn", 0.0)


def test_the_fit_finds_how_the_noise_grows_with_the_unrest() -> None:
    rng = np.random.default_rng(2)
    unrest = np.exp(rng.normal(np.log(0.03), 0.7, 3000))
    above = np.maximum(unrest, np.quantile(unrest, 0.1))  # calmer runs have no less noise than these
    drawn = 0.01 * (above / 0.03) ** 1.2 * rng.standard_normal(3000)
    prior = fit_prior(Difference(size=size, unrest=of) for size, of in zip(drawn, unrest, strict=True))
    assert prior is not None
    assert prior.unrest == pytest.approx(0.03, rel=0.05)
    assert prior.scale == pytest.approx(0.01, rel=0.06)
    assert prior.growth == pytest.approx(1.2, abs=0.1)
    assert prior.df > 20  # what is left has no tails, which without the unrest it has
    blind = fit_prior(Difference(size=size) for size in drawn)
    assert blind is not None
    assert blind.df < 4
    assert prior.scale_at(0.06) == pytest.approx(prior.scale * (0.06 / prior.unrest) ** prior.growth)
    assert prior.scale_at(1e-6) == prior.scale_at(prior.calmest)  # of calmer runs nothing was learnt
    assert prior.scale_at(None) == prior.scale


def test_an_unsteady_pair_says_less() -> None:
    prior = NoisePrior(scale=0.01, df=20.0, pairs=200, unrest=0.02, calmest=0.01, growth=1.0)
    runs = {"baseline": (1.0, 1.0, 1.0), "candidate": (1.01, 1.01, 1.03)}
    calm = measure_effect(Sample(**runs, unrest=(0.02, 0.02, 0.02), prior=prior))
    mixed = measure_effect(Sample(**runs, unrest=(0.02, 0.02, 0.06), prior=prior))
    assert calm is not None
    assert mixed is not None
    one, other = np.log([1.01, 1.03])
    assert calm.estimate == pytest.approx((2 * one + other) / 3)
    assert mixed.estimate == pytest.approx((one + one + other / 9) / (1 + 1 + 1 / 9))  # three times the noise
    # two pairs with the standard error of one each and one with three times it; the pairs agree better than usual
    seen = (2 * (mixed.estimate - one) ** 2 + ((mixed.estimate - other) / 3) ** 2) / 2
    assert mixed.error**2 == pytest.approx((20 * 0.01**2 + 2 * seen) / 22 / (1 + 1 + 1 / 9))
    all_unsteady = measure_effect(Sample(**runs, unrest=(0.06, 0.06, 0.06), prior=prior))
    assert all_unsteady is not None
    assert all_unsteady.estimate == pytest.approx(calm.estimate)
    assert all_unsteady.error > 2.5 * calm.error


def test_intervals_of_steady_and_unsteady_runs_hold_the_truth() -> None:
    rng = np.random.default_rng(6)
    for df in (30.0, 3.0):  # by means and by medians
        prior = NoisePrior(scale=0.01, df=df, pairs=1000, unrest=0.02, calmest=0.01, growth=1.0)
        held = 0
        for _ in range(1000):
            unrest = np.exp(rng.normal(np.log(0.02), 0.5, 3)).clip(0.01)
            differences = 0.05 + 0.01 * unrest / 0.02 * rng.standard_t(df, 3)
            candidate = tuple(np.exp(differences))
            effect = measure_effect(Sample(baseline=(1.0,) * 3, candidate=candidate, unrest=tuple(unrest), prior=prior))
            assert effect is not None
            low, high = effect.interval()
            held += low <= 0.05 <= high
        assert held / 1000 >= 0.93


def test_few_differences_know_little_and_too_few_nothing() -> None:
    sizes = [Difference(size=size) for size in (0.01, -0.02, 0.01, 0.0, 0.015, -0.01)]
    assert fit_prior(sizes[:3]) is None
    prior = fit_prior(sizes)
    assert prior is not None
    assert prior.df <= 3


def test_a_history_without_any_noise_is_not_believed_to_the_last_bit() -> None:
    prior = fit_prior([Difference(size=0.0, unrest=0.0)] * 50)
    assert prior is not None
    assert prior.scale > 0


def test_neighbours_are_those_of_one_group() -> None:
    groups = [((1.0, 0.1), (2.0, 0.1), (4.0, None)), ((100.0, 0.0), (0.0, 0.0), (50.0, 0.2)), ((3.0, 0.1),)]
    found = neighbour_differences(groups)
    assert [pair.size for pair in found] == pytest.approx([np.log(2), np.log(2), -np.log(2)])
    assert [pair.unrest for pair in found] == [pytest.approx(0.1), None, pytest.approx(0.2 / 2**0.5)]


def test_the_constants_of_few_values() -> None:
    # one value is itself; of two the median is the mean, and their deviations are one number: variance × χ²(1)
    assert small_sample(1).location_variance == 1.0
    assert small_sample(2).location_variance == pytest.approx(0.5, rel=0.03)
    assert small_sample(2).df == pytest.approx(1.0, rel=0.03)
    # (the variance of the median of three normal values in closed form)
    assert small_sample(3).location_variance == pytest.approx(1 - 3**0.5 / np.pi, rel=0.03)
    # the limits for many values meet the simulation
    assert small_sample(21).location_variance == pytest.approx(small_sample(20).location_variance * 20 / 21, rel=0.05)
    assert small_sample(21).df == pytest.approx(small_sample(20).df * 21 / 20, rel=0.1)


def test_of_equal_normal_runs_the_intervals_hold_the_truth() -> None:
    rng = np.random.default_rng(5)
    prior = NoisePrior(scale=0.01 * 2**0.5, df=50.0, pairs=1000)
    for known, least in ((prior, 0.93), (None, 0.93)):
        held = 0
        for _ in range(1000):
            a, b = np.exp(rng.normal(0.0, 0.01, (2, 3)))
            effect = measure_effect(Sample(baseline=tuple(a), candidate=tuple(1.05 * b), prior=known))
            assert effect is not None
            low, high = effect.interval()
            held += low <= np.log(1.05) <= high
        assert held / 1000 >= least


def test_one_pair_without_a_history_is_no_measurement() -> None:
    assert measure_effect(Sample(baseline=(1.0,), candidate=(2.0,))) is None


def test_runs_without_a_partner_wait_for_one() -> None:
    prior = NoisePrior(scale=0.01, df=10.0, pairs=100)
    effect = measure_effect(Sample(baseline=(1.0, 1.0, 9.0), candidate=(1.0, 1.0), prior=prior))
    assert effect is not None
    assert (effect.pairs, effect.estimate) == (2, 0.0)


@pytest.mark.parametrize(
    ("df", "last", "expected"),
    [
        (20.0, 1.06, "mean"),  # light tails: the mean of 2, 3 and 6 %
        (3.0, 1.06, "median"),  # heavy ones
        (20.0, 1.50, "median"),  # light ones, which the last pair does not have
    ],
)
def test_the_effect_is_a_mean_only_under_light_tails(df: float, last: float, expected: str) -> None:
    prior = NoisePrior(scale=0.02, df=df, pairs=200)
    effect = measure_effect(Sample(baseline=(1.0, 1.0, 1.0), candidate=(1.02, 1.03, last), prior=prior))
    assert effect is not None
    differences = np.log([1.02, 1.03, last])
    assert effect.estimate == pytest.approx(getattr(np, expected)(differences))
    assert effect.mean == (expected == "mean")


def test_more_noise_wants_more_runs() -> None:
    def wanted(scale: float) -> int | None:
        prior = NoisePrior(scale=scale, df=20.0, pairs=200)
        effect = measure_effect(Sample(baseline=(1.0,), candidate=(1.03,), prior=prior))
        assert effect is not None
        return runs_wanted(effect, least=0.01, within=0.0488, chance=0.005)

    counts = [wanted(scale) for scale in (0.005, 0.01, 0.02, 0.04)]
    assert all(count is not None for count in counts)
    assert counts == sorted(counts, key=lambda count: count or 0)
    assert counts[0] != counts[-1]
    assert wanted(1.0) is None
