"""How long a step takes is one number on every surface, in every comparison of the example site."""

import json
import re
from pathlib import Path

import pytest

from tasks.diff.examine.arms import ArmRuns
from tasks.diff.judge.conclude import decide_overall
from tasks.diff.judge.next_step import PER_STEP, find_time_row
from tasks.diff.phrases.headlines import tell_headline
from tasks.publish.content.brief import make_brief
from tasks.publish.content.row_values import show_percent
from tasks.publish.markdown.artifacts import summary_markdown
from tasks.publish.page.write_page import write_page
from tasks.publish.site.index import index_comparison
from tasks.publish.terminal.report import render_brief
from tasks.records.compared_case import ComparisonRecord
from tasks.services.prefect_ui import tell_outcomes
from tests.example.example_logs import example_pairs
from tests.wording.surfaces import compare_pair_of

pytestmark = pytest.mark.long

PERCENT = r"([+-]?[\d.,]+ %|under [\d.]+ %)"
# a row or a headline: "Step time of runs  80.0 → 93.5 ms  +16.9 %"; a sentence: "16.9 % slower per step"
NAMED = re.compile(rf"\b(?:Step time|CPU time)[^|;%()]*?(?:\|[^|%]*\|\s*|\s){PERCENT}")
SAID = re.compile(rf"{PERCENT} (?:slower|quicker) per")


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[ComparisonRecord]:
    return [compare_pair_of(pair, tmp_path_factory.mktemp("logs")) for pair in example_pairs()]


def numbers_in(text: str) -> set[str]:
    """The percentages of step times in a text, without their signs."""
    text = " ".join(text.replace("\u00a0", " ").replace("\\", "").split())
    return {found.lstrip("+-") for pattern in (NAMED, SAID) for found in pattern.findall(text)}


def test_the_example_has_times_that_differ_and_times_that_do_not(records: list[ComparisonRecord]) -> None:
    words = [row.verdict for record in records if (row := find_time_row(record.rows, record.verdict))]
    assert len(records) == len(words) > 20
    assert {"same", "regressed"} <= set(words)


def with_other_times(record: ComparisonRecord) -> ComparisonRecord:
    """The record with the program's time and the processor's time beside the runs' time, by other numbers."""
    row = next(row for row in record.rows if row.metric == "step_time_s")
    others = [
        row.replace(
            metric=name,
            title=title,
            effect=effect,
            effect_text=f"{100 * effect:+.1f} % (-1.0 … +9)",
            effect_short=f"{100 * effect:+.1f} %",
        )
        for name, title, effect in (
            ("program_step_s", "Step time of the program", 0.0666),
            ("step_cpu_time_s", "CPU time per step", 0.0777),
        )
    ]
    return record.replace(rows=(*others, *record.rows))


@pytest.mark.parametrize("metric", PER_STEP)
def test_a_headline_has_one_number(metric: str, records: list[ComparisonRecord]) -> None:
    record = with_other_times(next(one for one in records if one.verdict == "regressed" and not one.has_died))
    arms = (ArmRuns(name="a", label="main", runs=()), ArmRuns(name="b", label="x", runs=()))
    rows = [row.replace(verdict="regressed") for row in record.rows if row.metric in PER_STEP]
    rows.sort(key=lambda row: row.metric != metric)  # in any order
    headline = tell_headline(decide_overall(arms, (), rows, ()))
    shown = find_time_row(rows, "regressed")
    assert shown is not None
    assert re.findall(PERCENT, headline) == [show_percent(shown)]


def test_every_surface_has_the_same_number(records: list[ComparisonRecord], tmp_path: Path) -> None:
    seen = 0
    for number, record in enumerate([*records, *map(with_other_times, records)]):
        row = find_time_row(record.rows, record.verdict)
        assert row is not None
        shown = show_percent(row).lstrip("+-")
        surfaces = {
            "terminal": "\n".join(line.plain for line in render_brief(record, 200, bars=False)),
            "markdown": summary_markdown(record),
            "json": json.loads(record.model_dump_json())["headline"],
            "prefect": tell_outcomes([record]),
            "brief": make_brief(record).sentence,
        }
        page = write_page(record, tmp_path / str(number), log_lines={}).read_text()
        title = re.search(r'<h1 id="headline"[^>]*>(.*?)</h1>', page)
        assert title is not None
        surfaces["page"] = title[1]
        rows = [name for name in PER_STEP if re.search(rf'<tr [^>]*id="m-{name}"', page)]
        assert rows == [row.metric]
        for name, text in surfaces.items():
            found = numbers_in(text)
            assert found <= {shown}, (record.case, name, text)
            seen += len(found)
        assert index_comparison(record).effect == (
            None if row.effect is None else pytest.approx(row.effect, rel=0.01, abs=1e-4)
        )
    assert seen > 40


def test_every_row_of_a_brief_has_the_same_numbers_on_every_surface(
    records: list[ComparisonRecord], tmp_path: Path
) -> None:
    """Not only times: parameters, losses, memory. JSON has the unrounded values."""
    seen: set[str] = set()
    for number, record in enumerate(records):
        brief = make_brief(record)
        terminal = _plain("\n".join(line.plain for line in render_brief(record, 200, bars=False)))
        markdown = _plain(summary_markdown(record).replace("\\", ""))
        page = write_page(record, tmp_path / str(number), log_lines={}).read_text()
        stored = {row["metric"]: row for row in json.loads(record.model_dump_json())["rows"]}
        for row in brief.rows:
            for surface in (terminal, markdown):
                assert _plain(f"{row.values} {row.percent}") in surface.replace(" |", ""), (record.case, row)
            cells = re.search(rf'<tr [^>]*id="m-{row.metric}".*?</tr>', page, re.DOTALL)
            assert cells is not None, row
            shown = _plain(re.sub(r"<[^>]+>", " ", cells[0]))
            assert row.percent in shown, (record.case, row)
            values = [float(value) for value in re.findall(r"-?[\d.]+", row.values)]
            left, right = stored[row.metric]["baseline"], stored[row.metric]["candidate"]
            if row.percent and left and right and len(values) == 2:
                assert values[1] / values[0] == pytest.approx(right / left, rel=0.01)  # three digits are shown
            seen.add(row.metric)
    assert {"step_time_s", "parameters", "loss_per_step"} <= seen


def _plain(text: str) -> str:
    return " ".join(text.replace("\u00a0", " ").split())
