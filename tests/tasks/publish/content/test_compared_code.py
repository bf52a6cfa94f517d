"""The first lines of a comparison name both versions, their subjects and their distance."""

import re
from io import StringIO

import pytest
from rich.console import Console

from tasks.publish.content.compared_code import describe_code
from tasks.publish.terminal.report import render_details
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import CodeVersion
from tests.wording.sentences import Wording

MAIN = CodeVersion(name="main", sha="1" * 40, subject="a baseline", ahead=0, different=("a", "b", "c"), read=2)
EDITED = CodeVersion(
    name="your tree (a and 1 more)", sha="2" * 40, head="3" * 40, subject="a feature", changed=("a", "b"), ahead=4,
    different=("a", "b", "c"), read=2,
)  # fmt: skip


def describe(record: ComparisonRecord, left: CodeVersion | None, right: CodeVersion) -> list[str]:
    code = {record.baseline.name: left, record.candidate.name: right}
    return describe_code(record.replace(code={arm: one for arm, one in code.items() if one}))


def test_a_working_tree_beside_a_branch(record_002: ComparisonRecord, wording: Wording) -> None:
    first, *others = describe(record_002, MAIN, EDITED)
    assert others == ["main  a baseline", "not committed, on 333333333 a feature: a, b"]
    assert re.findall(r"\d+", first) == ["111111111", "1", "4", "3", "2"]
    wording("parts", first)


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [
        ({"ahead": 2}, {}, "4 commits, and 2 only on main, 3 files (the trainer reads 2 of them)"),
        ({}, {"ahead": 1, "different": ("a",), "read": 1}, "1 commit, 1 file"),
        ({}, {"read": 0}, "4 commits, 3 files (the trainer reads none of them)"),
        ({}, {"different": (), "read": 0}, "4 commits, no file differs"),
        ({}, {"sha": MAIN.sha, "ahead": 0}, "one commit"),
        ({}, {"ahead": None, "different": None, "read": None}, "their distance is not known"),
    ],
)
def test_the_distance(record_002: ComparisonRecord, left: dict[str, object], right: dict[str, object], distance: str):
    versions = MAIN.replace(**left), EDITED.replace(**right)
    assert describe(record_002, *versions)[0].partition(": ")[2] == distance


def test_a_branch_of_the_remote_only_is_named(record_002: ComparisonRecord) -> None:
    remote = CodeVersion(name="feat/x", sha="4" * 40, subject="pushed by others", found_as="origin/feat/x")
    assert describe(record_002, MAIN, remote)[-1] == "feat/x is origin/feat/x at 444444444"
    assert describe(record_002, None, remote)[0] == "feat/x 444444444"


def test_changes_that_are_not_compared_are_mentioned(record_002: ComparisonRecord, wording: Wording) -> None:
    head = EDITED.replace(name="HEAD", head="", changed=(), left_out=2)
    last = describe(record_002, MAIN, head)[-1]
    assert last.startswith("HEAD ")
    assert " 2 changed files" in last
    wording("parts", last)
    base = MAIN.replace(left_out=2)  # on main with edits, which the other arm has
    assert len(describe(record_002, base, EDITED)) == 3


def test_a_long_subject_is_cut(record_002: ComparisonRecord) -> None:
    left = MAIN.replace(subject="x" * 71)
    assert describe(record_002, left, EDITED)[1] == f"main  {'x' * 67}…"


def test_a_hash_is_not_shown_twice() -> None:
    assert MAIN.replace(name="1" * 9).short == "1" * 9


def test_the_report_begins_with_it(record_002: ComparisonRecord, hostile: str) -> None:
    subject = MAIN.replace(subject=hostile)
    code = {record_002.baseline.name: subject, record_002.candidate.name: EDITED}
    console = Console(width=80, file=StringIO())
    console.print(render_details(record_002.replace(code=code)))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[1].startswith("main 111111111 → your tree (a and 1 more)")
    assert "\x1b" not in "".join(lines)
    assert not describe_code(record_002)  # logs name no versions
