"""Prefect artifacts: short enough, all strings, and without active content in Prefect's UIs."""

import base64
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tasks.publish.content.chart import draw_changes, draw_curve
from tasks.publish.content.verdict_words import difference_text
from tasks.publish.markdown.artifacts import artifact_key, summary_description, summary_markdown, table_rows
from tasks.records import ComparisonRecord, Curve, MetricDiff, NextStep

SVG = "{http://www.w3.org/2000/svg}"


@given(st.lists(st.text(), max_size=4))
def test_a_key_has_only_characters_that_prefect_allows(parts: list[str]) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", artifact_key(*parts))
    assert len(artifact_key(*parts)) <= 100


def test_a_key_stays_readable_and_shortened_names_stay_distinct() -> None:
    assert artifact_key("compare", "linen-vs-nnx", "01_base") == "compare-linen-vs-nnx-01-base"
    assert len({artifact_key(name) for name in ("feat/x", "feat:x", "feat-x", "Feat-x", "x" * 200, "x" * 201)}) == 6


def images(markdown: str) -> list[ElementTree.Element]:
    found = re.findall(r"!\[[^\]]+\]\(data:image/svg\+xml;base64,([^)]+)\)", markdown)
    return [ElementTree.fromstring(base64.b64decode(data)) for data in found]


class Permissive(MarkdownIt):
    """Parse every address as a link or image: the default refuses SVG images, and would miss links that other renderers
    draw.
    """

    def validateLink(self, url: str) -> bool:
        return True


def table_rows_of(tokens: Sequence[Token]) -> list[list[Token]]:
    starts = [i for i, token in enumerate(tokens) if token.type == "tr_open"]
    rows = [list(tokens[a:b]) for a, b in pairwise([*starts, len(tokens)])]
    return [row for row in rows if any(token.type == "td_open" for token in row)]


def cells(line: str) -> list[str]:
    """The cells of a Markdown table line, unescaped."""
    parts = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    return [re.sub(r"\\(.)", r"\1", part).strip() for part in parts]


def test_the_summary_has_every_row_right_aligned(record_002: ComparisonRecord) -> None:
    markdown = summary_markdown(record_002)
    assert markdown.startswith("# ? unknown: 03\\_dropout\n")
    table = [cells(line) for line in markdown.splitlines() if line.startswith("| ")]
    for row in record_002.rows:
        title = f"{row.title} ({row.unit})" if row.unit and row.group == "ours" else row.title
        line = next(line for line in table if line[1] == title)
        assert line[2:5] == [row.baseline_text, row.candidate_text, difference_text(row)]
        assert row.verdict in line[0]
    assert "|:--|:--|--:|--:|--:|--:|" in markdown


def test_a_long_label_does_not_move_the_figures_out_of_view(
    record_000: ComparisonRecord, record_002: ComparisonRecord
) -> None:
    def heading(record: ComparisonRecord) -> list[str]:
        return next(cells(line) for line in summary_markdown(record).splitlines() if line.startswith("| verdict"))

    assert heading(record_002) == ["verdict", "metric", "main · 574ad3fb9", "candidate", "difference", "threshold"]
    assert heading(record_000)[2:4] == ["Linen · 147168c3a", "NNX · 1b5e4eb5a"]


def test_the_description_is_markdown_too(record_002: ComparisonRecord, hostile: str) -> None:
    assert summary_description(record_002).startswith("? unknown: not comparable: both sides are commit 574ad3fb9")
    spoilt = summary_description(record_002.model_copy(update={"headline": hostile}))
    (block,) = [token for token in Permissive("commonmark").parse(spoilt) if token.type == "inline"]
    assert {part.type for part in block.children or ()} <= {"text", "text_special"}


def test_the_summary_of_a_dead_arm_names_its_cause(record_000: ComparisonRecord, page_000: Any) -> None:
    markdown = summary_markdown(record_000)
    line = page_000.line("NNX", "NotImplementedError:")
    assert (
        f"died: not implemented: NotImplementedError: Pure NNX support has not been implemented yet. (line {line} "
        in markdown
    )
    line = next(cells(line) for line in markdown.splitlines() if line.startswith("| ") and "TFLOP/s" in line)
    assert line == ["· not judged", "TFLOP/s", "191.408", "–, died", "—", "—"]  # 13.59 / 0.071 s


def test_the_charts_are_white_images_that_load_nothing(record_002: ComparisonRecord) -> None:
    markdown = summary_markdown(record_002)
    drawn = images(markdown)
    assert len(drawn) == 3  # changes, losses, times
    for image in drawn:
        text = ElementTree.tostring(image, encoding="unicode")
        assert image.get("width") == "760"
        assert not list(image.iter(f"{SVG}script"))
        assert "background-color:#ffffff" in text
        assert not re.search(r"(href|src)=", text)
    words = " ".join(drawn[0].itertext())
    assert "Memory % +0.13 ✗ regressed" in re.sub(r"\s+", " ", words)
    assert "? unknown" in words


def test_bars_point_to_the_worse_side_and_stop_at_the_edge(record_002: ComparisonRecord) -> None:
    svg = ElementTree.fromstring(draw_changes(record_002) or "")
    values = [float((d.text or "").removesuffix(" ×")) for d in svg.iter(f"{SVG}desc") if d.get("class") == "value"]
    # from the bottom, lower is better for all: losses, −0.001 of ±0 but the same up to rounding; the steady step, 0.070
    # against 0.071 of ±2 % of the typical steps; memory, 1.44 against 1.31 of ±0.005; the final loss
    middle = (0.071 * 0.071 * 0.075 * 0.076) ** (1 / 4)
    assert values == pytest.approx([0, -0.001 / (0.02 * middle), 3.0, 0], rel=1e-4)


def test_without_data_there_is_no_image(record_000: ComparisonRecord) -> None:
    bare = record_000.model_copy(update={"curves": (), "rows": (), "times": ()})
    assert draw_changes(bare) is None
    assert draw_curve(bare, "loss") is None
    assert images(summary_markdown(bare)) == []


def test_a_long_run_does_not_enlarge_the_summary(record_002: ComparisonRecord) -> None:
    count = 50_000
    places = tuple(range(count))
    curves = tuple(
        Curve(
            metric="loss",
            arm=arm.name,
            run_name="r",
            steps=places,
            values=tuple(10 - i / count for i in places),
            lines=places,
            offsets=places,
        )
        for arm in (record_002.baseline, record_002.candidate)
    )
    assert len(summary_markdown(record_002.model_copy(update={"curves": curves}))) < 200_000


def test_hostile_text_is_text_in_the_summary(record_002: ComparisonRecord, hostile: str) -> None:
    findings = tuple(f.model_copy(update={"message": hostile}) for f in record_002.findings)
    rows = tuple(row.model_copy(update={"reason": hostile, "title": hostile}) for row in record_002.rows)
    record = record_002.model_copy(
        update={
            "headline": hostile,
            "case": hostile,
            "findings": findings,
            "rows": rows,
            "next_step": NextStep(kind="by hand", argv=(hostile,), purpose=hostile),
            "candidate": record_002.candidate.model_copy(update={"label": hostile}),
        }
    )
    markdown = summary_markdown(record)
    tokens = Permissive("commonmark").enable("table").parse(markdown)
    parts = [part for token in tokens for part in (token, *(token.children or ()))]
    assert not [part for part in parts if part.type.startswith(("html", "link"))]
    assert [part.attrs["src"][:5] for part in parts if part.type == "image"] == ["data:"] * 3
    assert len([part for part in parts if part.type == "code_inline"]) == 1
    command, *others = sorted(markdown.splitlines(), key=lambda line: not line.startswith("`` "))
    assert "http://evil" in command
    assert "http://evil" not in "\n".join(others)  # Prefect's UIs turn bare addresses into links
    columns = [sum(token.type == "td_open" for token in row) for row in table_rows_of(tokens)]
    assert set(columns) == {6}
    assert len(columns) == len(record.rows)


def test_table_rows_are_strings_with_the_worst_first(
    record_000: ComparisonRecord, record_002: ComparisonRecord
) -> None:
    rows = table_rows([record_002, record_000])
    assert len(rows) == len(record_000.rows) + len(record_002.rows)
    assert all(isinstance(value, str) and value for row in rows for value in row.values())
    verdicts = [row["verdict"].split()[1] for row in rows]
    assert verdicts == sorted(verdicts, key=["regressed", "changed", "unknown", "improved", "same", "not"].index)
    dead = next(row for row in rows if row["metric"] == "Memory %" and row["case"] == "11_optimizer_offload_false")
    assert (dead["baseline"], dead["candidate"]) == ("1.31", "–, died")


def test_infinity_is_a_word(record_002: ComparisonRecord, make_row: type[MetricDiff]) -> None:
    row = record_002.rows[1].model_copy(
        update={
            "candidate": float("inf"),
            "candidate_text": "inf",
            "difference": float("inf"),
            "difference_text": "inf",
        }
    )
    record = record_002.model_copy(update={"rows": (row,)})
    assert table_rows([record])[0]["candidate"] == "inf"
    assert draw_changes(record) is None


def test_metrics_in_neither_log_share_one_line(record_002: ComparisonRecord) -> None:
    markdown = summary_markdown(record_002.model_copy(update={"absent": ("Memory %", "Program memory")}))
    assert markdown.splitlines().count("No value on either side: Memory %, Program memory.") == 1
    assert "No value" not in summary_markdown(record_002.model_copy(update={"absent": ()}))
