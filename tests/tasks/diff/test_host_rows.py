"""The time of a step of one program that runs left open is decided by both host loops."""

import pytest

from tasks.diff.judge.host_rows import HOST_LOOPS, judge_by_host
from tasks.diff.phrases.amounts import ONE_RUN
from tasks.metrics.table import BY_NAME
from tasks.records.compared_case import MetricDiff, Verdict
from tasks.records.host_times import HostTimes, Span

MS = 1e-3
WALL, CPU = "step_time_s", "step_cpu_time_s"


def host(low: float, high: float, *, candidate: float = 3.0, problem: str = "") -> HostTimes:
    """The times of two host loops whose difference, wall and processor time, lies between low and high ms per step."""
    if problem:
        return HostTimes(problem=problem)
    middle = (low + high) / 2
    span = Span(effect=middle * MS, low=low * MS, high=high * MS)
    means = ((candidate - middle) * MS, candidate * MS)
    return HostTimes(wall_s=means, cpu_s=means, wall=span, cpu=span, pairs=2, steps=178)


def open_row(metric: str, low: float = -0.3, high: float = 0.5, verdict: Verdict = "unknown") -> MetricDiff:
    """The row of runs of 40 and 41 ms per step, allowed ±5 %, with the interval of their ratio."""
    known = BY_NAME[metric]
    return MetricDiff(
        metric=metric, title=known.title, unit="s", better="lower", rule="", group="ours", baseline=0.040,
        candidate=0.041, baseline_text="0.040", candidate_text="0.041", difference=0.001, difference_text="0.001",
        verdict=verdict, reason="too wide to tell ±5 % from none", threshold=0.002, threshold_text="±5 %",
        effect=0.025, effect_low=low, effect_high=high, effect_text="+2.5 %", runs_wanted=9, cost_text="a minute",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "low", "high", "candidate", "verdict"),
    [
        (WALL, -1.0, 1.5, 1.9, "same"),  # ±5 % of 40 ms are ±2 ms
        (WALL, -1.0, 1.5, 3.0, "unknown"),  # another share of these 3 ms may hide behind the device
        (CPU, -1.0, 1.5, 3.0, "same"),
        (WALL, -1.0, 2.5, 3.0, "unknown"),
        (WALL, 2.5, 3.5, 6.0, "unknown"),  # it may hide behind the device
        (CPU, 2.5, 3.5, 6.0, "regressed"),  # processor time is added
        (WALL, 190.0, 210.0, 203.0, "regressed"),  # longer than the whole step: nothing hides it
        (CPU, 1.0, 3.0, 5.0, "unknown"),
        (WALL, -3.5, -2.5, 1.0, "unknown"),  # quicker: it may have been hidden
    ],
)
def test_what_the_interval_decides(metric: str, low: float, high: float, candidate: float, verdict: str) -> None:
    row = judge_by_host(open_row(metric), host(low, high, candidate=candidate))
    assert row.verdict == verdict
    assert (row.evidence == HOST_LOOPS) == (verdict != "unknown")
    assert "the host loops alone take" in row.reason


def test_slow_steps_and_decided_rows_stay() -> None:
    inside = open_row(WALL, low=-0.01, high=0.01)  # typical steps are equal, and slow ones left it open
    measured = open_row(WALL, verdict="regressed")
    for row in (inside, measured):
        assert judge_by_host(row, host(-1.0, 1.0)) == row


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(-1.0, 1.5, "unknown"), (1.0, 3.0, "regressed"), (-3.0, 3.0, "unknown")]
)
def test_one_run_of_each_decides_no_time_of_one_program(low: float, high: float, verdict: str) -> None:
    """On two cores with fourteen running processes, one run of NNX took 29 % more processor time than one of Linen."""
    row = open_row(CPU, low=0.1, high=0.5, verdict="regressed").replace(evidence=ONE_RUN)
    assert judge_by_host(row, host(low, high)).verdict == verdict


def test_a_problem_is_said() -> None:
    row = judge_by_host(open_row(WALL), host(0, 0, problem="only 1 steps could be timed"))
    assert row.verdict == "unknown"
    assert row.reason.endswith("only 1 steps could be timed")
