"""The estimator behind every verdict about time: by hand, and by simulated runs."""

import numpy as np
import pytest
from scipy import stats

from configs.verdict_rules import DeviceNoise
from tasks.diff.examine.noise import Noise, Past, learn_noise
from tasks.diff.judge.effect import CONFIDENCE, STEPS_DF, Effect, Sample, measure_effect, runs_wanted

KNOWN = Noise(scale=0.01, df=4.0, pairs=100, source="history of cpu")
STATED = Noise(scale=0.01, df=4.0, source="a machine")
TPU = DeviceNoise(equal_runs=0.004, weight=10, days_apart=0.004, tolerance=0.02, least=0.005, why="a slice")


def effect_of(baseline: object, candidate: object, noise: Noise = KNOWN, **more: float) -> Effect:
    """Of logarithms."""
    sides = [tuple(np.exp(np.asarray(side, dtype=float)).tolist()) for side in (baseline, candidate)]
    return measure_effect(Sample(baseline=sides[0], candidate=sides[1], noise=noise, **more))


def test_pairs_by_hand() -> None:
    # the machine doubled its time between the pairs: only their differences count, 2, 3, 7 and 4 %
    effect = effect_of((0.0, 0.7, 0.1, 0.4), (0.02, 0.73, 0.17, 0.44))
    assert effect.estimate == pytest.approx(0.04)
    # stated 4 × 0.01², observed 0.02² + 0.01² + 0.03² + 0; a quarter of (0.0004 + 0.0014) / 7 is the error's square
    error = (0.0018 / 7 / 4) ** 0.5
    assert (effect.scale / 2, effect.df) == (pytest.approx(error), 7.0)
    assert effect.p == pytest.approx(2 * stats.t.sf(0.04 / error, 7), rel=0.01)  # our own sum over true variances
    half = stats.t.ppf(0.995, 7) * error
    assert effect.interval() == pytest.approx((0.04 - half, 0.04 + half), rel=0.01)


def test_unequal_counts_are_not_pairs_by_hand() -> None:
    effect = effect_of((0.0, 0.02), (0.04, 0.05, 0.06))
    assert effect.estimate == pytest.approx(0.05 - 0.01)
    assert effect.df == 4 + 3
    # each arm's squares are 2 × 0.01²; a pair has the variance of two runs
    variance = (4 * 0.01**2 + 2 * (2 * 0.01**2 + 2 * 0.01**2)) / 7
    assert effect.scale**2 == pytest.approx(variance)
    assert effect.half_width(0.01) == pytest.approx(
        stats.t.ppf(0.995, 7) * (variance * (1 / 2 + 1 / 3) / 2) ** 0.5, rel=0.01
    )


def test_an_outlier_pair_widens_the_interval() -> None:
    calm, wild = effect_of((0.0,) * 3, (0.06, 0.07, 0.05)), effect_of((0.0,) * 3, (0.06, 0.07, 2.0))
    assert calm.interval()[0] > 0 > wild.interval()[0]
    assert wild.estimate == pytest.approx((0.06 + 0.07 + 2.0) / 3)


def test_days_apart_are_not_averaged_away() -> None:
    runs = (0.0, 0.01) * 25
    near, apart = effect_of(runs, runs), effect_of(runs, runs, between=0.03)
    normal = stats.norm.ppf(0.995)
    assert near.half_width(0.01) < 0.005 * normal
    assert apart.half_width(0.01) >= 0.03 * normal
    # such runs are not pairs: their common part is not removed
    assert apart.df == 4 + 98
    assert near.df == 4 + 49


@pytest.mark.parametrize(("df", "scale", "error", "between"), [(1.0, 0.002, 0.004, 0.0), (10.0, 0.004, 0.003, 0.006)])
def test_independent_uncertainties_add_as_in_draws(df: float, scale: float, error: float, between: float) -> None:
    """One run of each: draws of Student's t between runs, of the runs' own levels, and of the places."""
    rng, draws = np.random.default_rng(3), 400_000
    drawn = scale * rng.standard_t(df, draws) + 2**0.5 * error * rng.standard_t(STEPS_DF, draws)
    drawn += rng.normal(0, between, draws) if between else 0.0
    effect = effect_of((0.0,), (0.0,), Noise(scale=scale, df=df), error=error, between=between)
    for chance in (0.05, 0.01):
        # 400,000 draws estimate 1 % to 0.016 %
        assert np.mean(np.abs(drawn) > effect.half_width(chance)) == pytest.approx(chance, rel=0.08)


def test_the_scatter_of_several_runs_contains_the_error_of_their_levels() -> None:
    runs = (0.0, 0.004, -0.004)
    alone, blurred = (effect_of(runs, runs[::-1], STATED, error=error) for error in (0.0, 0.0005))
    assert blurred.half_width(0.01) == pytest.approx(alone.half_width(0.01), rel=0.01)
    assert effect_of(runs, runs[::-1], STATED, error=0.05).half_width(0.01) > 3 * alone.half_width(0.01)


@pytest.mark.parametrize("runs", [1, 3, 10])
@pytest.mark.parametrize("days", [0.0, 0.01])
def test_the_intervals_have_their_nominal_coverage(runs: int, days: float) -> None:
    rng, held, trials = np.random.default_rng(5), 0, 1000
    noise = Noise(scale=0.01 * 2**0.5, df=30.0, pairs=1000)
    for _ in range(trials):
        left, right = rng.normal(0.0, 0.01, (2, runs))
        low, high = effect_of(left, right + 0.05 + rng.normal(0.0, days), noise, between=days).interval()
        held += low <= 0.05 <= high
    # 99 %, estimated by 1000 trials to 0.3 %; the days are normal here
    assert held / trials >= CONFIDENCE - 0.015


@pytest.fixture(scope="module")
def learnt() -> dict[int, list[Noise]]:
    """The noise learnt from a number of pairs, several times; equal runs differ as stated."""
    rng = np.random.default_rng(8)
    pasts = {n: [Past(differences=tuple(rng.normal(0, 0.004, n)), source="x") for _ in range(20)] for n in (0, 8, 40)}
    return {pairs: [learn_noise(TPU, past) for past in drawn] for pairs, drawn in pasts.items()}


@pytest.mark.parametrize(("runs", "change"), [(1, 0.02), (3, 0.01)])
def test_more_history_never_reduces_power(runs: int, change: float, learnt: dict[int, list[Noise]]) -> None:
    rng, each = np.random.default_rng(11), 50
    found = {}
    for pairs, noises in learnt.items():
        draws = [(noise, rng.normal(change, 0.004, runs)) for noise in noises for _ in range(each)]
        found[pairs] = float(np.mean([effect_of((0.0,) * runs, right, noise).p <= 0.005 for noise, right in draws]))
    # with exactly known noise it would be found if z = change √runs / 0.4 % is above 2.81
    best = float(stats.norm.sf(2.81 - change * runs**0.5 / 0.004))
    # 20 histories: the detection rate varies by about as much as the scale of each history (25 % and 11 %)
    sampling = 0.06
    assert found[0] >= best - 0.25
    assert found[8] >= found[0] - sampling
    assert found[40] >= found[8] - sampling


def test_an_uncertain_history_does_not_reduce_the_power_for_better_runs() -> None:
    """Runs that are equal except for the uncertainty of their levels: 2 % in every other pair of the history."""
    rng = np.random.default_rng(12)
    errors = np.where(np.arange(40) % 2, 0.02, 0.001)
    differences = tuple(rng.normal(0, np.hypot(0.004, errors)).tolist())
    known = learn_noise(TPU, Past(differences=differences, errors=tuple(errors.tolist()), source="x"))
    unknown = learn_noise(TPU, Past(differences=differences, source="x"))
    assert known.scale == pytest.approx(
        0.004, rel=0.4
    )  # 40 pairs estimate it to 11 %, but half of them are nearly uninformative
    assert known.scale < 0.6 * unknown.scale
    sharp, blunt = (effect_of((0.0,), (0.02,), noise, error=0.001).p for noise in (known, unknown))
    assert sharp < min(blunt, 0.005)


def test_a_history_that_is_calmer_than_stated_finds_more() -> None:
    rng = np.random.default_rng(9)
    past = Past(differences=tuple(rng.normal(0, 0.001, 40)), source="history of a target")
    blunt, sharp = (effect_of((0.0,), (0.01,), learn_noise(TPU, known)) for known in (None, past))
    assert sharp.p < 0.005 < blunt.p


def test_equal_runs_are_hardly_ever_called_different() -> None:
    rng, trials = np.random.default_rng(10), 1000
    noise = learn_noise(TPU)
    p = [effect_of((0.0,), rng.normal(0, 0.004, 1), noise).p for _ in range(trials)]
    # normal values against t with 10 degrees are found less often than 1 in 100
    assert np.mean(np.array(p) <= 0.01) <= 0.01 + 3 * 0.0031


def test_more_noise_needs_more_runs() -> None:
    def wanted(scale: float) -> int | None:
        effect = effect_of((0.0,), (0.03,), Noise(scale=scale, df=20.0, pairs=200))
        return runs_wanted(effect, least=0.01, within=0.0488, chance=0.005)

    counts = [wanted(scale) for scale in (0.005, 0.01, 0.02, 0.04)]
    assert all(count is not None for count in counts)
    assert counts == sorted(counts, key=lambda count: count or 0)
    assert counts[0] != counts[-1]
    assert wanted(1.0) is None
