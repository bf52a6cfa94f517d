"""The judgement of losses: persistent offsets, varying runs, NaN, and different random draws."""

from collections.abc import Callable, Sequence
from math import nan
from typing import Any

import numpy as np
import polars as pl
import pytest

from configs.comparison import load_comparison
from configs.verdict_rules import VerdictRules, load_effects, load_tolerances, make_rules
from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.offsets import is_offset
from tasks.diff.examine.parity import compare_metric
from tasks.diff.examine.same_code import draws_differ
from tasks.diff.judge.decide_curves import CurveContext, compare_blocks, decide_value
from tasks.records.compared_case import ComparisonRecord, Decision, MetricDiff
from tasks.records.run import RunRecord, StartReport
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Judge = Callable[..., Decision]
type Curves = Sequence[Sequence[float]]

STEPS = 50
CURVE = 9.0 - 2.0 * (1 - np.exp(-np.arange(STEPS) / 20)) + 0.05 * np.sin(np.arange(STEPS))


@pytest.fixture
def judge(make_run: MakeRun, arm_of: Callable[..., ArmRuns]) -> Judge:
    """judge(baseline curves, candidate curves, …): as printed with three decimals, unless exact."""
    rules: VerdictRules = make_rules("Same?", load_tolerances("default"), load_effects())

    def run_of(arm: str, curve: Sequence[float], repeat: int, *, exact: bool) -> RunRecord:
        losses = [float(value) if exact else round(float(value), 3) for value in curve]
        seconds = [1.0] * len(losses)
        metrics = pl.DataFrame({"step": range(len(losses)), "loss": losses, "step_time_s": seconds})
        record = {"metrics": metrics if exact else None}
        return make_run(arm, losses=losses, seconds=seconds, repeat=repeat, record=record)

    def decide(left: Curves, right: Curves, *, exact: bool = False, **more: Any) -> Decision:
        arms = [
            arm_of(*(run_of(arm, curve, n, exact=exact) for n, curve in enumerate(curves)))
            for arm, curves in (("main", left), ("feat/x", right))
        ]
        found = compare_metric((arms[0], arms[1]))
        return decide_value(found, CurveContext(rules=rules, **more))

    return decide


def wander(rng: np.random.Generator, size: float) -> np.ndarray:
    """The effect of another order of additions: nothing at first, then a gap that grows and changes its sign."""
    shocks, gap = rng.normal(0.0, size, STEPS) * np.linspace(0.0, 1.0, STEPS), np.zeros(STEPS)
    for step in range(1, STEPS):
        gap[step] = 0.5 * gap[step - 1] + shocks[step]
    return CURVE + gap


# ---------------------------------------------------------------- one run of each


@pytest.mark.parametrize(
    ("first", "units"), [(0, 1), (1, 1), (10, 1), (25, 1), (40, 1), (48, 2)], ids=lambda value: str(value)
)
@pytest.mark.parametrize(("sign", "word"), [(0.001, "regressed"), (-0.001, "changed")])
def test_a_persistent_offset_of_a_thousandth_is_reported_at_its_first_step(
    first: int, units: int, sign: float, word: str, judge: Judge
) -> None:
    """The chance that random flips of the last digit are the last n of 50 steps with one sign: 2^(1-n) / C(50, n), 0.04
    % for n = 2.

    A random walk stays at one unit for some steps, so a gap of one unit has to last for ten.
    """
    base = np.round(CURVE, 3)
    decision = judge([base], [base + units * sign * (np.arange(STEPS) >= first)])
    assert decision.verdict == word, decision.reason
    assert decision.reason.startswith(f"differs first at step {first} (")


@pytest.mark.parametrize("steps", [1, 9])
def test_a_thousandth_at_the_last_steps_alone_may_be_rounding_or_a_random_walk(
    steps: int, judge: Judge, wording: Wording
) -> None:
    base = np.round(CURVE, 3)
    decision = judge([base], [base + 0.001 * (np.arange(STEPS) >= STEPS - steps)])
    assert decision.verdict == "same"
    assert f"at step {STEPS - steps}" in decision.reason
    wording("reasons", decision.reason)


def test_a_jump_in_full_precision_is_too_large_for_rounding(judge: Judge) -> None:
    later = np.arange(STEPS) >= 20
    assert judge([CURVE], [CURVE + 0.001 * later], exact=True).verdict == "regressed"
    tiny = judge([CURVE], [CURVE + 1e-6 * later], exact=True)
    assert (tiny.verdict, tiny.runs_wanted) == ("unknown", 3)
    proved = judge([CURVE], [CURVE + 1e-6 * later], exact=True, proved=True)
    assert proved.verdict == "regressed"  # one program gives the same bits


def test_one_run_each_of_equal_nondeterministic_arms_is_not_judged_worse(judge: Judge) -> None:
    rng, trials = np.random.default_rng(3), 200
    words = [judge([wander(rng, 0.002)], [wander(rng, 0.002)]).verdict for _ in range(trials)]
    assert set(words) <= {"unknown", "regressed", "changed"}
    # 1 % by the rule, estimated by 200 trials to 0.7 %
    assert trials - words.count("unknown") <= trials * (0.01 + 3 * 0.007)


def test_an_undecided_difference_of_one_run_each_needs_three(judge: Judge, wording: Wording) -> None:
    rng = np.random.default_rng(4)
    decision = judge([wander(rng, 0.01)], [wander(rng, 0.01)])
    assert (decision.verdict, decision.runs_wanted) == ("unknown", 3)
    assert "(--repeats 3)" in decision.reason
    wording("reasons", decision.reason)


def test_a_gap_beyond_other_draws_is_a_difference(judge: Judge, wording: Wording) -> None:
    rng = np.random.default_rng(5)
    decision = judge([wander(rng, 0.01)], [wander(rng, 0.01) + np.linspace(-0.5, 1.0, STEPS)])  # not an offset
    assert decision.verdict == "regressed"
    assert " at most 0.14" in decision.reason
    wording("reasons", decision.reason)


# ---------------------------------------------------------------- runs that vary, three of each


@pytest.mark.flows
def test_three_runs_each_of_equal_arms_are_not_judged_worse(judge: Judge) -> None:
    rng, trials = np.random.default_rng(6), 100
    words = [judge(*([wander(rng, 0.1) for _ in range(3)] for _ in range(2))).verdict for _ in range(trials)]
    # each of four blocks takes a quarter of 1 %
    assert words.count("regressed") + words.count("changed") <= trials * (0.01 + 3 * 0.01)


@pytest.mark.parametrize(("change", "word"), [(0.5, "regressed"), (-0.5, "changed"), (0.0, "same")])
def test_three_runs_of_each_show_a_difference(change: float, word: str, judge: Judge) -> None:
    rng = np.random.default_rng(7)
    left, right = ([wander(rng, 0.005) for _ in range(3)] for _ in range(2))
    decision = judge(left, [curve + change for curve in right])
    assert decision.verdict == word, decision.reason
    assert decision.evidence == "3 runs of each"


def test_the_test_of_blocks_is_students(judge: Judge) -> None:
    # one block by hand: means 1, 2, 3 and 4, 5, 6; variance 1 with 4 degrees of freedom: t = 3 / √(2/3) = 3.674
    (block,) = compare_blocks(np.array([0]), (np.array([[1.0], [2.0], [3.0]]), np.array([[4.0], [5.0], [6.0]])))
    assert block.difference == 3.0
    assert block.chance == pytest.approx(0.02131, abs=1e-5)  # of the tables of t
    assert block.half == pytest.approx(4.604 * (2 / 3) ** 0.5, rel=1e-3)  # t(4) at 99 %


def test_the_tolerance_comes_first_also_for_varying_runs(judge: Judge) -> None:
    rng = np.random.default_rng(8)
    left, right = ([wander(rng, 0.0005) for _ in range(3)] for _ in range(2))
    near = [curve + 0.02 for curve in right]  # significant, and less than half a percent of 7 to 9
    assert judge(left, near).verdict == "same"
    assert judge(left, near, other_draws=True).verdict == "same"
    assert judge(left, [curve + 0.1 for curve in right]).verdict == "regressed"


# ---------------------------------------------------------------- NaN


@pytest.mark.parametrize(("lost", "word"), [((False, True), "regressed"), ((True, False), "improved")])
def test_nan_in_one_of_three_runs(lost: tuple[bool, bool], word: str, judge: Judge) -> None:
    broken = np.where(np.arange(STEPS) >= 30, nan, CURVE)
    left, right = ([CURVE, broken if bad else CURVE, CURVE] for bad in lost)
    decision = judge(left, right)
    assert decision.verdict == word
    assert "from step 30 on in 1 of 3 runs" in decision.reason


def test_nan_on_both_sides_decides_nothing(judge: Judge) -> None:
    broken = np.where(np.arange(STEPS) >= 30, nan, CURVE)
    assert judge([broken], [broken]).verdict == "unknown"


def test_nan_on_both_sides_does_not_hide_a_loss_that_is_half_higher(judge: Judge, wording: Wording) -> None:
    broken = np.where(np.arange(STEPS) == 7, nan, CURVE)
    higher = broken + 0.5 * (np.arange(STEPS) >= 20)
    decision = judge([broken], [higher])
    assert decision.verdict == "regressed"
    assert decision.reason.startswith("differs first at step 20 (")
    assert decision.reason.endswith(" at 1 of 50 steps, first at step 7")
    wording("reasons", decision.reason)
    assert judge([broken], [broken - 0.5]).verdict == "changed"


def test_nan_that_begins_earlier_is_worse(judge: Judge) -> None:
    late, early = (np.where(np.arange(STEPS) >= first, nan, CURVE) for first in (30, 25))
    assert (judge([late], [early]).verdict, judge([early], [late]).verdict) == ("regressed", "unknown")
    assert "from step 25 on" in judge([late], [early]).reason


# ---------------------------------------------------------------- random walks of losses


@pytest.mark.parametrize("size", [1e-4, 2e-4, 4e-4, 2e-3])
@pytest.mark.parametrize("steps", [10, 20, 30, 50])
@pytest.mark.parametrize("at_once", [True, False], ids=["from step 1", "from any step"])
def test_a_random_walk_is_not_an_offset(size: float, steps: int, at_once: bool) -> None:
    """At most 1 %: of 1,000 trials with a chance of 1 % more than 21 fail once in a thousand tests."""
    rng, hits = np.random.default_rng(steps), 0
    for _ in range(1000):
        base = rng.uniform(2, 9) + rng.normal(0, 0.02, steps)
        since = 1 if at_once else rng.integers(1, steps)
        walk = np.cumsum(rng.normal(0, size, steps) * (np.arange(steps) >= since))
        left, right = np.round(base, 3), np.round(base + walk, 3)
        hits += is_offset((left[None], right[None]), exact=False, unit=1e-3)
    assert hits <= 21


@pytest.mark.flows
@pytest.mark.parametrize("size", [0.0005, 0.02])
def test_random_walks_are_not_a_change_and_can_be_the_same(size: float, judge: Judge) -> None:
    """The chance of 1 % is shared by the six values of our trainer; binomial, as above."""
    rng, words = np.random.default_rng(11), []
    for _ in range(100):
        sides = [[CURVE + np.cumsum(rng.normal(0, size, STEPS)) for _ in range(3)] for _ in range(2)]
        words.append(judge(*sides, exact=True, among=6).verdict)
    assert words.count("changed") + words.count("regressed") <= 2  # 0.17 % each
    assert (words.count("same") > 50) is (size < 0.01)  # t(4) × 0.0005 × √50 is a third of half a percent of 8


def test_two_varying_runs_of_each_are_not_beyond_other_draws(judge: Judge) -> None:
    rng, bad = np.random.default_rng(12), 0
    for _ in range(100):
        sides = [[CURVE + np.cumsum(rng.normal(0, 0.03, STEPS)) for _ in range(2)] for _ in range(2)]
        bad += judge(*sides, exact=True).verdict in ("changed", "regressed")
    assert bad <= 4  # 1 % for a single value


@pytest.mark.parametrize(
    ("steps", "words"), [(range(30, STEPS), "from step 30 on"), ([3], "at 1 of 50 steps, first at step 3")]
)
def test_the_reason_names_the_steps_with_nan(steps: Sequence[int], words: str, judge: Judge) -> None:
    broken = np.where(np.isin(np.arange(STEPS), steps), nan, CURVE)
    assert judge([broken], [broken]).reason == f"is NaN or infinite in both arms {words}"
    assert judge([CURVE], [broken]).reason == f"is NaN or infinite in the candidate {words}"


@pytest.mark.parametrize("value", [0.0, 8.0])
def test_constant_losses_are_equal_and_show_no_training(value: float, judge: Judge, wording: Wording) -> None:
    decision = judge([[value] * STEPS], [[value] * STEPS])
    assert decision.verdict == "unknown"
    assert f" is {value:g} at all 50 steps" in decision.reason
    wording("reasons", decision.reason)


def test_lm_loss_is_judged_like_the_loss(make_run: MakeRun, compare: Callable[..., ComparisonRecord]) -> None:
    def run(arm: str, seed: int) -> RunRecord:
        losses = np.round(CURVE + np.random.default_rng(seed).normal(0, 0.02, STEPS), 3).tolist()
        reading = {"config": {"data_shuffle_seed": str(seed)}}
        return make_run(arm, losses=losses, seconds=[1.0] * STEPS, columns={"lm_loss": losses}, reading=reading)

    words = {row.metric: row.verdict for row in compare(run("linen", 1), run("nnx", 2)).rows}
    assert (words["loss_per_step"], words["values_per_step"]) == ("same", "same")  # other seeds


# ---------------------------------------------------------------- offsets


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([0] * 20, False),
        ([0] * 10 + [1] * 10, True),
        ([0] * 10 + [1, -1] * 5, False),  # in both directions
        ([0] * 10 + [1] * 9 + [0], False),  # the gap closed again
        ([1] * 20, True),  # a constant gap from the start
        (list(range(1, 21)), False),  # a varying gap from the start: possibly other draws
        ([0] * 19 + [1], False),
    ],
)
def test_an_offset_begins_at_one_step_and_stays(gaps: list[int], expected: bool) -> None:
    base = np.full((1, len(gaps)), 8.0)
    sides = base, base + 0.001 * np.array(gaps)[None]
    assert is_offset(sides, exact=False) is expected


# ---------------------------------------------------------------- other draws


def test_other_draws_are_recognised(make_run: MakeRun, arm_of: Callable[..., ArmRuns]) -> None:
    def differ(left: RunRecord, right: RunRecord) -> bool:
        return draws_differ((arm_of(left), arm_of(right)))

    config = {"steps": 6, "init_weights_seed": 0}
    plan = {"config": config}
    assert not differ(make_run("main", plan=plan), make_run("feat/x", plan=plan))
    other = {"config": config | {"init_weights_seed": 1}}
    assert differ(make_run("main", plan=plan), make_run("feat/x", plan=other))
    assert differ(make_run("main", plan=plan), make_run("feat/x", plan=plan | {"trainer": "maxtext"}))
    theirs, ours = ({"reading": {"format": name}} for name in ("maxtext", "maxview"))
    assert differ(make_run("linen", **theirs), make_run("nnx", **theirs))
    assert not differ(make_run("linen", **ours), make_run("nnx", **ours))


def test_two_implementations_of_maxtext_are_compared_by_their_curves(
    make_run: MakeRun, compare: Callable[..., ComparisonRecord], row_of: Callable[[ComparisonRecord, str], MetricDiff]
) -> None:
    losses = np.round(CURVE, 3)
    for gap, word in ((0.05, "same"), (1.0, "regressed")):  # 0.14 is three deviations of a difference of two draws
        near = losses + gap * np.sin(np.arange(STEPS)) ** 2
        sides = [make_run(arm, losses=curve.tolist(), seconds=[1.0] * STEPS, reading={"format": "maxtext"})
                 for arm, curve in (("linen", losses), ("nnx", np.round(near, 3)))]  # fmt: skip
        assert row_of(compare(*sides), "loss_per_step").verdict == word


# ---------------------------------------------------------------- rules that travel


def test_every_set_has_the_tolerance_of_other_draws() -> None:
    for name in {load_comparison("linen-vs-nnx").tolerances, "default", "other-draws"}:
        assert (load_tolerances(name)["loss_of_other_draws"].absolute or 0) > 0


# ---------------------------------------------------------------- a start that both share


TAKEN = {
    "replaced": ["state['model']['w'].value"],
    "kept": {"state['rngs']['key']": "random numbers stay the arm's own"},
}


def test_runs_from_one_state_are_compared_to_the_last_digit(
    make_run: MakeRun, compare: Callable[..., ComparisonRecord], row_of: Callable[[ComparisonRecord, str], MetricDiff]
) -> None:
    losses = np.round(CURVE, 3)
    near = np.round(losses + 0.05 * np.sin(np.arange(STEPS)) ** 2, 3)  # 0.14 would hide it
    linen = make_run("linen", losses=losses.tolist(), seconds=[1.0] * STEPS, reading={"format": "maxtext"})

    def judged(curve: np.ndarray, **start: object) -> ComparisonRecord:
        nnx = make_run("nnx", losses=curve.tolist(), seconds=[1.0] * STEPS, reading={"format": "maxtext"})
        return compare(linen, nnx.replace(start=StartReport.model_validate(start)))

    assert row_of(judged(losses, **TAKEN), "loss_per_step").verdict == "same"
    assert row_of(judged(near, **TAKEN), "loss_per_step").verdict != "same"
    dropping = {"plan": {"config": {"steps": STEPS, "enable_dropout": True, "dropout_rate": 0.1}}}
    left, right = (
        make_run(arm, losses=curve.tolist(), seconds=[1.0] * STEPS, reading={"format": "maxtext"}, **dropping)
        for arm, curve in (("linen", losses), ("nnx", near))
    )
    record = compare(left, right.replace(start=StartReport.model_validate(TAKEN)))
    assert row_of(record, "loss_per_step").verdict == "same"  # each arm drops different units
    for start, why in (
        ({"reason": "the other arm has kept none"}, "the other arm has kept none"),
        (
            {**TAKEN, "kept": {"w": "shape (2,) here, (3,) there"}, "own_values": ["w"]},
            "the candidate's w could not be replaced",
        ),
    ):
        record = judged(near, **start)
        assert row_of(record, "loss_per_step").verdict == "same"  # judged like other draws
        (finding,) = [finding for finding in record.findings if finding.kind == "start"]
        assert why in finding.message
        assert finding.effect == "note"
