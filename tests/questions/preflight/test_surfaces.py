"""A preflight on the surfaces of a comparison: page, terminal, artifact, history."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from configs.verdict_rules import load_verdict_rules
from questions.history.record_rows import history_rows
from questions.preflight.compare_compiles import Compiled, examine_compiles
from tasks.diff.judge.judge_case import judge
from tasks.publish.markdown.artifacts import summary_markdown
from tasks.publish.page.write_page import write_page
from tasks.publish.site.comparison_pages import read_packed_lines
from tasks.publish.terminal.report import print_comparison
from tasks.records.compared_case import ComparisonRecord
from tasks.records.compiled import CompiledProgram
from tasks.records.log_reading import RunReading
from tasks.records.run import RunRecord
from tests.wording.sentences import Wording, line_with

SAMPLES = Path(__file__).parents[2] / "samples" / "preflight"
SIDES = {"linen": "none", "nnx": "gather-in-loop"}


@pytest.fixture(scope="module")
def compiles() -> list[Compiled]:
    return [
        Compiled(
            run=RunRecord(
                plan=None, arm=arm, label=arm, commit=None, log=f"/store/runs/{arm}/log.txt",
                reading=RunReading(format="maxtext", name=arm, exit_code=0),
            ),
            program=CompiledProgram.model_validate_json((SAMPLES / sample / "compile.json").read_bytes()),
            text=(SAMPLES / sample / "optimised.hlo.gz").read_bytes(),
        )
        for arm, sample in SIDES.items()
    ]  # fmt: skip


@pytest.fixture(scope="module")
def record(compiles: list[Compiled]) -> ComparisonRecord:
    rules = load_verdict_rules("linen-vs-nnx", "v6e-32")
    return judge(examine_compiles(*compiles, comparison="linen-vs-nnx", case="01_base", rules=rules))


def test_the_page_links_a_difference_to_its_line(record: ComparisonRecord, tmp_path: Path) -> None:
    lines = {
        f"{arm}/optimised.hlo.gz": read_packed_lines(SAMPLES / sample / "optimised.hlo.gz")
        for arm, sample in SIDES.items()
    }
    html = write_page(record, tmp_path, log_lines=lines).read_text()
    assert record.programs is not None
    source = record.programs.differences[0].candidate_source
    assert source is not None
    assert f'href="#candidate-optimised-L{source.line}"' in html
    shown = (tmp_path / "logs" / "candidate-optimised.txt").read_text().split("\n")[source.line - 1]
    assert " all-gather(" in shown


def test_terminal_and_artifact_name_the_first_difference(record: ComparisonRecord, wording: Wording) -> None:
    console = Console(width=100, file=io.StringIO())
    print_comparison(console, record, full=True)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    wording("parts", line_with(text, "What differs between the programs").partition(" ─")[0])
    assert "all-gather in a loop  head" in text
    assert "The compiled step" in text
    assert re.search(r"Bytes in collectives \(MiB\) +40\.00 +50\.00 +\+25\.0 % ", text)  # 10 of 40
    assert "Bytes in collectives +25.0 %" in text  # 10 of 40
    assert "step lines" not in text  # a compile has no steps
    assert "JAX 0.12.0.1  devices 4" in text
    assert "all-gather in a loop" in summary_markdown(record)


def test_the_history_contains_the_judged_values(record: ComparisonRecord, compiles: list[Compiled]) -> None:
    rows = history_rows(record, [one.run for one in compiles])
    found = {(row["arm"], row["metric"]): row["value"] for row in rows.iter_rows(named=True)}
    assert {metric for _, metric in found} == {"program_memory_gb", "estimated_cycles", "collective_bytes", "kernels"}
    assert found["nnx", "collective_bytes"] > found["linen", "collective_bytes"]
