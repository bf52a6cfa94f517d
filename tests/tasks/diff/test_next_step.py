"""The next step: the row that it follows from, its purpose, and the duration of its command."""

from collections.abc import Callable
from pathlib import Path

import pytest

from questions.explain.follow_cause import follow_cause
from tasks.diff.judge.ingest_command import name_logs
from tasks.diff.judge.next_step import FIXES, find_deciding_row, has_scale, make_step
from tasks.publish.content.verdict_words import AGAIN
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.explanation import CodeLine, Explanation
from tasks.records.next_step import NextStep, StepKind
from tasks.records.observation import Root, TensorComparison
from tasks.records.run_end import DEATH_WORDS
from tasks.records.run_facts import TimeAccount
from tests.wording.sentences import Wording

type MakeRow = Callable[..., MetricDiff]


def test_the_deciding_row_has_the_overall_verdict(record_002: ComparisonRecord) -> None:
    better = tuple(row.replace(verdict="improved") if row.verdict == "regressed" else row for row in record_002.rows)
    for word, rows in (("unknown", record_002.rows), ("regressed", record_002.rows), ("improved", better)):
        row = find_deciding_row(record_002.replace(verdict=word, rows=rows))
        assert row is not None
        assert row.verdict == word


def test_a_row_with_a_drawable_interval_comes_first(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    rows = [make_row(name, name, ("1", "1", "0"), "unknown", "", better="lower") for name in ("a", "step_time_s", "b")]
    scaled = rows[2].replace(effect=0.0, threshold=0.1)
    assert has_scale(scaled)
    for given, metric in ((rows, "step_time_s"), ([*rows[:2], scaled], "b")):
        found = find_deciding_row(record_002.replace(rows=tuple(given)))
        assert found is not None
        assert found.metric == metric


def test_every_class_of_death_says_whether_a_repeat_helps() -> None:
    assert AGAIN.keys() == FIXES.keys() == DEATH_WORDS.keys()


def made(record: ComparisonRecord, kind: StepKind, *argv: str, runs: int = 0) -> NextStep:
    step = make_step(record, kind, argv or ("maxview",), runs=runs)
    assert step is not None
    return step


def test_the_duration_follows_from_the_runs(record_002: ComparisonRecord) -> None:
    account = TimeAccount(arm=record_002.baseline.name, run_name="r", total_s=1800.0, parts=())
    timed = record_002.replace(times=(account, account))
    costs = {kind: made(timed, kind, runs=3).cost for kind in ("resume", "repeat", "every case", "logs", "bisect")}
    assert costs["resume"] == "takes about 60 minutes"
    assert costs["repeat"] == "takes about 2.0 hours"  # two more runs of each
    assert costs["every case"] == "takes about 60 minutes per case"
    assert costs["logs"] == costs["bisect"] == ""  # these start other runs, or none


def test_a_command_states_its_purpose(record_002: ComparisonRecord, make_row: MakeRow, wording: Wording) -> None:
    row = make_row("step_time_s", "Step time", ("1", "1.2", "0.2"), "regressed", "", effect=0.25)
    row = row.replace(effect_text="+24.6 % (+22.1 … +27.0)", effect_short="+24.6 %", effect_low=0.22, effect_high=0.27)
    settled = record_002.replace(verdict="regressed", rows=(row,), findings=())
    purpose = made(settled, "repeat", runs=3).purpose
    assert "+24.6 %" in purpose
    wording("next_steps", purpose)


@pytest.mark.parametrize("kind", ["logs", "stand-in"])
def test_given_logs_need_new_runs_before_the_command(
    record_000: ComparisonRecord,
    record_002: ComparisonRecord,
    kind: StepKind,
    wording: Wording,
) -> None:
    assert made(record_000, kind).before.startswith("Implement it")  # the error is "not implemented"
    wording("next_steps", made(record_000, kind).sentence)
    assert any(finding.effect == "blocks" for finding in record_002.findings)
    assert made(record_002, kind).before.startswith("Run both again")


def test_a_settled_difference_says_where_its_cause_is(record_002: ComparisonRecord) -> None:
    settled = record_002.replace(verdict="changed")
    sides = {"baseline": "a" * 9, "candidate": "b" * 9}
    arms = {side: getattr(settled, side).replace(commit=sha) for side, sha in sides.items()}
    alike = settled.replace(findings=())
    named, one_commit, bare = (make_step(one, "by hand") for one in (settled.replace(**arms), settled, alike))
    assert named is not None
    assert named.before.endswith("git log aaaaaaaaa...bbbbbbbbb")
    assert one_commit is not None
    assert one_commit.before.endswith("the differences in JAX and host process.")  # as the record's findings
    assert bare is not None
    assert bare.before.endswith("the differences that are listed here.")
    assert make_step(settled.replace(verdict="same", findings=()), "by hand") is None


def test_an_explained_difference_leads_to_the_line_and_its_commit(record_002: ComparisonRecord) -> None:
    root = Root(kind="operation", sentence="", file="model/layers.py", line=48)
    line = CodeLine(file=root.file, line=root.line, commit="95b820a6a Gather before the kernel")
    tensors = TensorComparison(sentence="", first=root, roots=(root,))
    explained = record_002.replace(explanation=Explanation(headline="", tensors=tensors, lines=(line,)), next_step=None)
    assert follow_cause(explained) is None
    for kind, is_replaced in (("by hand", True), ("explain", True), ("bisect", False)):
        before = NextStep(kind=kind, argv=("maxview",))
        step = follow_cause(explained.replace(next_step=before))
        assert step is not None
        assert (step != before) is is_replaced
        assert not is_replaced or (step.command == "git show 95b820a6a" and "model/layers.py:48" in step.before)


def test_a_record_of_another_format_is_refused_with_its_number(record_002: ComparisonRecord) -> None:
    data = record_002.model_dump(mode="json")
    assert ComparisonRecord.model_validate(data) == record_002
    with pytest.raises(ValueError, match="has format 2, and this maxview reads format 1"):
        ComparisonRecord.model_validate(data | {"format": 2})


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (("run1.txt",), "run*.txt"),
        (("a.txt",), "a*.txt"),
        (("1.txt",), "1*.txt"),
        (("a.txt", "ab.txt"), "a.txt"),  # a pattern would take another log
        (("run1.txt", "run2.txt"), "run1*.txt"),
        (("run1.txt", "run10.txt"), "run1.txt"),
    ],
)
def test_the_next_command_also_names_the_logs_of_further_runs(
    names: tuple[str, ...], pattern: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).touch()
    given = [str(tmp_path / names[0])]
    assert name_logs(given, ["gs://b/x.txt"], more=True) == [
        "--baseline", str(tmp_path / pattern), "--candidate", "gs://b/x.txt"
    ]  # fmt: skip
