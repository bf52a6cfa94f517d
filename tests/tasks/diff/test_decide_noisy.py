"""The decision about metrics with noise: its order, its words, and what it never does."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.comparison import Tolerance
from tasks.diff.decide import Decision
from tasks.diff.decide_noisy import CHANCE, Cost, chance_of, decide_noisy, invert_effect
from tasks.diff.effect import Sample
from tasks.diff.noise import NoisePrior
from tasks.records import Better

FIVE_PERCENT = Tolerance(relative=0.05, why="runs differ by that much", least=0.01, least_why="less is no news")
QUIET = NoisePrior(scale=0.005, df=20.0, pairs=100, source="history of cpu")
LOUD = NoisePrior(scale=0.2, df=1.5, pairs=100, source="history of cpu")
A = (1.00, 1.01, 0.99)


def noisy(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    middle: tuple[Sequence[float], Sequence[float]] | None = None,
    better: Better = "lower",
    prior: NoisePrior | None = None,
    error: float = 0.0,
    same_program: bool = False,
    cost: Cost | None = None,
    tolerance: Tolerance = FIVE_PERCENT,
    chance: float = CHANCE,
) -> Decision:
    quick = Sample(baseline=tuple(baseline), candidate=tuple(candidate), error=error, prior=prior)
    other = middle or (baseline, candidate)
    return decide_noisy(
        quick,
        quick.model_copy(update={"baseline": tuple(other[0]), "candidate": tuple(other[1])}),
        better=better,
        tolerance=tolerance,
        same_program=same_program,
        cost=cost,
        chance=chance,
    )


@pytest.mark.parametrize(
    ("baseline", "candidate", "prior", "expected"),
    [
        # without a history, fewer than three runs tell nothing, however large the difference
        ([1.0], [9.0], None, "unknown"),
        ([1.0, 1.01], [9.0, 9.1], None, "unknown"),
        # three runs that scatter by 1 %: by hand, t = 0.14 / (0.0102 × √2 × 0.668) = 14.5 with 4 degrees: p = 0.0001
        (A, (1.15, 1.16, 1.14), None, "regressed"),
        (A, (0.85, 0.86, 0.84), None, "improved"),
        # 3 %: t = 3.1, p = 0.04: no proof, and the interval ends at +5.8 %
        (A, (1.03, 1.04, 1.02), None, "unknown"),
        # with a history that knows less noise than they show
        (A, (1.03, 1.04, 1.02), QUIET, "regressed"),
        (A, A, QUIET, "same"),
        # one or two runs of each, and a history: the machine may have changed between them
        ([1.0], [1.2], QUIET, "unknown"),
        ([1.0, 1.0], [1.2, 1.2], QUIET, "unknown"),
        ([1.0] * 3, [1.2] * 3, QUIET, "regressed"),
        ([1.0], [1.01], QUIET, "same"),
        ([1.0], [1.012], QUIET, "same"),  # t = 0.0119 / 0.005 = 2.4: it may be chance, and is inside ±5 %
        ([1.0], [1.2], LOUD, "unknown"),
        # sure, and too little to be told of: 0.5 % in ten runs
        ([1.0] * 10, [1.005] * 10, QUIET, "same"),
    ],
)
def test_the_order_of_the_rule(
    baseline: Sequence[float], candidate: Sequence[float], prior: NoisePrior | None, expected: str
) -> None:
    decision = noisy(baseline, candidate, prior=prior)
    assert decision.verdict == expected, decision.reason


def test_the_direction() -> None:
    slower = (1.15, 1.16, 1.14)
    assert noisy(A, slower, better="lower").verdict == "regressed"
    assert noisy(A, slower, better="higher").verdict == "improved"


def test_a_wild_pair_does_not_move_the_effect() -> None:
    calm = noisy(A, (1.06, 1.07, 1.05), prior=QUIET)
    wild = noisy(A, (1.06, 1.07, 9.0), prior=QUIET)
    assert calm.effect is not None
    assert wild.effect == pytest.approx(calm.effect, abs=0.001)


def test_what_is_added_to_most_steps_is_seen_though_the_quick_ones_are_the_same() -> None:
    decision = noisy(A, A, middle=(A, (1.3, 1.31, 1.29)), prior=QUIET)
    assert decision.verdict == "regressed"
    assert decision.reason.startswith("middle steps +30.")


def test_quick_steps_alone_do_not_make_it_the_same() -> None:
    unsure = (1.0, 1.3, 0.9), (1.2, 1.25, 1.15)
    decision = noisy(A, A, middle=unsure, prior=QUIET.model_copy(update={"scale": 0.01, "df": 2.0}))
    assert decision.verdict == "unknown"
    assert "middle steps" in decision.reason


def test_the_error_within_runs_is_the_least_that_they_scatter_by() -> None:
    tight = (1.0, 1.0001, 0.9999), (1.06, 1.0601, 1.0599)
    assert noisy(*tight).verdict == "regressed"
    assert noisy(*tight, error=0.05).verdict == "unknown"


def test_more_looks_and_more_cases_ask_for_more() -> None:
    assert chance_of() == CHANCE
    assert chance_of(cases=4) == CHANCE / 4
    assert chance_of(look=1) == CHANCE / 2
    assert sum(chance_of(look=look) for look in range(1, 10_000)) == pytest.approx(CHANCE, rel=1e-3)
    pairs = [1.0] * 3, [1.013] * 3
    prior = NoisePrior(scale=0.005, df=30.0, pairs=1000)
    assert noisy(*pairs, prior=prior, chance=0.01).verdict == "regressed"
    assert noisy(*pairs, prior=prior, chance=0.0001).verdict == "same"


def test_fewer_than_three_runs_are_told_to_be_three() -> None:
    pair = noisy([1.0], [1.2], prior=QUIET)
    assert pair.runs_wanted == 3
    assert pair.reason.startswith("quick steps +20.0 % (+18.8 … +21.3), more than equal runs have differed by")
    assert pair.reason.endswith("run 2 more of each (--repeats 3)")


def test_the_reason_asks_for_as_many_runs_as_are_lacking_and_says_what_they_cost() -> None:
    one = noisy([1.0], [1.2], cost=Cost(seconds=341.0))
    assert one.reason == (
        "+20.0 % from 1 run per arm: run-to-run noise is not known; run 2 more of each (--repeats 3, about 11 minutes)"
    )
    assert (one.runs_wanted, one.cost_text, one.effect) == (3, "about 11 minutes", None)
    chips = noisy([1.0], [1.2], cost=Cost(seconds=1800.0, chips=32, price=2.7))
    assert chips.cost_text == "about 60 minutes × 32 chips = 32.0 chip-hours, 86.40 dollars"
    unsure = noisy(A, (1.03, 1.04, 1.02))
    assert unsure.runs_wanted is not None
    assert 3 < unsure.runs_wanted < 20
    assert unsure.reason.endswith(f"(--repeats {unsure.runs_wanted})")
    hopeless = noisy(A, (1.03, 1.04, 1.02), prior=LOUD)
    assert hopeless.runs_wanted is None
    assert "more than 100 runs" in hopeless.reason


def test_the_same_program_makes_every_difference_noise() -> None:
    decision = noisy([1.0], [9.0], same_program=True)
    assert decision.verdict == "same"
    assert decision.reason == "both arms run the same compiled program: the measured +800.0 % is noise by construction"
    assert noisy(A, (2.0, 2.1, 1.9), same_program=True).effect_text.startswith("+100.0 %")


def test_the_effect_of_time_turned_into_one_of_speed() -> None:
    decision = Decision(verdict="same", reason="", effect=0.25, effect_low=0.0, effect_high=1.0, effect_text="x")
    speed = invert_effect(decision)
    assert (speed.effect, speed.effect_low, speed.effect_high) == pytest.approx((-0.2, -0.5, 0.0))
    assert speed.effect_text == "-20.0 % (-50.0 … +0.0)"


times = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6)
priors = st.sampled_from([None, QUIET, LOUD])
patient = settings(deadline=None)  # the constants of a number of runs are simulated when they are first needed
OTHER = {"improved": "regressed", "regressed": "improved"}


@patient
@given(baseline=times, candidate=times, prior=priors)
def test_swapping_the_arms_swaps_the_verdict(
    baseline: list[float], candidate: list[float], prior: NoisePrior | None
) -> None:
    there, back = noisy(baseline, candidate, prior=prior), noisy(candidate, baseline, prior=prior)
    assert back.verdict == OTHER.get(there.verdict, there.verdict)


@patient
@given(baseline=times, candidate=times, prior=priors)
def test_higher_is_better_is_the_mirror_of_lower_is_better(
    baseline: list[float], candidate: list[float], prior: NoisePrior | None
) -> None:
    lower = noisy(baseline, candidate, better="lower", prior=prior)
    higher = noisy(baseline, candidate, better="higher", prior=prior)
    assert higher.verdict == OTHER.get(lower.verdict, lower.verdict)


@patient
@given(runs=times, prior=priors)
def test_equal_runs_never_differ(runs: list[float], prior: NoisePrior | None) -> None:
    assert noisy(runs, runs, prior=prior).verdict in ("same", "unknown")


@patient
@given(baseline=times, candidate=times, prior=priors)
def test_the_interval_holds_the_effect_and_agrees_with_the_verdict(
    baseline: list[float], candidate: list[float], prior: NoisePrior | None
) -> None:
    decision = noisy(baseline, candidate, prior=prior)
    if decision.effect is None or decision.effect_low is None or decision.effect_high is None:
        assert decision.verdict == "unknown"
        return
    assert decision.effect_low <= decision.effect <= decision.effect_high
    if decision.verdict in OTHER:
        assert decision.effect_low > 0 or decision.effect_high < 0
    if decision.verdict == "same":
        assert decision.effect_low >= -0.0477
        assert decision.effect_high <= 0.0501
