"""The decision about metrics with noise: order of its rules, sentences, and invariants."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from configs.verdict_rules import Tolerance
from tasks.diff.examine.circumstances import CHANCE, chance_of
from tasks.diff.examine.noise import Noise
from tasks.diff.judge.decide_noisy import Cost, Remedy, decide_noisy
from tasks.diff.judge.effect import Sample
from tasks.records.compared_case import Decision
from tests.wording.sentences import Wording

FIVE_PERCENT = Tolerance(relative=0.05, why="runs differ by that much", least=0.01, least_why="less is no news")
TPU = Noise(scale=0.004, df=10.0, source="a slice repeats to that")
CPU = Noise(scale=0.1, df=4.0, source="a busy machine")
QUIET = Noise(scale=0.005, df=20.0, pairs=100, source="history of cpu")
LOUD = Noise(scale=0.2, df=1.5, pairs=100, source="history of cpu")
A = (1.00, 1.01, 0.99)


def noisy(
    baseline: Sequence[float],
    candidate: Sequence[float],
    noise: Noise = QUIET,
    *,
    middle: tuple[Sequence[float], Sequence[float]] | None = None,
    between: float = 0.0,
    excuse: str = "",
    remedy: Remedy | None = None,
    chance: float = CHANCE,
) -> Decision:
    apart = "the arms ran at other times" if between else ""
    quick = Sample(baseline=tuple(baseline), candidate=tuple(candidate), noise=noise, between=between, apart=apart)
    other = middle or (baseline, candidate)
    return decide_noisy(
        quick,
        quick.replace(baseline=tuple(other[0]), candidate=tuple(other[1])),
        tolerance=FIVE_PERCENT,
        excuse=excuse,
        remedy=remedy,
        chance=chance,
    )


@pytest.mark.parametrize(
    ("baseline", "candidate", "noise", "expected"),
    [
        # one run each: t = ln 1.05 / 0.4 % = 12 with 10 degrees of freedom
        ([1.0], [1.05], TPU, "regressed"),
        ([1.0], [0.95], TPU, "improved"),
        # t = 3.0, p = 0.014; the interval ends at 1.2 % + 3.17 × 0.4 % = 2.5 %
        ([1.0], [1.012], TPU, "same"),
        # t = 2.6 with 4 degrees of freedom: p = 0.06
        ([1.0], [1.3], CPU, "unknown"),
        # t = 11, p = 0.0004, each level may take 0.005
        ([1.0], [3.0], CPU, "regressed"),
        # equal, but too uncertain for "same": 4.6 × 10 %
        ([1.0], [1.0], CPU, "unknown"),
        # three runs with a history of 0.5 % noise: t = 10 for 3 %
        (A, (1.03, 1.04, 1.02), QUIET, "regressed"),
        (A, A, QUIET, "same"),
        ([1.0] * 3, [1.2] * 3, LOUD, "unknown"),  # 1.5 + 2 degrees of freedom, error 0.2 √(1.5 / 3.5 / 3) = 7.6 %
        # certain, but below the least reported: 0.5 % in ten runs
        ([1.0] * 10, [1.005] * 10, QUIET, "same"),
    ],
)
def test_the_order_of_the_rule(
    baseline: Sequence[float], candidate: Sequence[float], noise: Noise, expected: str
) -> None:
    decision = noisy(baseline, candidate, noise)
    assert decision.verdict == expected, decision.reason


def test_an_interval_that_may_be_beyond_shows_a_number_beyond() -> None:
    """With 10 degrees of freedom, half of the width is 3.17 × the noise: 1.93 to 2.3 %, often +2.0 in one decimal."""
    tolerance = Tolerance(relative=0.02, why="runs differ by that much", least=0.005, least_why="less is no news")
    words = set()
    for scale in (0.0061 + 0.00002 * n for n in range(60)):
        sample = Sample(baseline=(1.0,), candidate=(1.0,), noise=Noise(scale=scale, df=10.0, source="a slice"))
        decision = decide_noisy(sample, sample, tolerance=tolerance)
        low, high = (float(end) for end in decision.effect_text.partition("(")[2].rstrip(")").split(" … "))
        words.add(decision.verdict)
        assert (decision.verdict == "same") is (max(-low, high) <= 2.0), decision.reason
        if decision.verdict == "unknown":
            assert decision.effect_text in decision.reason
    assert words == {"same", "unknown"}


def test_the_direction() -> None:
    slower = (1.15, 1.16, 1.14)
    assert noisy(A, slower).verdict == "regressed"
    assert noisy(slower, A).verdict == "improved"


def test_runs_on_different_days_have_a_larger_error(wording: Wording) -> None:
    """Between two days the variance is as large as between runs, and more runs do not reduce it."""
    many = [1.0] * 20, [1.03] * 20
    assert noisy(*many, TPU).verdict == "regressed"
    apart = noisy(*many, TPU, between=0.02)  # t = 1.5
    assert apart.verdict == "unknown"
    far = noisy([1.0] * 20, [1.2] * 20, TPU, between=0.02)  # t = 9
    assert far.verdict == "regressed"
    assert far.evidence == "20 runs of each"
    wording("reasons", far.reason)


def test_a_sentence_contains_its_evidence(wording: Wording) -> None:
    one = noisy([1.0], [1.03], TPU)
    assert one.evidence == "one run of each"
    # ln 1.03 ± 3.17 × 0.4 %; one run and a stated noise do not support an error rate
    assert one.effect_text == "+3.0 % (+1.7 … +4.3)"
    assert f" 0.4 % (as stated: {TPU.source})" in one.reason
    wording("reasons", one.reason)
    three = noisy([1.0] * 3, [1.05] * 3)
    assert three.evidence == "3 runs of each"
    assert ", by chance less than 1 time in 1000; " in three.reason  # 100 pairs cannot support a smaller chance
    assert "(by 100 pairs of the history of cpu)" in three.reason
    assert noisy([1.0] * 2, [1.05] * 3).evidence == "2 and 3 runs"


def test_time_added_to_most_steps_is_found_though_the_steady_steps_agree() -> None:
    decision = noisy(A, A, middle=(A, (1.3, 1.31, 1.29)))
    assert decision.verdict == "regressed"
    assert decision.reason.startswith("typical steps +30.")


def test_equal_steady_steps_alone_are_not_the_same() -> None:
    decision = noisy(A, A, Noise(scale=0.01, df=2.0), middle=((1.0, 1.3, 0.9), (1.2, 1.25, 1.15)))
    assert decision.verdict == "unknown"
    assert "typical steps" in decision.reason


def test_a_run_among_those_of_the_other_arm_leaves_it_open(wording: Wording) -> None:
    """Two clock states, 5 % apart: five slow runs against one slow run of five."""
    slow, quick = (1.050, 1.051, 1.049, 1.050, 1.051), (1.000, 1.001, 0.999, 1.000, 1.0505)
    gpu = Noise(scale=0.014, df=6.0, source="a clock follows its temperature")
    mixed = noisy(quick, slow, gpu)
    assert mixed.verdict == "unknown"
    wording("reasons", mixed.reason)
    assert noisy(quick[:4] * 2, slow[:4] * 2, gpu).verdict == "regressed"


def test_more_looks_and_more_cases_need_stronger_evidence() -> None:
    assert chance_of() == CHANCE
    assert chance_of(cases=4) == CHANCE / 4
    assert chance_of(look=1) == CHANCE / 2
    assert sum(chance_of(look=look) for look in range(1, 10_000)) == pytest.approx(CHANCE, rel=1e-3)
    pairs = [1.0] * 3, [1.012] * 3  # t = 4.1 / √(20 / 22) with 22 degrees of freedom: p = 0.0003
    assert noisy(*pairs, chance=0.01).verdict == "regressed"
    assert noisy(*pairs, chance=0.0001).verdict == "same"


def test_the_reason_has_the_number_of_missing_runs_and_their_cost(wording: Wording) -> None:
    unsure = noisy([1.0], [1.05], Noise(scale=0.02, df=10.0))
    assert unsure.verdict == "unknown"
    wanted = unsure.runs_wanted
    assert wanted is not None
    # by hand: z = 2.4 √runs has to be 2.8 + 0.84 at least, and a little more for few degrees of freedom
    assert 3 <= wanted <= 5
    asked = f"run each arm {wanted - 1} more times (--repeats {wanted})"
    assert f"; {asked}; or --until-decided" in unsure.reason
    wording("reasons", unsure.reason)
    learnt = noisy([1.0], [1.05], Noise(scale=0.02, df=10.0, pairs=20, source="history of cpu"))
    assert learnt.reason.endswith(asked)
    hour = Cost(seconds=3600.0 / (wanted - 1))
    priced = noisy([1.0], [1.05], Noise(scale=0.02, df=10.0), remedy=Remedy(cost=hour))
    assert priced.cost_text == "about 60 minutes"
    chips = Remedy(cost=hour.replace(chips=32, price=2.7))
    priced = noisy([1.0], [1.05], Noise(scale=0.02, df=10.0), remedy=chips)
    assert priced.cost_text == "about 60 minutes × 32 chips = 32.0 chip-hours, 86.40 dollars"
    hopeless = noisy(A, (1.03, 1.04, 1.02), LOUD.replace(scale=2.0))
    assert hopeless.runs_wanted is None
    assert "more than 100 runs" in hopeless.reason


def test_an_excuse_makes_a_difference_within_the_noise_noise(wording: Wording) -> None:
    decision = noisy([1.0], [1.012], TPU, excuse="both arms run the same")  # ln 1.012 ± 3.169 × 0.4 %
    assert (decision.verdict, decision.evidence) == ("same", "one program")
    assert "+1.2 % (-0.1 … +2.5)" in decision.reason
    assert "both arms run the same" in decision.reason
    wording("reasons", decision.reason)


@pytest.mark.parametrize(("candidate", "word"), [(9.0, "regressed"), (0.5, "improved")])
def test_an_excuse_hides_no_difference_beyond_the_noise(candidate: float, word: str) -> None:
    excused, plain = noisy([1.0], [candidate], excuse="one program"), noisy([1.0], [candidate])
    assert (excused.verdict, excused.evidence) == (word, "one run of each")
    assert excused == plain


times = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6)
noises = st.sampled_from([TPU, CPU, QUIET, LOUD])
OTHER = {"improved": "regressed", "regressed": "improved"}


@given(baseline=times, candidate=times, noise=noises)
@example(baseline=[1.0, 1.0, 1.0, 1.0, 76.0, 1.0], candidate=[1.0, 1.0, 1.0, 1.0, 82.0, 1.0], noise=TPU)
def test_swapping_the_arms_swaps_the_verdict(baseline: list[float], candidate: list[float], noise: Noise) -> None:
    there, back = noisy(baseline, candidate, noise), noisy(candidate, baseline, noise)
    assert back.verdict == OTHER.get(there.verdict, there.verdict)


@given(runs=times, noise=noises)
def test_identical_runs_never_differ(runs: list[float], noise: Noise) -> None:
    assert noisy(runs, runs, noise).verdict in ("same", "unknown")


@given(baseline=times, candidate=times, noise=noises)
def test_the_interval_contains_the_effect_and_agrees_with_the_verdict(
    baseline: list[float], candidate: list[float], noise: Noise
) -> None:
    decision = noisy(baseline, candidate, noise)
    assert decision.effect is not None
    assert decision.effect_low is not None
    assert decision.effect_high is not None
    assert decision.effect_low <= decision.effect <= decision.effect_high
    if decision.verdict in OTHER:
        assert decision.effect_low > 0 or decision.effect_high < 0
    if decision.verdict == "same":
        assert decision.effect_low >= -0.0477
        assert decision.effect_high <= 0.0501


def test_a_narrow_interval_is_shown_with_enough_decimals() -> None:
    """ln 1.0001 ± 2.6 × 0.01 %: one decimal would print it as +0.0 % (-0.0 … +0.0)."""
    shown = noisy([1.0], [1.0001], Noise(scale=1e-4, df=200.0)).effect_text
    assert shown == "+0.01 % (-0.02 … +0.04)"
