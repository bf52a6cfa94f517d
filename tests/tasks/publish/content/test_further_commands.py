"""What else a reader can do: the commands exist, and only a change that git knows can be undone."""

import shlex

import pytest

from tasks.diff.judge.gate import read_gate
from tasks.publish.content.further_commands import list_further
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import CodeVersion, Commit


def test_the_gate_is_one_that_compare_reads(record_002: ComparisonRecord) -> None:
    (_, gate) = list_further(record_002.replace(comparison="main-vs-branch", asked=("function", "time")))
    *words, rules = shlex.split(gate.command)
    assert words[:3] == ["maxview", "compare", "main-vs-branch"]
    assert words[-3:] == ["--only", "function,time", "--gate"]
    assert [rule.question for rule in read_gate([rules])] == ["function", "time"]


def test_logs_have_no_gate_and_no_change_to_undo(record_002: ComparisonRecord) -> None:
    assert [one.command for one in list_further(record_002.replace(comparison="ingest"))] == ["maxview site serve"]


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        ({"head": "3" * 40, "changed": ("a.py", "b c.py")}, "git restore a.py 'b c.py'"),
        ({"ahead": 1}, "git revert 222222222"),
        ({"ahead": 2}, "git revert 111111111..222222222"),
        ({"ahead": 0}, None),
    ],
)
def test_the_change_is_undone(change: dict[str, object], undo: str | None, record_002: ComparisonRecord) -> None:
    version = CodeVersion.model_validate({"name": "x", "sha": "2" * 40, "subject": "", **change})
    base = CodeVersion(name="main", sha="1" * 40, subject="")
    code = {record_002.baseline.name: base, record_002.candidate.name: version}
    found = list_further(record_002.replace(comparison="main-vs-branch", code=code))
    gate = next(one.command for one in found if "--gate" in one.command)
    assert f"--baseline main --branch {'.' if 'changed' in change else 'x'}" in gate
    assert [one.command for one in found if one.command.startswith("git ")] == ([undo] if undo else [])


def test_a_night_of_logs_has_its_commits_and_its_threshold(record_002: ComparisonRecord) -> None:
    arms = record_002.baseline.replace(commit="1" * 40), record_002.candidate.replace(commit="3" * 40)
    commits = tuple(Commit(sha=n * 40, time="2026-11-15T16:00:00+00:00", author="A", subject="") for n in "32")
    rows = tuple(row.replace(threshold_text="±2 %") if row.metric == "step_time_s" else row for row in record_002.rows)
    record = record_002.replace(
        comparison="main-vs-branch", baseline=arms[0], candidate=arms[1], code={}, rows=rows, verdict="changed",
        commits={arms[1].name: commits},
    )  # fmt: skip
    (_, gate, undo) = list_further(record)
    assert "--gate function,time=2% --baseline 111111111 --branch 333333333" in gate.command
    assert undo.command == "git revert '222222222^..333333333'"
