"""Every surface shows the explanation in one order, and escapes text from sources."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tasks.publish.content.explanation_sections import list_sections
from tasks.publish.markdown.artifacts import summary_markdown
from tasks.publish.page.write_page import write_page
from tasks.publish.terminal.report import render_details, render_explanation
from tasks.records.compared_case import ComparisonRecord
from tasks.records.explanation import (
    CodeLine,
    Explanation,
    InputDifference,
    LiveBuffer,
    MemoryExplanation,
    OperationDifference,
    ProgramExplanation,
    TimeDifference,
    TimeExplanation,
)
from tasks.records.observation import Root, TensorComparison

HERE = CodeLine(file="layers/norms.py", line=74, function="RMSNorm.__call__", path="/a/layers/norms.py")
TITLES = ["the first tensor", "the program", "memory", "time", "the commits", "not looked at"]


@pytest.fixture
def explanation() -> Explanation:
    root = Root(kind="constant", file=HERE.file, line=74, sentence="add <script> at layers/norms.py:74: 1e-5 is 1e-4")
    row = OperationDifference(
        sentence="nnx alone computes 8 × convert bf16 → f32[4,256,64]",
        phase="forward",
        candidate=("8 × convert bf16 → f32[4,256,64]",),
        candidate_line=HERE,
    )
    slow = TimeDifference(
        what="dot_general", baseline_s=0.001, candidate_s=0.003, candidate_line=HERE, sentence="nnx takes 2.00 ms more"
    )
    buffer = LiveBuffer(what="f32[4]", baseline_bytes=0, candidate_bytes=3 * 2**20, candidate_line=HERE)
    given = InputDifference(name="parameter w", baseline="f32[4] (fsdp), donated", candidate="f32[4]")
    return Explanation(
        headline="the first that differs is an epsilon",
        tensors=TensorComparison(sentence="equal up to mlpwi_1 of layer 1", first=root, roots=(root,)),
        program=ProgramExplanation(
            answer="differs", sentence="differs at 1 place", hashes=("a", "b"), operations=(row,), inputs=(given,)
        ),
        memory=MemoryExplanation(sentence="3 MiB more", peak_bytes=(0, 3 * 2**20), buffers=(buffer,)),
        time=TimeExplanation(
            sentence="nnx is slower",
            steps=(5, 5),
            step_s=(0.01, 0.012),
            differences=(slow,),
        ),
        lines=(HERE.replace(commit="1a2b3c4d5 Guard the norm"),),
        notes=("linen: no profile",),
    )


def test_the_sections_follow_the_order_of_causes(explanation: Explanation) -> None:
    assert [section.title for section in list_sections(explanation)] == TITLES
    assert list_sections(None) == []


def test_a_line_has_the_commit_that_changed_it(explanation: Explanation) -> None:
    by_title = {section.title: section for section in list_sections(explanation)}
    for title in ("the first tensor", "the program", "time"):
        assert "[1a2b3c4d5 Guard the norm]" in by_title[title].lines[0], title
    assert "0.00 → 3.00 MiB f32[4] at layers/norms.py:74 RMSNorm.__call__" in by_title["memory"].lines


def test_the_terminal_shows_it_before_the_table(record_002: ComparisonRecord, explanation: Explanation) -> None:
    out = io.StringIO()
    record = record_002.replace(explanation=explanation)
    Console(file=out, width=80).print(render_details(record))
    text = re.sub(r"\s+", " ", out.getvalue())
    assert text.index("Why they differ") < text.index("Metric ")
    places = [text.index(title) for title in TITLES]
    assert places == sorted(places)
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_without_an_explanation_no_surface_mentions_it(record_002: ComparisonRecord, tmp_path: Path) -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(render_details(record_002))
    page = write_page(record_002, tmp_path, log_lines={}).read_text()
    for text in (out.getvalue(), summary_markdown(record_002), page):
        assert "Why they differ" not in text


def test_a_comparison_of_two_runs_has_only_the_explanation(explanation: Explanation) -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(render_explanation(explanation))
    assert "Why they differ" in out.getvalue()


def test_the_artifact_and_the_page_show_it(
    record_002: ComparisonRecord, explanation: Explanation, tmp_path: Path
) -> None:
    record = record_002.replace(explanation=explanation)
    assert "\nwhy: " in summary_markdown(record)
    page = write_page(record, tmp_path, log_lines={}).read_text()
    assert '<section id="why"' in page
    assert page.index('id="why"') < page.index('id="sides"')
    assert "f32[4] (fsdp), donated" in page
    assert "add <script>" not in page
    assert "add &lt;script&gt;" in page


def test_a_record_with_an_explanation_can_be_read(record_002: ComparisonRecord, explanation: Explanation) -> None:
    record = record_002.replace(explanation=explanation)
    assert ComparisonRecord.model_validate_json(record.model_dump_json()) == record
