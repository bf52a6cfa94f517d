"""Convergence of seeds: the five words, runs that leave the band, and sides that cannot be compared."""

from collections.abc import Callable, Sequence
from math import exp, inf, log, nan

import numpy as np
import pytest
from scipy import stats

from tasks.diff.judge.convergence import (
    CHANCE,
    PRIORS,
    ConvergenceError,
    find_oddity,
    judge_convergence,
    make_band,
    position_of,
    reference_grid,
)
from tasks.publish.page.convergence import convergence_page
from tasks.publish.terminal.convergence import show_convergence
from tasks.records.convergence import ConvergenceRow, LossCurve

STEPS = tuple(float(step) for step in range(100, 2001, 100))


def curve(name: str, offset: float = 0.0, *, speed: float = 1.0, steps: Sequence[float] = STEPS) -> LossCurve:
    """A power law: loss 8 · step^-0.1, e^offset times as high, reached `speed` times as fast."""
    losses = tuple(8 * exp(offset) * (step * speed) ** -0.1 for step in steps)
    return LossCurve(name=name, positions=tuple(steps), losses=losses, unit="steps")


def side(name: str, count: int, offset: float = 0.0, scatter: float = 0.001, speed: float = 1.0) -> list[LossCurve]:
    """Curves whose offsets are evenly spaced around `offset`."""
    return [
        curve(f"{name}{n}", offset + scatter * shift, speed=speed) for n, shift in enumerate(np.linspace(-1, 1, count))
    ]


REFERENCE = side("seed", 5)


def row_of(rows: Sequence[ConvergenceRow], metric: str) -> ConvergenceRow:
    return next(row for row in rows if row.metric == metric)


@pytest.mark.parametrize(
    ("candidate", "word"),
    [
        (side("run", 5), "same"),
        (side("run", 5, offset=0.02), "regressed"),
        (side("run", 5, offset=-0.02), "improved"),
        (side("run", 2, offset=0.004, scatter=0.004), "unknown"),
    ],
)
def test_the_final_loss_is_judged_against_the_scatter_of_seeds(candidate: list[LossCurve], word: str) -> None:
    record = judge_convergence(REFERENCE, candidate)
    assert (record.verdict, [row.verdict for row in record.rows]) == (word, [word])


def test_the_statistics_by_scipy() -> None:
    candidate = side("run", 4, offset=0.003, scatter=0.002)
    row = judge_convergence(REFERENCE, candidate).rows[0]
    # every curve is e^offset times one curve, so the differences of logarithms are those of the offsets
    left, right = 0.001 * np.linspace(-1, 1, 5), 0.003 + 0.002 * np.linspace(-1, 1, 4)
    stated, weight = PRIORS["final_loss"]
    df = 7 + weight
    scatter = ((weight * stated**2 + 4 * left.var(ddof=1) + 3 * right.var(ddof=1)) / df) ** 0.5
    half = stats.t.ppf(0.995, df) * scatter * (1 / 5 + 1 / 4) ** 0.5
    assert row.effect == pytest.approx(exp(0.003) - 1)
    assert (row.low, row.high) == pytest.approx((exp(0.003 - half) - 1, exp(0.003 + half) - 1))


def test_the_effect_that_would_be_seen_is_seen_four_times_in_five() -> None:
    rng, found, trials = np.random.default_rng(5), 0, 400
    scatter = PRIORS["final_loss"][0]
    seen = (
        judge_convergence(side("seed", 5, scatter=scatter * 2**0.5), side("run", 5, scatter=scatter * 2**0.5))
        .rows[0]
        .seen
    )
    assert seen is not None
    for _ in range(trials):
        sides = ([curve(f"{n}", rng.normal(shift, scatter)) for n in range(5)] for shift in (0.0, log(1 + seen)))
        found += judge_convergence(*sides).verdict == "regressed"
    low, high = stats.binomtest(found, trials).proportion_ci(0.999, method="exact")
    assert low <= 0.9  # the power is a little over the stated one where the scatter is the prior's
    assert high >= 0.8


def test_equal_seeds_are_seldom_called_different() -> None:
    rng, trials, alarms = np.random.default_rng(7), 500, 0
    for _ in range(trials):
        sides = ([curve(f"{n}", rng.normal(0, 0.002)) for n in range(5)] for _ in range(2))
        alarms += judge_convergence(*sides, target=4.0).verdict in ("regressed", "improved")
    assert stats.binomtest(alarms, trials, CHANCE, alternative="greater").pvalue > 0.001


def test_a_candidate_that_reaches_the_target_later_is_regressed() -> None:
    late = side("run", 5, speed=1 / 1.5)
    row = row_of(judge_convergence(REFERENCE, late, target=4.0).rows, "to_target")
    assert (row.verdict, row.title) == ("regressed", "Steps to loss 4")
    assert row.effect == pytest.approx(0.5, abs=0.01)


def test_a_target_that_a_run_misses_is_unknown() -> None:
    record = judge_convergence(REFERENCE, side("run", 5, offset=0.001), target=3.0)
    assert row_of(record.rows, "to_target").reason.startswith("0 of 5 reference seeds and 0 of 5 runs")
    assert record.verdict == "unknown"


def test_an_unknown_result_names_the_seeds_to_run() -> None:
    row = judge_convergence(REFERENCE, side("run", 3, offset=0.003, scatter=0.003)).rows[0]
    assert row.verdict == "unknown"
    assert row.seeds_wanted is not None
    assert f"run {row.seeds_wanted - 3} more seed" in row.reason


def test_a_position_between_two_evaluations_is_interpolated() -> None:
    one = LossCurve(name="a", positions=(100.0, 10_000.0), losses=(4.0, 2.0))
    assert position_of(one, 3.0) == pytest.approx(1000)
    assert position_of(one, 4.5) == 100
    assert position_of(one, 1.0) is None


def test_the_band_is_a_prediction_interval() -> None:
    band = make_band(REFERENCE, reference_grid(REFERENCE))
    offsets = 0.001 * np.linspace(-1, 1, 5)
    half = stats.t.ppf(0.995, 4) * (1 + 1 / 5) ** 0.5 * offsets.std(ddof=1)
    assert band.highs[3] / band.means[3] == pytest.approx(exp(half))


def bent(change: Callable[[float], float]) -> LossCurve:
    """A run of the candidate whose loss at each step is `change(step)` times that of the reference."""
    one = curve("run")
    losses = tuple(loss * change(step) for step, loss in zip(one.positions, one.losses, strict=True))
    return one.replace(losses=losses)


@pytest.mark.parametrize(
    ("run", "shape", "position"),
    [
        (bent(lambda step: 1.1 if step == 900 else 1.0), "spike", 900),
        (bent(lambda step: 1.1 if step >= 1200 else 1.0), "divergence", 1200),
        (bent(lambda step: nan if step >= 1500 else 1.0), "divergence", 1500),
        (bent(lambda step: 1.1 if step <= 300 else 1.0), "late start", 100),
        (curve("run", steps=STEPS[:12]).replace(reached=False), "stopped early", 1200),
    ],
)
def test_a_run_that_leaves_the_band_is_named(run: LossCurve, shape: str, position: float) -> None:
    found = find_oddity(run, REFERENCE)
    assert found is not None
    assert (found.shape, found.position) == (shape, position)


def test_a_run_inside_the_band_is_not_named() -> None:
    assert find_oddity(curve("run", 0.0005), REFERENCE) is None


@pytest.mark.parametrize(("odd", "word"), [(1, "same"), (2, "same"), (3, "changed")])
def test_most_runs_that_leave_the_band_are_a_change_of_an_equal_end(odd: int, word: str) -> None:
    late = [bent(lambda step: 1.1 if step <= 300 else 1.0).replace(name=f"late{n}") for n in range(odd)]
    record = judge_convergence(REFERENCE, [*late, *side("run", 5 - odd)])
    assert (record.verdict, len(record.oddities)) == (word, odd)
    if word == "changed":
        assert "late start in 3 of 5 runs; late0: until 300 steps" in record.headline


def test_a_diverged_candidate_is_regressed() -> None:
    record = judge_convergence(REFERENCE, [*side("run", 4), bent(lambda step: inf if step > 1000 else 1.0)])
    assert (record.verdict, record.headline) == ("regressed", "1 of 5 runs of the candidate diverged")


@pytest.mark.parametrize(
    ("reference", "candidate", "message"),
    [
        (REFERENCE[:2], REFERENCE, "2 reference seeds: at least 3 .*train 1 more seed"),
        (REFERENCE, [], "no log of the candidate"),
        (REFERENCE, [curve("far", steps=(5000, 6000))], "share no steps: the reference has 100 to 2000, the candidate"),
        ([*REFERENCE, bent(lambda step: nan if step > 500 else 1.0)], REFERENCE, "this reference seed diverged"),
        ([*REFERENCE, bent(lambda step: step / 100)], REFERENCE, "this reference seed diverged"),
        (REFERENCE, [LossCurve(name="bare", positions=(), losses=())], "bare: has no loss at any step"),
        (REFERENCE, [curve("run").replace(unit="samples")], "count samples and others steps"),
    ],
)  # fmt: skip
def test_sides_that_cannot_be_compared(reference: list[LossCurve], candidate: list[LossCurve], message: str) -> None:
    with pytest.raises(ConvergenceError, match=message):
        judge_convergence(reference, candidate)


def test_terminal_and_page_show_rows_and_odd_runs() -> None:
    spike = bent(lambda step: 1.1 if step == 900 else 1.0)
    record = judge_convergence(REFERENCE, [*side("run", 4, offset=0.02), spike], target=4.0)
    terminal, page = show_convergence(record), convergence_page(record)
    for text in (terminal, page):
        assert "run: spike: at 900 steps" in text
        assert "Steps to loss 4" in text
    assert page.count('class="run"') == 5
    assert page.count("<circle") == sum(value is not None for part in record.rows[1].each for value in part)


def test_runs_of_one_seed_are_pairs_if_they_rise_and_fall_together() -> None:
    offsets = [-0.004, -0.001, 0.002, 0.005]
    reference = [curve(f"seed{n}", offset) for n, offset in enumerate(offsets)]
    near = [curve(f"run{n}", offset + 0.0001 * (-1) ** n) for n, offset in enumerate(offsets)]
    alone, paired = (judge_convergence(reference, near, same_seeds=same).rows[0] for same in (False, True))
    assert (alone.verdict, paired.verdict) == ("unknown", "same")
    # the mean of ±0.01 % is 0; scipy's interval of four differences
    low, high = stats.t.interval(0.99, 3, 0, np.std([1e-4, -1e-4, 1e-4, -1e-4], ddof=1) / 2)
    assert (paired.low, paired.high) == pytest.approx((low, high), rel=0.01)
    worse = [curve(f"run{n}", offset + 0.002 + 0.0001 * (-1) ** n) for n, offset in enumerate(offsets)]
    assert judge_convergence(reference, worse, same_seeds=True).rows[0].verdict == "regressed"
    # in another order they are no pairs, as if training had forgotten its seed
    assert judge_convergence(reference, worse[::-1], same_seeds=True).rows[0].verdict == "unknown"


def test_equal_sides_with_the_same_seeds_are_seldom_called_different() -> None:
    rng, trials, alarms = np.random.default_rng(9), 600, 0
    for trial in range(trials):
        seeds, own = rng.normal(0, 0.002, 5), (0.0, 0.0002, 0.002)[trial % 3]  # of each run beside its seed's
        sides = ([curve(f"{n}", seed + rng.normal(0, own)) for n, seed in enumerate(seeds)] for _ in range(2))
        alarms += judge_convergence(*sides, target=4.0, same_seeds=True).verdict in ("regressed", "improved")
    assert stats.binomtest(alarms, trials, CHANCE, alternative="greater").pvalue > 0.001
