"""Step times of unsteady machines: level changes inside a run, places of runs, and stalls."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from configs.verdict_rules import DeviceNoise
from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.noise import NO_PLACE, OTHER_PLACES, OTHER_TIMES, Noise, estimate_noise_between
from tasks.diff.judge.effect import Sample, are_mixed, measure_effect, runs_wanted
from tasks.diff.judge.metric_rows import make_row
from tasks.metrics.step_time_levels import find_levels, find_shift, spread_rounded
from tasks.metrics.time_account import seconds_between_steps
from tasks.metrics.time_metrics import STEP_TIME
from tasks.records.compared_case import ComparisonRecord, Decision
from tasks.records.log_reading import Environment
from tasks.records.run import RunRecord
from tasks.records.run_facts import Measured
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], Any]
type ArmOf = Callable[..., ArmRuns]

GPU = Noise(scale=0.014, df=6.0, source="stated")
TPU = DeviceNoise(
    equal_runs=0.004, weight=10, days_apart=0.008, places_apart=0.006, tolerance=0.02, least=0.005, why="a slice"
)
HERE: dict[str, Any] = {"plan": {}}
LOSSES = [9.0 - n / 100 for n in range(41)]


# ---------------------------------------------------------------- inside a run


@pytest.mark.parametrize("since", [5, 20, 50, 90])
def test_a_level_change_inside_a_run_is_found_with_its_size(since: int) -> None:
    rng = np.random.default_rng(since)
    seconds = 0.4 * np.exp(rng.normal(0, 0.005, 100) + 0.15 * (np.arange(100) >= since))
    assert find_shift(seconds) == pytest.approx(0.15, abs=0.01)


@pytest.mark.parametrize("by", [0.08, -0.08])
def test_a_drift_has_moved_by_more_than_the_means_of_its_halves(by: float) -> None:
    """The middle of the run lies half of the drift from its start, so half of the change is too little an error."""
    rng = np.random.default_rng(7)
    seconds = 0.4 * np.exp(rng.normal(0, 0.005, 100) + by * np.arange(100) / 100)
    # from the middle of the first fifth to that of the last
    assert find_shift(seconds) == pytest.approx(0.08 * 0.8, abs=0.005)


def test_steps_with_one_level_have_no_shift_despite_stalls() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(600):
        steps = 0.4 * np.exp(rng.normal(0, 0.1, 100)) * np.where(rng.random(100) < 0.03, 20.0, 1.0)
        found.append(find_shift(steps))
    assert np.count_nonzero(found) <= 2  # one in 1000 by chance


def test_a_throttled_run_is_no_evidence(make_run: MakeRun, compare: Compare, row_of: RowOf, wording: Wording) -> None:
    even = [3.0, *[0.1] * 40]
    throttled = [3.0, *[0.1] * 8, *[0.115] * 32]
    runs = [make_run(arm, seconds=s, losses=LOSSES, **HERE) for arm, s in (("linen", even), ("nnx", throttled))]
    row = row_of(compare(*runs), "step_time_s")
    assert row.verdict == "unknown"
    assert " 15 % during a run of nnx" in row.reason
    wording("reasons", row.reason)


# ---------------------------------------------------------------- between runs


STEADY = (0.4000, 0.4003, 0.3998)
NODES = ("node-1", "node-2", "node-3")


@pytest.fixture
def reason_of(make_run: MakeRun, compare: Compare, row_of: RowOf) -> Callable[..., str]:
    """reason_of(step times of the baseline's runs, of the candidate's): the reason of the step time's row."""

    def reason(*arms: Sequence[float], nodes: Sequence[str] = ("node-1",) * 6) -> str:
        runs = [
            [
                make_run(
                    arm, seconds=[9.0, *[level] * 40], losses=LOSSES, repeat=repeat,
                    reading={"environment": Environment(backend="gpu", device_kind="NVIDIA H100", place=nodes[repeat])},
                )
                for repeat, level in enumerate(levels)
            ]
            for arm, levels in zip(("linen", "nnx"), arms, strict=True)
        ]  # fmt: skip
        row = row_of(compare(*runs), "step_time_s")
        assert row.verdict == "unknown"
        return str(row.reason)

    return reason


def test_one_run_far_from_its_others_is_named_with_its_node(reason_of: Callable[..., str], wording: Wording) -> None:
    reason = reason_of(STEADY, (0.4002, 0.4320, 0.3999), nodes=NODES)
    assert reason.startswith("run 2 of nnx is 8 % slower than its other 2 runs (it alone ran on node-2), which agree")
    wording("reasons", reason)
    assert " is 8" in reason_of((0.4002, 0.4320, 0.3999), STEADY)


def test_two_states_of_the_runs_of_both_arms_are_named(reason_of: Callable[..., str], wording: Wording) -> None:
    reason = reason_of((0.4000, 0.4240, 0.4003, 0.4243), (0.4241, 0.4001, 0.4242, 0.4239))
    assert reason.startswith("the runs of both arms have two states, 6 % apart")
    assert "(2 of 4 of linen and 3 of 4 of nnx are slow)" in reason
    wording("reasons", reason)


def test_runs_that_scatter_have_no_regime(reason_of: Callable[..., str]) -> None:
    reason = reason_of((0.400, 0.412, 0.405), (0.409, 0.420, 0.402))
    assert reason.startswith("steady steps ")


def test_runs_that_scatter_more_than_stated_are_judged_by_their_own_scatter() -> None:
    # one of ten runs in the other clock state, 6 % away: by hand, the arms' scatter is 6 % √(0.8 / 8) √2 = 2.68 %
    low, high = 1.0, float(np.exp(0.06))
    sure = Noise(scale=0.004, df=100.0, source="stated")  # F with 8 and 100 degrees is above 3.2 in 0.3 %
    effect = measure_effect(Sample(baseline=(low,) * 5, candidate=(high,) * 4 + (low,), noise=sure))
    assert effect.wide
    assert effect.scale == pytest.approx(0.06 * (0.8 / 8) ** 0.5 * 2**0.5)
    assert effect.df == 4
    assert effect.p > 0.0067  # Fisher's exact test gives 4.8 % for 4 of 5 against 0 of 5


def test_a_few_agreeing_runs_do_not_outweigh_a_history_of_two_clock_states() -> None:
    """Clocks 6 % apart, drawn for each run: in 2 of 64 draws of three runs each, the arms have one state each."""
    slow, quick = tuple(0.4 * np.exp([0.061, 0.058, 0.06])), tuple(0.4 * np.exp([0.001, -0.002, 0.0]))
    history = Noise(scale=0.04, df=3.0, pairs=20, source="history of gpu")  # pairs differ by 0, 0, +6 and -6 %
    effect = measure_effect(Sample(baseline=quick, candidate=slow, noise=history))
    assert effect.p > 0.02
    assert effect.scale == 0.04
    assert measure_effect(Sample(baseline=quick, candidate=slow, noise=GPU)).p < 0.001  # without it: a change of 6 %


def test_one_run_among_those_of_the_other_arm_is_no_difference() -> None:
    """Two clock states, 3 % apart: the candidate has five slow runs, the baseline four quick ones and a slow one."""
    scatter = 0.001 * np.array([2, -3, 0, 3, -2])
    states = {"mixed": [0, 0, 0, 0, 0.0345], "one swap": [0, 0, 0, 0, 0.0295], "apart": [0, 0, 0, 0, 0.01]}
    candidate = tuple(np.exp(0.03 + scatter))
    # by hand, of the 252 orders of ten runs: with k of the 25 pairs the other way round, 2, 4, 8 … are as extreme
    for name, expected in (("mixed", True), ("one swap", False), ("apart", False)):
        sample = Sample(baseline=tuple(np.exp(states[name] + scatter)), candidate=candidate, noise=GPU)
        effect = measure_effect(sample)
        assert effect.p < 0.0067, name
        assert are_mixed(effect) is expected, name
        history = sample.replace(noise=Noise(scale=0.014, df=6.0, pairs=8, source="history of gpu"))
        assert not are_mixed(measure_effect(history))  # it knows the states


def test_runs_that_rise_and_fall_together_are_still_pairs() -> None:
    shared = np.exp([0.0, 0.7, 0.1, 0.4])
    effect = measure_effect(Sample(baseline=tuple(shared), candidate=tuple(shared * 1.05), noise=GPU))
    assert not effect.wide
    assert effect.p < 0.001


def test_the_scatter_of_the_runs_sets_the_number_of_requested_runs() -> None:
    """A machine with a tenth of the stated noise: each further run shows it, and fewer runs are requested."""
    stated = Noise(scale=0.1, df=3.0, source="stated")
    rng = np.random.default_rng(4)
    calm = [tuple(np.exp(rng.normal(mean, 0.01, 4)).tolist()) for mean in (0.0, 0.05)]
    effect = measure_effect(Sample(baseline=calm[0], candidate=calm[1], noise=stated))
    limits = {"least": 0.01, "within": 0.0488, "chance": 0.0067}
    wanted = runs_wanted(effect, **limits)
    fixed = runs_wanted(effect.replace(seen=None), **limits)
    assert wanted is not None
    assert fixed is not None
    assert wanted < fixed / 1.5


# ---------------------------------------------------------------- where the arms ran


def test_logs_without_a_place_have_the_variance_between_places(make_run: MakeRun, arm_of: ArmOf) -> None:
    apart = estimate_noise_between((arm_of(make_run("a")), arm_of(make_run("b"))), TPU)
    assert apart == (pytest.approx(0.006), NO_PLACE)
    own = estimate_noise_between((arm_of(make_run("a", **HERE)), arm_of(make_run("b", **HERE))), TPU)
    assert own == (0.0, "")


def test_arms_on_the_same_nodes_of_a_cluster_have_one_place(make_run: MakeRun, arm_of: ArmOf) -> None:
    def runs(name: str, *nodes: str) -> Any:
        places = [Environment(place=f"cluster c: {node}") for node in nodes]
        return arm_of(*(make_run(name, repeat=n, reading={"environment": here}) for n, here in enumerate(places)))

    assert estimate_noise_between((runs("a", "n1"), runs("b", "n1")), TPU) == (0.0, "")
    assert estimate_noise_between((runs("a", "n1"), runs("b", "n2")), TPU) == (pytest.approx(0.006), OTHER_PLACES)
    # both arms had both slices
    assert estimate_noise_between((runs("a", "n1", "n2"), runs("b", "n2", "n1")), TPU) == (0.0, "")
    # shares of 1/2 and 1/2 against 1: the offsets of two slices, each with half of its size
    some = estimate_noise_between((runs("a", "n1", "n2"), runs("b", "n2", "n2")), TPU)
    assert some == (pytest.approx(0.006 / 2), OTHER_PLACES)


def at(hour: int, day: int = 18) -> dict[str, Any]:
    return {"started": f"2026-11-{day}T{hour:02d}:00:00+00:00", "ended": f"2026-11-{day}T{hour:02d}:09:00+00:00"}


def test_the_variance_between_days_counts_once_for_each_day(make_run: MakeRun, arm_of: ArmOf) -> None:
    def arms(*days: tuple[str, Sequence[int]]) -> Any:
        return tuple(
            arm_of(*(make_run(name, repeat=n, reading=at(10, day), **HERE) for n, day in enumerate(found)))
            for name, found in days
        )

    # three runs of each on one day and three on another: one offset of each day
    assert estimate_noise_between(arms(("a", (18, 18, 18)), ("b", (20, 20, 20))), TPU) == (
        pytest.approx(0.008),
        OTHER_TIMES,
    )
    # three days of each: the mean of three offsets
    three = estimate_noise_between(arms(("a", (11, 13, 15)), ("b", (18, 20, 22))), TPU)
    assert three == (pytest.approx(0.008 / 3**0.5), OTHER_TIMES)
    # both arms on each day
    assert estimate_noise_between(arms(("a", (11, 13, 15)), ("b", (11, 13, 15))), TPU) == (0.0, "")


def test_a_baseline_of_forty_minutes_ago_is_not_a_neighbour(make_run: MakeRun, arm_of: ArmOf) -> None:
    arms = arm_of(make_run("a", reading=at(10), **HERE)), arm_of(make_run("b", reading=at(10) | at(11), **HERE))
    assert estimate_noise_between(arms, TPU)[1] == OTHER_TIMES


# ---------------------------------------------------------------- the mean step


@pytest.mark.parametrize("slow", [range(4, 41, 5), range(5, 41, 6), (10, 20, 30), range(1, 9), (17,)])
@pytest.mark.parametrize("repeats", [1, 3])
def test_a_longer_mean_step_is_never_the_same(
    slow: Sequence[int], repeats: int, make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    extra = 0.3 * 0.1 * 40 / len(slow)  # the mean step is 1.3 times as long
    times = [3.0 if n == 0 else 0.1 + extra * (n in slow) for n in range(41)]
    even = [3.0, *[0.1] * 40]
    sides = [
        [make_run(arm, seconds=s, losses=LOSSES, repeat=n, **HERE) for n in range(repeats)]
        for arm, s in (("linen", even), ("nnx", times))
    ]
    there, back = compare(*sides), compare(*reversed(sides), declared=frozenset({"pure_nnx"}))
    for record in (there, back):
        assert row_of(record, "step_time_s").verdict == "unknown"
    assert row_of(compare(sides[0], sides[0]), "step_time_s").verdict == "same"


@pytest.mark.parametrize("of_runs", [(0.9, 0.0, 0.0), (0.0, 0.45, 0.45), (0.8, 0.6, 0.1, 0.0, 0.0)])
def test_a_longer_mean_step_of_some_runs_is_not_the_same(
    of_runs: Sequence[float], make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    """The mean step of all runs together is 1.3 times as long, the mean step of one run is not."""
    assert sum(of_runs) / len(of_runs) == pytest.approx(0.3)
    even = [3.0, *[0.1] * 40]
    stalls = [[3.0, *(0.1 + share * 0.1 * 8 * (n % 8 == 0) for n in range(40))] for share in of_runs]
    sides = [
        [make_run(arm, seconds=s, losses=LOSSES, repeat=n, **HERE) for n, s in enumerate(runs)]
        for arm, runs in (("linen", [even] * len(of_runs)), ("nnx", stalls))
    ]
    for record in (compare(*sides), compare(*reversed(sides))):
        row = row_of(record, "step_time_s")
        assert row.verdict == "unknown"
        assert row.reason.startswith("the mean step is ")


def test_time_between_the_printed_seconds_is_part_of_the_mean_step(
    make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    def run(arm: str, gap: float) -> RunRecord:
        times = [f"2026-11-18T10:00:{n * (0.1 + gap):09.6f}+00:00" for n in range(41)]
        return make_run(arm, seconds=[0.1] * 41, losses=LOSSES, columns={"time": times}, **HERE)

    slow = run("nnx", 0.2)
    assert seconds_between_steps(slow) == pytest.approx(0.2)
    row = row_of(compare(run("linen", 0.0), slow), "step_time_s")
    assert row.verdict == "unknown"
    assert row.reason.startswith("the mean step is +200 % (0.1 s became 0.3 s)")
    assert '; the part that grew most is "between": ' in row.reason


# ---------------------------------------------------------------- printed digits, and one number per name


def test_levels_of_rounded_steps_depend_on_the_share_rounded_up() -> None:
    few, many = np.repeat([0.070, 0.071], (60, 40)), np.repeat([0.070, 0.071], (40, 60))
    levels = [find_levels(steps, unit=0.001) for steps in (few, many)]
    assert levels[0] is not None
    assert levels[1] is not None
    # by hand: 10 of the 60 at 0.070 lie below the 10 % quantile, and 10 of the 40
    assert levels[0].quick.seconds == pytest.approx(0.0695 + 0.001 * 10 / 60, abs=2e-5)
    assert levels[1].quick.seconds == pytest.approx(0.0695 + 0.001 * 10 / 40, abs=2e-5)
    # the means
    assert levels[0].middle.seconds == pytest.approx(0.0704, abs=2e-5)
    assert levels[1].middle.seconds == pytest.approx(0.0706, abs=2e-5)
    assert np.array_equal(np.round(spread_rounded(few, 0.001), 3), few)


def test_a_row_shows_the_judged_level(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    """Most steps take longer, the quickest do not."""
    even, slow = [3.0, *[0.1] * 40], [3.0, *[0.1 if n % 4 == 0 else 0.12 for n in range(40)]]
    runs = [make_run(arm, seconds=s, losses=LOSSES, **HERE) for arm, s in (("linen", even), ("nnx", slow))]
    row = row_of(compare(*runs), "step_time_s")
    assert (row.verdict, row.title) == ("regressed", "Step time, typical")
    assert (row.baseline, row.candidate) == (pytest.approx(0.1), pytest.approx(0.12))
    assert row.effect == pytest.approx(0.2)
    assert row.effect_low < row.effect < row.effect_high


def test_a_difference_inconsistent_with_its_cells_is_refused(make_run: MakeRun, arm_of: ArmOf) -> None:
    arms, cells = (arm_of(make_run("a")), arm_of(make_run("b"))), (Measured(value=0.0796), Measured(value=0.0797))
    with pytest.raises(ValueError, match=r"0\.0796 and 0\.0797 .*\+24\.5 %"):
        make_row(STEP_TIME, cells, arms, Decision(verdict="regressed", reason="", effect=0.245))


# ---------------------------------------------------------------- a busy machine


def drawn_of(record: ComparisonRecord) -> list[float | None]:
    """The step times after the first in the curve of the candidate's last run."""
    return list(record.curves[-1].values[1:])


def test_time_taken_by_other_load_is_excluded_from_a_step(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    """The machine was three times as slow during the candidate's run, and its threads waited two thirds of the time."""

    def run(arm: str, busy: float, repeat: int, *, measured: bool = True) -> RunRecord:
        table: dict[str, Any] = {"step": range(41), "loss": LOSSES, "step_time_s": [3.0] + [0.1 * busy] * 40}
        if measured:
            table["step_wait_s"] = [0.0] + [0.1 * (busy - 1)] * 40
        return make_run(
            arm,
            seconds=table["step_time_s"],
            losses=LOSSES,
            repeat=repeat,
            record={"metrics": pl.DataFrame(table)},
            **HERE,
        )

    base, innocent = ([run(arm, busy, n) for n in range(3)] for arm, busy in (("linen", 1.0), ("nnx", 3.0)))
    record = compare(base, innocent)
    row = row_of(record, "step_time_s")
    assert row.verdict != "regressed"
    assert (row.baseline, row.candidate) == (pytest.approx(0.1), pytest.approx(0.1))
    assert drawn_of(record) == pytest.approx([0.1] * 40)  # the curve has the judged values
    # if one arm did not measure it, both are compared by wall time
    older = compare([run("linen", 1.0, n, measured=False) for n in range(3)], innocent)
    assert row_of(older, "step_time_s").candidate == pytest.approx(0.3)
    assert drawn_of(older) == pytest.approx([0.3] * 40)
