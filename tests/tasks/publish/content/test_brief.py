"""The top of a page: the deciding row, a title of two lines, the place of a death, the duration of the next command."""

from collections.abc import Callable
from math import nan
from pathlib import Path

import pytest

from tasks.publish.content.brief import (
    HOST,
    Level,
    Strip,
    _agree,
    find_frame,
    make_brief,
    read_last_lines,
    shorten_title,
    tell_certainty,
)
from tasks.publish.content.row_values import show_percent, show_sides, show_values
from tasks.records.change import ChangeCoverage
from tasks.records.compared_case import ComparisonRecord, Finding, Floor, MetricDiff
from tasks.records.explanation import CodeLine, Explanation, TimeDifference, TimeExplanation
from tasks.records.function import FunctionComparison, ResultGap
from tasks.records.observation import Root, TensorComparison
from tasks.records.text import show_interval, show_number
from tests.wording.sentences import Wording

type MakeRow = Callable[..., MetricDiff]

SAME = FunctionComparison(answer="same", sentence="same function", gap=1.7e-15)
OTHER_PROGRAM = Floor(
    name="same program", holds=False, evidence="the programs differ at model/layers.py:32 norm, forward: 1 × sqrt"
)


def test_after_a_death_no_row_decides(record_000: ComparisonRecord, wording: Wording) -> None:
    brief = make_brief(record_000)
    assert brief.row is None
    assert brief.outcome == "died"
    (death,) = brief.deaths
    wording("reasons", brief.sentence)
    assert (death.side, death.cause) == ("candidate", "")  # told once
    assert death.lines[-1].startswith("NotImplementedError: ")
    assert find_frame(death.lines) == "maxtext/utils/train_utils.py:217 in setup_train_loop"


def test_the_last_lines_end_with_the_cause(record_000: ComparisonRecord) -> None:
    lines = read_last_lines(record_000.candidate)
    assert lines[-1].startswith("NotImplementedError:")
    assert lines[-2].lstrip().startswith('File "/deps/src/maxtext/utils/train_utils.py", line 217')
    gone = record_000.candidate.replace(logs=("/nowhere/log.txt",))
    assert read_last_lines(gone) == ()


def test_the_flops_at_the_end_of_a_log_are_no_cause(record_000: ComparisonRecord, tmp_path: Path) -> None:
    block = "Per train step:\n Total TFLOPs: 0.00 \n split as 96.97% learnable weight flops and 3.03% attention flops\n"
    log = tmp_path / "log.txt"
    log.write_text("saved\n" + block + "Training stopped: other arrays\n")
    offset = log.read_text().index("Training stopped")
    error = record_000.candidate.cause_of_death
    assert error is not None
    update = {"logs": (str(log),), "cause_of_death": error.replace(offset=offset, run=0)}
    lines = read_last_lines(record_000.candidate.replace(**update))
    assert lines == ("saved", "Training stopped: other arrays")


def test_the_brief_has_the_rows_that_differ_and_counts_the_others(
    record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    words = ["same", "not judged", "changed", "regressed", "same"]
    rows = [make_row(f"m{n}", f"M {n}", ("1", "2", "1"), word, "") for n, word in enumerate(words)]
    update = {"rows": tuple(rows), "verdict": "regressed", "findings": ()}
    brief = make_brief(record_002.replace(**update))
    assert [row.metric for row in brief.rows] == ["m3", "m2"]
    assert brief.more.startswith("3 more")


def test_no_side_is_better_where_the_two_cannot_be_compared(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    words = ["regressed", "improved", "changed", "unknown", "same"]
    rows = [make_row(f"m{n}", f"M {n}", ("1", "2", "1"), word, "") for n, word in enumerate(words)]
    assert any(finding.effect == "blocks" for finding in record_002.findings)
    blocked = record_002.replace(rows=tuple(rows), verdict="unknown")
    assert {row.verdict for row in make_brief(blocked).rows} == {"changed", "unknown"}
    assert [row.verdict for row in blocked.rows] == words  # the record keeps its words


def test_an_interval_from_half_to_double_tells_nothing(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    row = make_row("step_time_s", "Step time, steady", ("0.1", "0.1", "0"), "unknown", "", better="lower", effect=0.09)
    record = record_002.replace(verdict="unknown", findings=())
    for low, high, is_told in ((-0.888, 10.933, False), (-0.4, 10.933, True), (-0.888, 0.9, True)):
        shown = row.replace(effect_low=low, effect_high=high)
        assert ("%" in tell_certainty(record, shown)) == is_told
        assert ("…" in show_interval(0.09, low, high)) == is_told


def test_a_floor_that_does_not_hold_is_no_cross_beside_same(record_002: ComparisonRecord) -> None:
    floors = (
        Floor(name="same program", holds=False, evidence="they differ"),
        Floor(name="same function", holds=True, evidence="in float64"),
    )
    brief = make_brief(record_002.replace(verdict="same", findings=(), floors=floors))
    assert [(tick.word, tick.text) for tick in brief.ticks] == [
        ("not judged", "another program"), ("improved", "same function")
    ]  # fmt: skip


def undecided(record: ComparisonRecord, make_row: MakeRow) -> ComparisonRecord:
    """Return a comparison of one function whose step times are unknown: the program's is nearer to a decision."""
    rows = []
    for metric, title, width, threshold in (
        ("step_time_s", "Step time, steady", 0.60, 0.0040),
        ("program_step_s", "Step time of the program", 0.02, 0.0012),
    ):
        row = make_row(metric, title, ("0.080", "0.081", "0.001"), "unknown", "", better="lower", effect=0.0125)
        row = row.replace(threshold=threshold, unit="s", evidence="3 runs of each")
        rows.append(row.replace(effect_low=0.0125 - width, effect_high=0.0125 + width))
    update = {"rows": tuple(rows), "verdict": "unknown", "findings": (), "function": SAME, "floors": (OTHER_PROGRAM,)}
    return record.replace(**update)


def test_one_function_leads_where_the_time_is_not_decided(
    record_002: ComparisonRecord, make_row: MakeRow, wording: Wording
) -> None:
    brief = make_brief(undecided(record_002, make_row))
    assert "(2e-15 in float64)" in brief.sentence
    assert "80.0 → 81.0 ms" in brief.sentence
    assert brief.sure.startswith("Sure of the function, not of the time: with 99 % confidence, ")
    assert "model/layers.py:32" in brief.why
    for text in (brief.sentence, brief.why):
        wording("reasons", text)
    assert [row.metric for row in brief.rows] == ["program_step_s"]  # one row is of the step time
    assert brief.more == "1 more of the step time"


def test_why_a_function_is_not_evaluated_comes_before_the_place_where_the_programs_differ(
    record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    why = "not evaluated: result 1 is NaN or infinite in float64 at step 0"
    row = make_row("function", "Function of the step", ("", "", ""), "unknown", why)
    silent = FunctionComparison(answer="not evaluated", sentence=why)
    update = {"rows": (row,), "verdict": "unknown", "findings": (), "function": silent, "floors": (OTHER_PROGRAM,)}
    assert make_brief(record_002.replace(**update)).why == why


@pytest.mark.parametrize(
    ("what", "line", "named"),
    [(HOST, True, True), (HOST, False, False), ("garbage collection of the host", True, False)],
)
def test_further_compiles_have_the_line_that_compiles_and_no_other_time(
    what: str, line: bool, named: bool, record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    row = make_row("compiled_programs", "Compiled programs", ("2", "40", "38"), "regressed", "differs by 38")
    place = CodeLine(file="train.py", line=32, function="update") if line else None
    slow = TimeDifference(what=what, baseline_s=0, candidate_s=1, candidate_line=place, sentence="slow at train.py:32")
    spent = TimeExplanation(sentence="", steps=(20, 20), step_s=(0.1, 1.1), differences=(slow,))
    update = {"rows": (row,), "verdict": "regressed", "findings": (), "floors": (), "function": None}
    explanation = Explanation(headline="the programs are equal", time=spent)
    brief = make_brief(record_002.replace(**(update | {"explanation": explanation})))
    assert (brief.why == "slow at train.py:32") == named


@pytest.mark.parametrize(("what", "one_program", "longer", "named"), [
    ("dot_general", False, True, True),
    ("dot_general", False, False, False),  # the slower arm spends less time there
    ("dot_general", True, True, False),  # one program: other work on the machine
    (HOST, True, True, True),
])  # fmt: skip
def test_why_a_step_is_slower_is_a_part_that_is_longer(
    what: str, one_program: bool, longer: bool, named: bool, record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    row = make_row("step_time_s", "Step time", ("0.1", "0.2", "0.1"), "regressed", "steady steps +100 %")
    first, second = (0.0, 0.05) if longer else (0.05, 0.0)
    part = TimeDifference(what=what, baseline_s=first, candidate_s=second, sentence="50 ms more in it")
    spent = TimeExplanation(sentence="", steps=(20, 20), step_s=(0.1, 0.2), differences=(part,))
    floors = (Floor(name="same program", holds=one_program, evidence=""),)
    update = {"rows": (row,), "verdict": "regressed", "findings": (), "floors": floors, "function": None}
    brief = make_brief(record_002.replace(**(update | {"explanation": Explanation(headline="", time=spent)})))
    assert (brief.why == "50 ms more in it") == named


@pytest.mark.parametrize("is_beyond_run", [True, False])
def test_a_function_that_differs_beyond_the_run_alone_has_the_place_where_the_programs_differ(
    is_beyond_run: bool, record_002: ComparisonRecord, make_row: MakeRow
) -> None:
    said = "another function: mu.w differs by 3 in float64 at a state that no run reached, weights × 0.001"
    row = make_row("function", "Function of the step", ("", "", ""), "changed", said)
    another = FunctionComparison(answer="another", sentence=said, claim=said, is_beyond_run=is_beyond_run)
    update = {"rows": (row,), "verdict": "changed", "findings": (), "function": another, "floors": (OTHER_PROGRAM,)}
    why = make_brief(record_002.replace(**(update | {"explanation": None}))).why
    assert ("model/layers.py:32" in why) == is_beyond_run


def test_the_root_leads_and_its_commit_is_why(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    root = Root(kind="constant", file="model/layers.py", line=32, sentence="add at model/layers.py:32: 1e-05 is 2e-05")
    tensors = TensorComparison(sentence=f"the first that differs: {root.sentence}", first=root, roots=(root,))
    line = CodeLine(file=root.file, line=root.line, commit="f9ff970c4 Another epsilon")
    loss = make_row("loss_per_step", "Loss, step by step", ("8.79", "8.80", "0.01"), "changed", "the loss differs")
    gap = ResultGap(state="step 0", role="metric", meaning="loss", float64=0.1, as_run=0.1)
    claim = "another function: loss differs by 0.1 in float64"
    another = FunctionComparison(answer="another", sentence=f"{claim}; as run", claim=claim, gaps=(gap,))
    found = {"rows": (loss,), "verdict": "changed", "findings": (), "function": another, "explanation": None}
    record = record_002.replace(**found)
    assert make_brief(record).sentence == f"A{claim[1:]}."
    explanation = Explanation(headline=tensors.sentence, tensors=tensors, lines=(line,))
    brief = make_brief(record.replace(explanation=explanation))
    assert brief.sentence == f"Another function, by up to 10.0 %: {root.sentence}."
    assert brief.why == line.commit
    setting = Finding(kind="config", effect="qualifies", message="adam_b2 differs (0.95 and 0.951)")
    unmoved = explanation.replace(lines=())  # the line is as it was: its value comes from the config
    changed = record.replace(explanation=unmoved, findings=(setting,))
    assert make_brief(changed).why == setting.message


def test_numbers_have_three_significant_digits(make_row: MakeRow) -> None:
    shown = [show_number(value) for value in (1_104_000_000.0, 2_000_000.0, 12_500.0, 0.0794712, 13.4361, 0.0)]
    assert shown == ["1.10 G", "2.00 M", "12,500", "0.0795", "13.4", "0"]
    step = make_row("step_time_s", "Step time", ("0.0800", "0.0935", "0.0135"), "regressed", "", unit="s")
    assert (show_values(step), show_percent(step)) == ("80.0 → 93.5 ms", "+16.9 %")
    same = make_row("loss", "Loss", ("6.867", "6.867", "0"), "same", "")
    assert (show_values(same), show_percent(same)) == ("6.867", "")
    near = make_row("loss", "Loss", ("8.4590", "8.4580", "-0.001"), "same", "")
    assert (show_values(near), show_percent(near)) == ("8.4590 → 8.4580", "-0.01 %")
    broken = make_row("loss", "Loss", ("6.867", "nan", "—"), "regressed", "").replace(candidate=nan)
    assert (show_values(broken), show_percent(broken)) == ("6.867 → nan", "")
    large = make_row("parameters", "Parameters", ("0.001 billion",) * 2 + ("—",), "same", "")
    large = large.replace(baseline=1e6, candidate=1e6)
    assert (show_sides(large), show_values(large)) == (("1.00 M", "1.00 M"), "1.00 M")
    noted = make_row("stall_s", "Stalls", ("6.0 (2 × checkpoint)", "", "—"), "not judged", "", unit="s")
    assert show_sides(noted) == ("6.0 (2 × checkpoint)", "")


def test_a_title_ends_at_a_clause_and_a_short_one_is_complete() -> None:
    assert shorten_title("no difference") == "no difference"
    long = "not comparable: both logs claim commit 574ad3fb9, but ran different code on different JAX: 4 of the same"
    assert shorten_title(f"{long} messages come from other lines") == long.rpartition(":")[0]


def test_the_innermost_frame_is_the_place_of_the_error() -> None:
    lines = [
        '  File "/a/b/maxtext/train.py", line 536, in main',
        '  File "/a/b/maxtext/utils/loop.py", line 7, in step',
    ]
    assert find_frame(lines) == "maxtext/utils/loop.py:7 in step"
    assert find_frame(["no traceback"]) == ""


@pytest.mark.parametrize(
    ("verdict", "evidence", "interval", "words"),
    [
        # 22.1 % is 11 thresholds, 2.5 % is one and a quarter
        (
            "regressed",
            "one run of each",
            (0.221, 0.270),
            "Likely: at least +22.1 %",
        ),
        (
            "improved",
            "one run of each",
            (-0.060, -0.025),
            "Likely: at least -2.5 %",
        ),
        ("regressed", "3 runs of each", (0.221, 0.270), "Sure: +22.1 … +27.0 %"),
        ("same", "3 runs of each", (-0.016, 0.018), "Sure: -1.6 … +1.8 %"),
        (
            "unknown",
            "one run of each",
            (-0.078, 0.062),
            "Not sure: with 99 % confidence, the difference lies within -7.8 … +6.2 %",
        ),
    ],
)
def test_a_verdict_states_its_certainty(
    record_002: ComparisonRecord,
    make_row: MakeRow,
    verdict: str,
    evidence: str,
    interval: tuple[float, float],
    words: str,
) -> None:
    reported = {
        "evidence": evidence,
        "effect": sum(interval) / 2,
        "effect_low": interval[0],
        "effect_high": interval[1],
    }
    limit = {"threshold": 0.002, "threshold_text": "±2 %", "baseline": 0.1}
    row = make_row("step_time_s", "Step time", ("0.1", "0.1", "0"), verdict, "").replace(**(reported | limit))
    sure = tell_certainty(record_002.replace(findings=()), row)
    assert sure.startswith(words)
    assert ("cannot show" in sure) is (evidence == "one run of each" and verdict != "unknown")


def test_saves_that_are_counted_on_disk_do_not_stand_in_the_logs(record_002: ComparisonRecord) -> None:
    row = next(row for row in record_002.rows if row.baseline_source is not None)
    lost = row.replace(metric="checkpoints", baseline=2.0, candidate=1.0)
    assert "logs" not in tell_certainty(record_002, lost)


def test_levels_far_from_the_judged_values_are_not_drawn(record_002: ComparisonRecord) -> None:
    """Other work on the processor makes every step longer than the step time that is judged."""
    row = next(row for row in record_002.rows if row.metric == "step_time_s")
    assert row.baseline is not None
    assert row.candidate is not None

    def strips(factor: float) -> list[Strip]:
        return [
            Strip(side=side, name=side, levels=(Level(seconds=factor * value, share=1.0, steps="all steps"),))
            for side, value in (("baseline", row.baseline), ("candidate", row.candidate))
        ]

    assert _agree(strips(1.1), row)
    assert not _agree(strips(2.0), row)


def test_a_trained_comparison_tells_what_was_not_tried(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    steps = max(curve.steps[-1] for curve in record_002.curves) + 1
    told = make_brief(record_002.replace(function=None, equal_by_construction="", floors=())).not_tried
    assert told.startswith(f"Trained for {steps} steps; not tried: later steps, other seeds, other cases, ")
    assert told.endswith("restarts and the steps in float64.")
    restored = make_row("restored", "Restored", ("equal", "equal", ""), "same", "")
    tried = record_002.replace(function=SAME, rows=(*record_002.rows, restored))
    assert "float64" not in make_brief(tried).not_tried
    assert "restarts" not in make_brief(tried).not_tried
    assert make_brief(record_002.replace(not_tried="nothing was trained")).not_tried == "Nothing was trained."


def test_a_certain_same_without_a_next_step_leaves_nothing_to_do(record_002: ComparisonRecord) -> None:
    same = record_002.replace(verdict="same", findings=(), next_step=None)
    assert make_brief(same).done
    doubted = same.replace(coverage=ChangeCoverage(lines=1, files=1, doubts=("a line did not run",)))
    assert not make_brief(doubted).done
    assert not make_brief(same.replace(verdict="regressed")).done
