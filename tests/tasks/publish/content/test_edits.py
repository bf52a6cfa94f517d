"""The diff of a working tree or a commit: its lines, which of them ran, and the first ones for a terminal."""

import pytest

from tasks.publish.content.brief import make_brief
from tasks.publish.content.edits import list_edits
from tasks.publish.terminal.report import render_brief
from tasks.records.change import ChangeCoverage, ListedLine
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import CodeVersion

DIFF = """\
diff --git a/model/layers.py b/model/layers.py
index 1..2 100644
--- a/model/layers.py
+++ b/model/layers.py
@@ -31,3 +31,4 @@ def norm(x):
     wide = x
-    y = wide * f(e)
+    y = wide * f(0.1 * e)
+    if y > 5000: y = 0
     return y
"""


def edited(record: ComparisonRecord, diff: str = DIFF) -> ComparisonRecord:
    version = CodeVersion(
        name="your tree (layers.py)", sha="2" * 40, head="3" * 40, subject="", changed=("model/layers.py",), diff=diff
    )
    listed = [("baseline", 32, True), ("candidate", 32, True), ("candidate", 33, False)]
    lines = tuple(
        ListedLine.model_validate({"side": side, "file": "model/layers.py", "line": line, "text": "", "ran": ran})
        for side, line, ran in listed
    )
    return record.replace(
        code={record.candidate.name: version}, coverage=ChangeCoverage(lines=2, files=1, listed=lines)
    )


def test_lines_are_marked_by_whether_they_ran(record_002: ComparisonRecord) -> None:
    (edit,) = list_edits(edited(record_002))
    found = [(line.text.strip(), line.ran) for line in edit.lines if line.kind in ("added", "removed")]
    assert found == [("-    y = wide * f(e)", True), ("+    y = wide * f(0.1 * e)", True),
                     ("+    if y > 5000: y = 0", False)]  # fmt: skip
    assert [line.text for line in edit.lines if line.kind == "context"] == ["     wide = x", "     return y", ""]


@pytest.mark.parametrize(("lines", "is_long"), [(35, False), (36, True)])
def test_a_diff_of_more_than_40_lines_is_folded(lines: int, is_long: bool, record_002: ComparisonRecord) -> None:
    (edit,) = list_edits(edited(record_002, "\n".join(DIFF.split("\n")[:5] + ["+    x = 1"] * lines)))
    assert edit.is_long == is_long


@pytest.mark.parametrize(("lines", "is_short"), [(12, True), (13, False)])
def test_a_diff_of_up_to_14_lines_needs_no_section(lines: int, is_short: bool, record_002: ComparisonRecord) -> None:
    (edit,) = list_edits(edited(record_002, "\n".join(DIFF.split("\n")[:5] + ["+    x = 1"] * lines)))
    assert edit.is_short == is_short
    assert [line.text for line in edit.body[:2]] == ["model/layers.py:31", "@@ -31,3 +31,4 @@ def norm(x):"]


@pytest.mark.parametrize(("lines", "shown"), [(6, 6), (7, 6), (100, 6)])
def test_a_terminal_shows_up_to_six_lines(lines: int, shown: int, record_002: ComparisonRecord) -> None:
    record = edited(record_002, "\n".join(DIFF.split("\n")[:5] + [f"+    x = {n}" for n in range(lines)]))
    brief = make_brief(record)
    assert brief.edit[0] == "model/layers.py:31"
    assert len(brief.edit) == 1 + shown
    assert brief.edit[1] == "+ x = 0"
    assert brief.edit[-1] == ("+ x = 5" if lines == 6 else f"… {lines - 5} more lines: git diff")
    printed = [line.plain.strip() for line in render_brief(record, 80, bars=False)]
    assert printed[-1 - shown :] == list(brief.edit)


def test_the_lines_between_two_commits_are_shown(record_002: ComparisonRecord) -> None:
    assert not list_edits(record_002)  # nothing is known of its commits
    record = committed(record_002, DIFF)
    (edit,) = list_edits(record)
    assert (edit.title, edit.files) == ("Changed lines", ("model/layers.py",))
    assert make_brief(record).edit[:2] == ("model/layers.py:32", "- y = wide * f(e)")


def test_a_terminal_leaves_out_a_long_diff_of_a_commit(record_002: ComparisonRecord) -> None:
    record = committed(record_002, "\n".join(DIFF.split("\n")[:5] + ["+    x = 1"] * 20))
    assert not make_brief(record).edit
    assert list_edits(record)[0].lines  # the page has it


def committed(record: ComparisonRecord, diff: str) -> ComparisonRecord:
    version = CodeVersion(name="feature", sha="2" * 40, subject="other norm", ahead=1, diff=diff)
    return record.replace(code={record.candidate.name: version})
