"""Prefect artifacts: short enough, all strings, and without active content in Prefect's UIs."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tasks.publish.content.brief import make_brief
from tasks.publish.content.verdict_words import AGAIN
from tasks.publish.markdown.artifacts import MAX_BYTES, summary_description, summary_markdown
from tasks.publish.markdown.elements import artifact_key
from tasks.records.compared_case import ComparisonRecord, Curve
from tasks.records.next_step import NextStep


@pytest.mark.flows
@given(st.lists(st.text(), max_size=4))
def test_a_key_has_only_characters_that_prefect_allows(parts: list[str]) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", artifact_key(*parts))
    assert len(artifact_key(*parts)) <= 100


def test_a_key_stays_readable_and_shortened_names_stay_distinct() -> None:
    assert artifact_key("compare", "linen-vs-nnx", "01_base") == "compare-linen-vs-nnx-01-base"
    assert len({artifact_key(name) for name in ("feat/x", "feat:x", "feat-x", "Feat-x", "x" * 200, "x" * 201)}) == 6


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


def test_the_summary_begins_with_the_page_and_has_the_deciding_rows(record_002: ComparisonRecord) -> None:
    markdown = summary_markdown(record_002, "https://a.b/index.html")
    assert markdown.startswith("[The page](https://a.b/index.html)\n\n# ? unknown: 03\\_dropout")
    assert not summary_markdown(record_002, "file:///x/index.html").startswith("[")
    table = [cells(line) for line in markdown.splitlines() if line.startswith("| ")]
    brief = make_brief(record_002)
    assert [line[0] for line in table[1:]] == [row.title for row in brief.rows]
    assert len(markdown.encode()) <= MAX_BYTES


def test_the_description_is_markdown_too(record_002: ComparisonRecord, hostile: str) -> None:
    assert summary_description(record_002).startswith("? unknown: Not comparable: ")
    assert " commit 574ad3fb9" in summary_description(record_002)
    spoilt = summary_description(record_002.replace(headline=hostile))
    (block,) = [token for token in Permissive("commonmark").parse(spoilt) if token.type == "inline"]
    assert {part.type for part in block.children or ()} <= {"text", "text_special"}


def test_the_summary_of_a_dead_arm_names_its_cause(record_000: ComparisonRecord) -> None:
    markdown = summary_markdown(record_000)
    assert markdown.count("not implemented") == 1  # its cause stands in the sentence
    cause = record_000.candidate.cause_of_death
    assert cause is not None
    assert f"- {cause.type}: {cause.message}" in markdown
    assert AGAIN["not_implemented"] in markdown
    assert len(markdown.encode()) <= MAX_BYTES


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
    assert len(summary_markdown(record_002.replace(curves=curves))) <= MAX_BYTES


def test_hostile_text_is_text_in_the_summary(record_002: ComparisonRecord, hostile: str) -> None:
    findings = tuple(f.replace(message=hostile) for f in record_002.findings)
    rows = tuple(row.replace(reason=hostile, title=hostile) for row in record_002.rows)
    record = record_002.replace(
        headline=hostile,
        case=hostile,
        findings=findings,
        rows=rows,
        next_step=NextStep(kind="by hand", argv=(hostile,), purpose=hostile),
        candidate=record_002.candidate.replace(label=hostile),
    )
    markdown = summary_markdown(record)
    tokens = Permissive("commonmark").enable("table").parse(markdown)
    parts = [part for token in tokens for part in (token, *(token.children or ()))]
    assert not [part for part in parts if part.type.startswith(("html", "link"))]
    assert not [part for part in parts if part.type == "image"]
    assert len([part for part in parts if part.type == "code_inline"]) == 1
    command, *others = sorted(markdown.splitlines(), key=lambda line: not line.startswith("`` "))
    assert "http://evil" in command
    assert "http://evil" not in "\n".join(others)  # Prefect's UIs turn bare addresses into links
    columns = [sum(token.type == "td_open" for token in row) for row in table_rows_of(tokens)]
    assert set(columns) <= {4}
