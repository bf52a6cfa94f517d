"""The processor time of a step, nearly independent of other load: when it is judged, and the differences it finds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from questions.history.record_rows import run_values
from tasks.diff.examine.circumstances import CHANCE
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.log_reading import Environment
from tasks.records.run import RunRecord

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], MetricDiff]

CPU = Environment(jax="0.12.0", backend="cpu", device_kind="cpu", num_devices=1)
LOSSES = (9.0, 8.5, 8.0, 7.5, 7.25, 7.0)
BUSY = (1.0, 1.9, 1.1)  # other load: the second pair of runs took nearly twice as long


@pytest.fixture
def runs_of(make_run: MakeRun) -> Callable[..., list[RunRecord]]:
    """runs_of(arm, cpu levels): one run of six steps for each, in seconds of processor time; of wall time as BUSY."""

    def make(arm: str, levels: Sequence[float | None], *, wall: float = 0.03) -> list[RunRecord]:
        runs = []
        for repeat, (level, busy) in enumerate(zip(levels, BUSY, strict=True)):
            columns: dict[str, Any] = {"step": range(6), "loss": LOSSES, "step_time_s": [3.0] + [wall * busy] * 5}
            if level is not None:
                columns["step_cpu_time_s"] = [4.0] + [level] * 5
            record = {"metrics": pl.DataFrame(columns)}
            printed = {"seconds": [round(seconds, 3) for seconds in columns["step_time_s"]]}
            runs.append(
                make_run(
                    arm, exact=True, plan={}, repeat=repeat, record=record, reading={"environment": CPU}, **printed
                )
            )
        return runs

    return make


def test_a_difference_hidden_in_the_wall_time_is_found_in_the_processor_time(
    runs_of: Callable[..., list[RunRecord]], compare: Compare, row_of: RowOf
) -> None:
    baseline = runs_of("linen", (0.0600, 0.0603, 0.0597))
    candidate = runs_of("nnx", (0.0660, 0.0663, 0.0657), wall=0.033)
    record = compare(baseline, candidate)
    # stated is 10 % for wall times: t is about 1.6
    assert row_of(record, "step_time_s").verdict == "unknown"
    row = row_of(record, "step_cpu_time_s")
    # by hand: 0.5 % within the arms, t = ln 1.1 / (0.5 % √2 √0.44) = 20 with 4 degrees of freedom
    assert (row.verdict, row.baseline_text, row.candidate_text) == ("regressed", "0.0600", "0.0660")
    assert row.effect == pytest.approx(0.10, abs=0.002)
    assert record.verdict == "regressed"
    assert "CPU time per step" in record.headline


def test_both_clocks_share_the_chance_of_a_false_alarm(
    runs_of: Callable[..., list[RunRecord]], compare: Compare, row_of: RowOf
) -> None:
    candidate = (0.0630, 0.0633, 0.0627)

    def judged(chance: float) -> MetricDiff:
        sides = runs_of("linen", (0.0600, 0.0603, 0.0597)), runs_of("nnx", candidate)
        return row_of(compare(*sides, chance=chance), "step_cpu_time_s")

    # 4.9 % from three agreeing pairs, stated noise 3 %, with 4 + 2 degrees of freedom:
    # t = 0.0488 / (3 % √(4 / 6) / √3) = 3.45, p = 0.0137
    p = judged(CHANCE).p_value
    assert p == pytest.approx(0.0137, abs=0.0002)
    # two clocks share the chance, and the steady steps of each get two thirds
    assert judged(3 * 0.0130).verdict == "unknown"
    assert judged(4 * 0.0144).verdict == "regressed"


def test_there_is_no_row_without_measurements(
    runs_of: Callable[..., list[RunRecord]], make_run: MakeRun, compare: Compare
) -> None:
    for candidate in (runs_of("nnx", (0.06, None, 0.06)), [make_run("nnx", exact=True)], [make_run("nnx")]):
        record = compare(runs_of("linen", (0.06, 0.06, 0.06)), candidate)
        assert "step_cpu_time_s" not in {row.metric for row in record.rows}


def test_the_survivors_time_is_shown_beside_a_dead_arm(
    runs_of: Callable[..., list[RunRecord]], make_run: MakeRun, compare: Compare, died: Mapping[str, Any]
) -> None:
    record = compare(runs_of("linen", (0.06, 0.06, 0.06)), make_run("nnx", losses=(), seconds=(), reading=died))
    (row,) = [row for row in record.rows if row.metric == "step_cpu_time_s"]
    assert (row.baseline, row.candidate_text, row.verdict) == (pytest.approx(0.06), "–, died", "not judged")
    assert record.rows[0].metric == "end"


def test_the_history_keeps_both_levels_of_a_run(runs_of: Callable[..., list[RunRecord]]) -> None:
    (run, *_) = runs_of("linen", (0.06, 0.06, 0.06))
    values = {value["metric"]: value["value"] for value in run_values(run)}
    assert values["step_cpu_time_s"] == values["step_cpu_time_quick_s"] == pytest.approx(0.06)
    assert values["step_time_s"] == pytest.approx(0.03)
