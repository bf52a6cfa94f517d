"""The terminal report has everything in words, at 80 columns, with or without colours."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tasks.diff.judge.next_step import find_deciding_row
from tasks.publish.content.brief import tell_certainty
from tasks.publish.content.typed_command import as_typed
from tasks.publish.content.verdict_words import AGAIN, difference_text, name_row, without_sides
from tasks.publish.terminal.report import print_comparison
from tasks.records.compared_case import ComparisonRecord, Curve, MetricDiff
from tasks.records.next_step import NextStep
from tests.wording.sentences import Wording


def report(
    record: ComparisonRecord,
    width: int = 80,
    colour: bool = False,
    page: str | None = "out/index.html",
    full: bool = True,
) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None)
    print_comparison(console, record, page=page, full=full)
    return out.getvalue()


def flat(text: str) -> str:
    """The report without line folding."""
    return re.sub(r"\s+", " ", text)


def table_line(text: str, title: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{title}  "))


def test_no_line_is_wider_than_the_terminal(record_000: ComparisonRecord, record_002: ComparisonRecord) -> None:
    for record in (record_000, record_002):
        for width in (60, 80, 200):
            lines = report(record, width).splitlines()
            copied = ("        maxview", "        uv run", "  next  ", "  line ")
            reported = [line for line in lines if not line.startswith(copied)]
            assert max(map(len, reported)) <= width


def test_no_number_is_broken_at_80_columns(record_002: ComparisonRecord) -> None:
    wide = {"baseline_text": "0.2496 ± 0.0233", "candidate_text": "0.3337 ± 0.0084", "difference_text": "+0.0842"}
    row = record_002.rows[0].replace(
        **(wide | {"effect_text": "+33.7 % (-40.7 … +201.5)", "group": "ours", "title": "A long name of a metric"})
    )
    lines = report(record_002.replace(rows=(*record_002.rows, row))).splitlines()
    for number in ("0.2496 ± 0.0233", "0.3337 ± 0.0084", "+33.7 %", "(-40.7 … +201.5)"):
        assert any(number in line for line in lines), number
    assert max(len(line) for line in lines if not line.startswith("next: ")) <= 80


def test_the_verdict_comes_first_and_the_next_command_last(record_002: ComparisonRecord, wording: Wording) -> None:
    lines = report(record_002).strip().splitlines()
    assert lines[0].startswith("? UNKNOWN")
    assert flat("\n".join(lines[1:5])).strip().lower().find(record_002.headline) >= 0
    assert "  page  out/index.html" in lines
    assert record_002.next_command == ""  # the two cannot be compared: other logs are needed
    wording("next_steps", flat("\n".join(lines[-3:])).partition("next ")[2])
    lines = (
        report(record_002.replace(next_step=NextStep(kind="by hand", argv=("maxview", "history")))).strip().splitlines()
    )
    assert lines[-1] == f"  next  {as_typed('maxview history')}"


def test_it_says_how_sure_the_verdict_is(record_000: ComparisonRecord, record_002: ComparisonRecord) -> None:
    assert tell_certainty(record_002, find_deciding_row(record_002)) in flat(report(record_002))
    died = flat(report(record_000))
    assert tell_certainty(record_000, None) in died
    assert f"again {AGAIN['not_implemented']}" in died


def test_a_path_and_a_command_are_one_line_each(record_002: ComparisonRecord) -> None:
    """A line break inside a command would split it when it is pasted."""
    command = f"maxview compare linen-vs-nnx --out {'/a-long-folder' * 6} --until-decided"
    lines = (
        report(
            record_002.replace(next_step=NextStep(kind="until decided", argv=tuple(command.split()))),
            page="o/" * 60,
        )
        .strip()
        .splitlines()
    )
    assert [line for line in lines if line.startswith(("  page", "  next"))] == [
        f"  page  {'o/' * 60}",
        f"  next  {as_typed(command)}",
    ]


SIGNS = {"same": "=", "improved": "✓", "regressed": "✗", "changed": "≠", "unknown": "?", "not judged": "·"}


def test_every_row_of_the_record_is_in_the_table(record_002: ComparisonRecord) -> None:
    text = report(record_002, width=200)
    assert record_002.rows
    for row in without_sides(record_002).rows:
        title = name_row(row)
        line = table_line(text, title)
        assert re.split(r"\s{2,}", line.strip()) == [
            title,
            row.baseline_text,
            row.candidate_text,
            difference_text(row),
            f"{SIGNS[row.verdict]} {row.verdict}",
        ]


def test_a_row_of_single_steps_has_the_pages_word_and_headings_are_complete(
    record_002: ComparisonRecord, make_row: Callable[..., MetricDiff]
) -> None:
    single = make_row("tokens_per_s", "Tok/s", ("2054.9", "1883.5", "-171.4"), "not judged", "see the steady steps")
    cells = ("0.0800 ± 0.0002", "0.0865 ± 0.0001", "+0.0065")
    steady = make_row("step_time_s", "Step time, steady", cells, "regressed", "surely slower", group="ours")
    for width in (80, 100):
        text = report(record_002.replace(rows=(single, steady)), width)
        assert re.split(r"\s{2,}", table_line(text, "Tok/s").strip())[-1] == "· not judged"
        assert "✗ Tok/s" not in text
        assert "\nSpeed\n" in text


def test_a_row_that_is_not_the_same_has_its_reason_and_threshold(
    record_002: ComparisonRecord, make_row: Callable[..., MetricDiff]
) -> None:
    text = flat(report(record_002))
    assert "? Step time, steady: steady steps -1.4 %" in text  # 0.070 s against 0.071 s
    assert re.search(r"≠ Memory %: .*? \[threshold ±0.005\]", text)
    texts = ("0.076", "0.071", "-0.005")
    row = make_row("median_step", "Median step", texts, "improved", "why", better="lower", threshold=0.0015, unit="s")
    text = flat(report(record_002.replace(rows=(row,), findings=())))
    assert "✓ Median step: why [threshold ±0.0015 s]" in text  # a threshold without words, in the metric's unit


def test_a_dead_arm_leaves_no_cell_blank_and_its_cause_is_shown(record_000: ComparisonRecord, page_000: Any) -> None:
    text = report(record_000)
    cells = ["TFLOP/s", "191.408", "–, died", "—", "· not judged"]  # 13.59 / 0.071 s
    assert re.split(r"\s{2,}", table_line(text, "TFLOP/s")) == cells
    assert "died before its first step: not implemented." in flat(text)
    cause = record_000.candidate.cause_of_death
    assert cause is not None
    assert f"    {cause.type}: {cause.message}" in text.splitlines()
    (log,) = record_000.candidate.logs
    assert f"  line {page_000.line('NNX', 'NotImplementedError:')} of {log}" in text.splitlines()


def test_the_values_of_a_long_error_are_shown(record_000: ComparisonRecord, tmp_path: Path) -> None:
    """A restore that casts: its message ends with the array's values before and after."""
    end = "float32, norm 0.0329683908 → 0.0329644199, every value rounded to bfloat16"
    log = tmp_path / "log.txt"
    log.write_text(f"Training stopped: the state restored after step 4 is not the saved one: {'x/' * 45}scale: {end}\n")
    cause = record_000.candidate.cause_of_death
    assert cause is not None
    died = record_000.candidate.replace(
        logs=(str(log),), cause_of_death=cause.replace(run=0, offset=0, type="StopTraining", message="")
    )
    assert end in flat(report(record_000.replace(candidate=died)))


def test_a_death_without_a_cause_is_shown_too(record_000: ComparisonRecord) -> None:
    silent = record_000.candidate.replace(cause_of_death=None, exit_code=137)
    text = flat(report(record_000.replace(candidate=silent)))
    assert "† candidate: its log names no cause" in text


def test_findings_are_in_the_order_of_their_weight(record_002: ComparisonRecord) -> None:
    note = record_002.findings[0].replace(kind="started-apart", effect="note")
    shuffled = record_002.replace(findings=(note, *reversed(record_002.findings)))
    text = report(shuffled)
    assert text.index("✗ blocks") < text.index("! qualifies") < text.index("· note")


def test_floors_and_checkpoints_are_named_with_their_state(
    record_000: ComparisonRecord, record_002: ComparisonRecord
) -> None:
    text = report(record_002)
    assert re.search(r"^\? same program +no StableHLO", text, re.MULTILINE)
    assert re.search(r"^✗ same bits +step 4: 8.459 and 8.458", text, re.MULTILINE)
    assert re.search(r"^\? not proved \(announced\) +baseline 0: ", text, re.MULTILINE)
    assert re.search(r"^✓ content recorded +baseline 0 *$", report(record_000), re.MULTILINE)
    assert "9/commit_success.txt: missing: " in flat(report(record_000))


def test_a_long_branch_name_is_folded_not_cut(record_002: ComparisonRecord) -> None:
    name = "feat/" + "a-very-long-name-" * 12
    branch = record_002.candidate.replace(name=name, label=name, branch=name)
    text = report(record_002.replace(candidate=branch))
    assert name in re.sub(r"\s+", "", text)
    assert max(len(line) for line in text.splitlines() if not line.startswith("next: ")) <= 80


def test_colours_only_repeat_the_words(record_002: ComparisonRecord) -> None:
    coloured = re.sub(r"\x1b\[[0-9;]*m", "", report(record_002, colour=True))
    assert coloured == report(record_002)


def test_hostile_text_is_printed_as_text(record_002: ComparisonRecord, hostile: str) -> None:
    record = record_002.replace(
        headline=hostile,
        case=hostile,
        candidate=record_002.candidate.replace(label=f"[bold]{hostile}", branch=hostile),
        rows=tuple(row.replace(reason=hostile) for row in record_002.rows),
    )
    text = report(record)
    assert "\x1b" not in text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "[bold]</script>" in text


@pytest.mark.parametrize("page", [None, "a/b.html"])
def test_the_page_is_named_only_if_it_exists(record_002: ComparisonRecord, page: str | None) -> None:
    assert ("  page  " in report(record_002, page=page)) == (page is not None)


def test_metrics_in_neither_log_share_one_line(record_002: ComparisonRecord) -> None:
    text = report(record_002.replace(absent=("Memory %", "Program memory")))
    assert flat(text).count(": Memory %, Program memory.") == 1


def test_the_brief_has_at_most_twenty_lines(record_000: ComparisonRecord, record_002: ComparisonRecord) -> None:
    for record in (record_000, record_002):
        lines = report(record, full=False).splitlines()
        assert len(lines) <= 20
        assert "(--full)" in "\n".join(lines)
        assert not any(line.endswith(" ") for line in lines)


def test_levels_of_step_times_are_bars_in_a_terminal_only(record_002: ComparisonRecord) -> None:
    """The candidate's steps take 80 and 100 ms in turns of three; the baseline's all take 80 ms."""
    row = next(row for row in record_002.rows if row.metric == "step_time_s")
    slow = {"verdict": "regressed", "effect": 0.25, "effect_low": 0.2, "effect_high": 0.3, "evidence": "3 runs of each"}
    steps = tuple(range(31))
    curves = []
    for arm in (record_002.baseline, record_002.candidate):
        values = [0.1 if arm is record_002.candidate and step % 3 else 0.08 for step in steps]
        given = {"metric": "step_time_s", "arm": arm.name, "run_name": arm.runs[0], "lines": steps, "offsets": steps}
        curves.append(Curve(steps=steps, values=tuple(values), **given))
    update = {"verdict": "regressed", "rows": (row.replace(**slow),), "findings": (), "stalls": {}}
    record = record_002.replace(**(update | {"curves": tuple(curves)}))
    drawn, plain = (report(record, colour=colour, full=False) for colour in (True, False))
    assert "█" in drawn
    assert "█" not in plain
    assert re.search(r"80 ms every third step +100 ms the others", plain)
    assert "25.0 % slower per step of the runs" in flat(plain)  # the row's number, not another one of the levels
