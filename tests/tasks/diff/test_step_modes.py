"""Two levels in one run are named with the mean that a user pays for."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tasks.diff.examine.arms import ArmRuns
from tasks.diff.judge.step_modes import describe_modes, find_border
from tasks.records.compared_case import ComparisonRecord
from tasks.records.run import RunRecord

type MakeRun = Callable[..., RunRecord]
RANDOM = np.random.default_rng(0)


def noisy(levels: Sequence[float], steps: int = 60) -> list[float]:
    """Step times in seconds: the levels in turns, with 0.3 % of noise, after a slow first step."""
    times = np.resize(levels, steps) * np.exp(RANDOM.normal(0, 0.003, steps))
    return [3.0, *map(float, times)]


def run(make_run: MakeRun, arm: str, levels: Sequence[float], repeat: int = 0) -> RunRecord:
    times = noisy(levels)
    return make_run(arm, seconds=times, losses=[9 - n / 100 for n in range(len(times))], repeat=repeat, commit=arm * 9)


def test_two_of_three_slow_steps_have_their_mean_in_the_headline(
    make_run: MakeRun, compare: Callable[..., ComparisonRecord]
) -> None:
    runs = [
        [run(make_run, arm, levels, n) for n in range(3)] for arm, levels in (("a", [0.08]), ("b", [0.08, 0.1, 0.1]))
    ]
    record = compare(*runs)
    assert record.verdict == "regressed", record.headline
    mean = float(record.headline.partition("the mean step +")[2].partition(" %")[0])
    assert mean == pytest.approx(100 / 6, abs=0.3)  # (0 + 25 + 25) / 3
    assert "2 of 3 steps +25 %" in record.headline
    assert "every third step unchanged" in record.headline


@pytest.mark.parametrize("levels", [[0.08], [0.08, 0.081], [0.08] * 9 + [0.1]])
def test_one_level_and_rare_slow_steps_are_no_two_levels(levels: Sequence[float]) -> None:
    assert find_border(np.log(noisy(levels)[1:])) is None


def test_a_whole_slower_run_has_one_level(make_run: MakeRun, arm_of: Callable[..., ArmRuns]) -> None:
    arms = arm_of(run(make_run, "a", [0.08])), arm_of(run(make_run, "b", [0.1]))
    assert describe_modes(arms) == ""
