"""A gate: which questions count for the exit status and the state of the flow run."""

from collections.abc import Callable

import pytest

from tasks.diff.judge.exit_status import exit_status
from tasks.diff.judge.gate import judge_gate, read_gate
from tasks.publish.content.brief import make_brief
from tasks.publish.markdown.artifacts import summary_markdown
from tasks.records.compared_case import ComparisonRecord, GateResult, MetricDiff
from tasks.services.prefect_ui import final_state

type MakeRow = Callable[..., MetricDiff]


def timed(make_row: MakeRow, word: str, low: float, high: float) -> MetricDiff:
    row = make_row("program_step_s", "Step time of the program", ("0.1", "0.1", "0"), word, "", better="lower",
                   effect=(low + high) / 2)  # fmt: skip
    return row.replace(effect_low=low, effect_high=high)


def compared(record: ComparisonRecord, verdict: str, *rows: MetricDiff) -> ComparisonRecord:
    return record.replace(rows=rows, verdict=verdict, findings=(), floors=())


def gated(record: ComparisonRecord, *words: str) -> ComparisonRecord:
    return record.replace(gate=judge_gate(record, read_gate(words)))


def test_an_undecided_time_does_not_hold_up_a_gate_of_the_function(
    record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    function = make_row("function", "Function of the step", ("9", "9", ""), "same", "")
    record = compared(record_002, "unknown", timed(make_row, "unknown", -0.02, 0.03), function)
    assert exit_status([record]) == 3
    assert exit_status([gated(record, "function")]) == 0
    assert exit_status([gated(record, "function,time")]) == 3
    assert exit_status([gated(record, "function", "time=5%")]) == 0


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [(0.01, 0.049, 0), (-0.2, -0.1, 0), (0.051, 0.08, 1), (0.04, 0.06, 3), (-0.9, 2.0, 3)],
)
def test_a_limit_passes_inside_fails_beyond_and_else_is_undecided(
    low: float, high: float, status: int, record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    word = "regressed" if low > 0 else "improved" if high < 0 else "unknown"
    record = gated(compared(record_002, word, timed(make_row, word, low, high)), "time=5%")
    assert exit_status([record]) == status


@pytest.mark.parametrize(("word", "status"), [("same", 0), ("changed", 1), ("unknown", 3)])
def test_a_gate_of_the_function_has_the_worst_answer(
    word: str, status: int, record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    rows = [make_row("function", "F", ("1", "1", ""), "same", ""), make_row("data", "Data", ("1", "1", ""), word, "")]
    assert exit_status([gated(compared(record_002, word, *rows), "function")]) == status


def test_what_was_not_measured_is_undecided(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    record = gated(compared(record_002, "same", make_row("function", "F", ("1", "1", ""), "same", "")), "time")
    assert record.gate == GateResult(name="time", status=3, reason="time: not measured")


def test_no_gate_excuses_a_death_or_two_that_cannot_be_compared(
    record_000: ComparisonRecord, record_002: ComparisonRecord
) -> None:
    assert record_000.has_died
    assert exit_status([gated(record_000, "memory")]) == 1
    assert any(finding.effect == "blocks" for finding in record_002.findings)
    assert exit_status([gated(record_002, "function")]) == 3


@pytest.mark.parametrize("word", ["functions", "time=", "time=5", "function=5%", "time=-5%", "loss"])
def test_a_wrong_gate_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="--gate"):
        read_gate([word])


def test_the_comment_and_the_state_tell_the_gate(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    slow = compared(record_002, "regressed", timed(make_row, "regressed", 0.06, 0.08))
    failed, passed = gated(slow, "time=5%"), gated(slow, "time=10%")
    assert "Gate time=5% failed" in make_brief(failed).gate
    for record, name, kind in ((failed, "GateFailed", "FAILED"), (passed, "GatePassed", "COMPLETED")):
        state = final_state([record])
        assert (state.name, state.type.value) == (name, kind)
        assert make_brief(record).gate.replace("%", "") in summary_markdown(record).replace("\\", "").replace("%", "")
        assert (state.message or "").startswith("Gate ")


def test_states_of_verdicts(record_000: ComparisonRecord, record_002: ComparisonRecord) -> None:
    found = {}
    for word in ("same", "improved", "unknown", "changed", "regressed"):
        state = final_state([compared(record_002, word)])
        found[word] = (state.name, state.type.value)
    assert found == {
        "same": ("Same", "COMPLETED"), "improved": ("Improved", "COMPLETED"), "unknown": ("Unknown", "CANCELLED"),
        "changed": ("Changed", "FAILED"), "regressed": ("Regressed", "FAILED"),
    }  # fmt: skip
    died = final_state([record_000])
    assert (died.name, died.type.value) == ("Died", "FAILED")
    assert final_state([record_000, compared(record_002, "unknown")]).name == "Died"
