"""The suggested command after a comparison, its repetition, and the options that reproduce its plans."""

import shlex
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from configs.names import list_names
from tasks.diff.judge.suggested_commands import options_of_arms, options_of_plan, repeat_command, suggest_next
from tasks.records.compared_case import ComparisonRecord
from tasks.records.next_step import NextStep
from tasks.records.plan import CodeVersion, Commit, RunPlan
from tasks.records.program_times import ProgramTimes
from tasks.resolve.plans import CompileRequest, Request, resolve
from tasks.store.store import Store


def next_after(
    record: ComparisonRecord, out: Path, *, repeats: int = 1, cases: int = 1, libtpu: bool = False, **changes: Any
) -> str:
    record = record.replace(**({"comparison": "linen-vs-nnx", "case": "01_base", "target": "cpu"} | changes))
    baseline = record.baseline.replace(logs=record.baseline.logs[:1] * repeats)
    plans = resolve(Request(comparison="linen-vs-nnx", target=record.target), out)[:2]
    versions = {"libtpu": "0.0.50"} if libtpu else {}
    plans = [plan.replace(versions=versions) for plan in plans]
    return command_of(suggest_next(record.replace(baseline=baseline), plans, cases=cases))


def command_of(step: NextStep | None) -> str:
    return step.command if step is not None else ""


def test_without_a_difference_it_suggests_the_other_cases(record_002: ComparisonRecord, tmp_path: Path) -> None:
    command = next_after(record_002, tmp_path, findings=(), verdict="same")
    assert command == f"maxview compare linen-vs-nnx --case all --target cpu --out {tmp_path}"


def test_after_all_cases_of_a_target_it_suggests_those_that_need_more_devices(
    record_002: ComparisonRecord, tmp_path: Path
) -> None:
    there = len(list_names("cases"))
    calm: dict[str, Any] = {"findings": (), "verdict": "same"}
    assert "--case all" in next_after(record_002, tmp_path, cases=there - 2, **calm)
    command = next_after(record_002, tmp_path, cases=there - 1, **calm)  # one device runs all except 12_pipeline
    assert command == f"maxview compare linen-vs-nnx --case 12_pipeline --target cpu-8 --out {tmp_path}"
    calm |= {"target": "cpu-8", "case": "12_pipeline"}
    command = next_after(record_002, tmp_path, cases=there, libtpu=True, **calm)
    assert command == f"maxview preflight linen-vs-nnx --case 12_pipeline --out {tmp_path}"
    assert next_after(record_002, tmp_path, cases=there, **calm) == ""  # nothing here compiles for TPUs


def test_a_custom_command_is_suggested_only_for_cases_with_placeholders(
    record_002: ComparisonRecord, tmp_path: Path
) -> None:
    record = record_002.replace(findings=(), verdict="same", comparison="linen-vs-nnx", case="01_base", target="cpu")
    plans = [plan_of(tmp_path).replace(trainer="command")] * 2
    assert command_of(suggest_next(record, plans, cases=1)) == ""  # all cases of its comparison


def test_an_incomparable_result_suggests_an_explanation(record_002: ComparisonRecord, tmp_path: Path) -> None:
    assert any(finding.effect == "blocks" for finding in record_002.findings)
    folder = Store(tmp_path).comparison("linen-vs-nnx", "01_base", record_002.id).path
    assert next_after(record_002, tmp_path) == f"maxview explain {folder}"  # the folder of this page's record


@pytest.mark.parametrize("kind", ["same-log", "log-disagrees", "repeated-steps"])
def test_files_that_contradict_each_other_are_made_again(
    record_002: ComparisonRecord, tmp_path: Path, kind: str
) -> None:
    finding = record_002.findings[0].replace(kind=kind, effect="blocks")
    command = next_after(record_002, tmp_path, findings=(finding,))
    assert command == f"maxview compare linen-vs-nnx --case 01_base --target cpu --out {tmp_path} --fresh"


def test_software_that_only_a_file_can_name_is_no_option(tmp_path: Path) -> None:
    software = ("image a/b:1", "command {python} train.py", "jax==0.11.0")
    plan = plan_of(tmp_path).replace(software=software)
    assert options_of_arms([plan, plan_of(tmp_path)]) == ["--with", f"{plan.arm}:jax==0.11.0"]


def test_after_a_death_it_suggests_the_same_command(record_000: ComparisonRecord, tmp_path: Path) -> None:
    """The page names the cause; after the fix the same command trains only the unfinished runs."""
    command = f"maxview compare linen-vs-nnx --case 01_base --target cpu --out {tmp_path}"
    assert next_after(record_000, tmp_path) == command


@pytest.mark.parametrize("repeats", [1, 3, 7])
def test_an_unknown_verdict_suggests_until_decided(record_002: ComparisonRecord, tmp_path: Path, repeats: int) -> None:
    """The number of repeats that the stated noise suggests is only a guess."""
    rows = tuple(row.replace(runs_wanted=wanted) for row, wanted in zip(record_002.rows, (None, 7, 4), strict=False))
    command = next_after(record_002, tmp_path, findings=(), verdict="unknown", rows=rows, repeats=repeats)
    assert command == f"maxview compare linen-vs-nnx --case 01_base --target cpu --out {tmp_path} --until-decided"


@pytest.mark.parametrize(("evidence", "repeated"), [("one run of each", True), ("3 runs of each", False)])
def test_a_time_decided_by_one_run_of_each_is_repeated(
    record_002: ComparisonRecord, tmp_path: Path, evidence: str, repeated: bool
) -> None:
    reported = {"level": "steady steps", "verdict": "regressed", "evidence": evidence}
    rows = (record_002.rows[0].replace(**reported),)
    command = next_after(record_002, tmp_path, findings=(), verdict="regressed", rows=rows)
    assert command.endswith("--repeats 3") is repeated


def plan_of(out: Path, **changes: Any) -> RunPlan:
    return resolve(Request(comparison="linen-vs-nnx", **changes), out)[0]


def test_unset_options_are_not_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert options_of_plan(plan_of(Path("maxview-out"))) == []


def test_the_options_of_a_plan_reproduce_the_plan(tmp_path: Path) -> None:
    overrides = ("steps=7", "dtype=float32", "learning_rate=0.001", "log_config=false")
    plan = plan_of(tmp_path / "my out", model="seed-1b", overrides=overrides)
    words = options_of_plan(plan)
    assert words == [
        "--model", "seed-1b", "--set", "steps=7", "--set", "log_config=false", "--set", "dtype=float32",
        "--set", "learning_rate=0.001", "--out", str(tmp_path / "my out"),
    ]  # fmt: skip
    again = tuple(word for option, word in pairwise(words) if option == "--set")
    assert plan_of(tmp_path / "my out", model="seed-1b", overrides=again) == plan


def test_a_regression_between_two_refs_with_several_commits_suggests_a_bisection(
    record_002: ComparisonRecord, tmp_path: Path
) -> None:
    commits = tuple(Commit(sha=f"{n:040x}", time="", author="", subject=f"commit {n}") for n in range(3))
    plans = [
        plan_of(tmp_path).replace(commit="a" * 40, ref="v1", arm=record_002.baseline.name),
        plan_of(tmp_path).replace(commit="b" * 40, ref="main", arm=record_002.candidate.name),
    ]
    facts: dict[str, Any] = {"comparison": "main-vs-branch", "case": "01_base", "target": "cpu", "findings": ()}
    regressed = record_002.replace(**(facts | {"verdict": "regressed"}))
    between = regressed.replace(commits={regressed.candidate.name: commits})
    words = command_of(suggest_next(between, plans, cases=1))
    assert words.startswith(
        "maxview bisect main-vs-branch --good aaaaaaaaa --bad bbbbbbbbb --case 01_base --target cpu"
    )
    alone = regressed.replace(commits={regressed.candidate.name: commits[:1]})
    same = between.replace(verdict="same")
    diverged = between.replace(commits=dict.fromkeys((regressed.baseline.name, regressed.candidate.name), commits))
    tree = CodeVersion(name="your tree (a)", sha="b" * 40, subject="", changed=("a",))
    edited = plans[0], plans[1].replace(version=tree, ref=tree.name)
    words = shlex.split(command_of(suggest_next(between, edited, cases=1)))
    assert (words[0], words[-2:]) == ("git", ["diff", "HEAD"])  # a bisection sees commits only
    same_tree = shlex.split(command_of(suggest_next(same, edited, cases=1)))
    assert same_tree[same_tree.index("--branch") + 1] == "."  # git knows no commit of it
    for record in (alone, same, diverged):  # one commit is the culprit; nothing regressed; no commits are known
        assert "bisect" not in command_of(suggest_next(record, plans, cases=1))


def planned(out: Path, **changes: Any) -> Any:
    """The runs of both arms; only their plans matter."""
    request = CompileRequest(comparison="linen-vs-nnx", target="v6e-32", model="tiny", overrides=("steps=9",))
    left, right = resolve(request, out)[:2]
    return [
        SimpleNamespace(plan=plan.replace(**({"ref": ref, "commit": letter * 40} | changes)))
        for plan, ref, letter in ((left, "main", "a"), (right, "feat/x", "b"))
    ]


@pytest.mark.parametrize(("verb", "topology"), [("compare", None), ("preflight", "v6e:4x8")])
def test_branches_become_commits_and_all_options_are_kept(
    verb: str, topology: str | None, record_002: ComparisonRecord, tmp_path: Path
) -> None:
    runs = planned(tmp_path, compiles_for=topology, software=("python /usr/bin/python3",))
    assert shlex.split(repeat_command(record_002, *runs)) == [
        "maxview", verb, "main-vs-branch", "--case", "03_dropout", "--target", "v6e-32",
        "--model", "tiny", "--set", "steps=9", "--out", str(tmp_path), "--baseline", "a" * 40, "--branch", "b" * 40,
        "--with", "linen:/usr/bin/python3", "--with", "nnx:/usr/bin/python3", "--fresh",
    ]  # fmt: skip


def test_logs_are_passed_again(record_002: ComparisonRecord) -> None:
    gone = SimpleNamespace(plan=None)
    logged = record_002.replace(target="as logged", next_step=None)
    command = repeat_command(logged, gone, gone)  # type: ignore[arg-type]
    logs = ["--baseline", *record_002.baseline.logs, "--candidate", *record_002.candidate.logs]
    store = str(Path(record_002.baseline.logs[0]).parent.parent.parent)
    assert shlex.split(command) == ["maxview", "ingest", *logs, "--case", "03_dropout", "--out", store]
    assert repeat_command(logged, None, None) == ""
    next_one = logged.replace(next_step=NextStep(kind="logs", argv=tuple(shlex.split(command))))
    assert repeat_command(next_one, gone, gone) == ""  # type: ignore[arg-type] # the page has it already


def undecided_turns(record: ComparisonRecord, *others: str) -> dict[str, Any]:
    """Changes that make the time of the program undecided, and further metrics."""
    rows = [record.rows[0].replace(metric=metric, verdict="unknown") for metric in ("program_step_s", *others)]
    return {"findings": (), "verdict": "unknown", "rows": tuple(rows), "turns": ProgramTimes(limit_s=60.0)}


def test_undecided_turns_are_continued_before_anything_is_trained(record_002: ComparisonRecord, tmp_path: Path) -> None:
    command = next_after(record_002, tmp_path, **undecided_turns(record_002, "step_time_s"))
    assert command.endswith("--interleave 5m")
    other = next_after(record_002, tmp_path, **undecided_turns(record_002, "loss"))
    assert "--until-decided" in other
    crashed = undecided_turns(record_002) | {"turns": ProgramTimes(problem="its process was killed")}
    assert "--interleave" not in next_after(record_002, tmp_path, **crashed)
