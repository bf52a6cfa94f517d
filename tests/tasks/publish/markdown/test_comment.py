"""The comment of a comparison: the worst case first, then cases that need attention, with links to published pages."""

import re
from pathlib import Path

from tasks.publish.content.page_address import PublishedPage
from tasks.publish.markdown.comment import comparison_comment, tell_comparisons
from tasks.records.compared_case import ComparisonRecord

SHARED = PublishedPage(
    path=Path("/x"), address="gs://b/p/index.html", link="https://storage.cloud.google.com/b/p/i.html"
)
LOCAL = PublishedPage(path=Path("/x"), address="/x/index.html", link="file:///x/index.html")


def test_the_worst_case_comes_first_and_pages_are_linked(
    record_000: ComparisonRecord, record_002: ComparisonRecord
) -> None:
    assert (record_000.verdict, record_002.verdict) == ("regressed", "unknown")
    text = comparison_comment([(record_002, LOCAL), (record_000, SHARED)], "linen-vs-nnx")
    lines = text.splitlines()
    assert lines[:2] == ["<!-- maxview:compare linen-vs-nnx -->", "# † died: linen-vs-nnx"]
    cases = [line for line in lines if line.startswith("| ") and "case" not in line]
    assert cases[0].startswith(f"| [11\\_optimizer\\_offload\\_false]({SHARED.link}) | † died |")
    assert cases[1].startswith("| 03\\_dropout | ? unknown |")
    assert "file://" not in text


def test_text_from_logs_is_inert(hostile_record: ComparisonRecord) -> None:
    text = comparison_comment([(hostile_record, SHARED)], "x --> <script>\n")
    assert text.count("-->") == 1
    assert re.fullmatch(r"<!-- maxview:compare [a-z0-9-]+ -->", text.splitlines()[0])
    shown = text.split("next:")[0]
    assert "<script" not in shown
    assert "<img" not in shown
    assert len(re.findall(r"(?<!\\)\]\(", shown)) == 1  # our own link


def test_the_artifact_of_a_flow_run_is_its_comment_without_the_marker(record_000: ComparisonRecord) -> None:
    text = tell_comparisons([(record_000, SHARED)], "ingest")
    assert text.startswith(f"[The page]({SHARED.link})\n\n# † died")
    assert comparison_comment([(record_000, SHARED)], "ingest").partition("\n")[2] == text
