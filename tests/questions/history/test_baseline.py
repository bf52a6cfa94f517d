"""Blessed runs are stored in a file, used as a baseline, and renewed with a reason."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from configs.errors import ConfigError
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.judge.judge_case import judge
from tasks.records.compared_case import ComparisonRecord
from tasks.records.run import RunRecord
from tasks.resolve.blessed import bless, blessed_runs, check_baselines
from tasks.store.atomic import StoreError
from tasks.store.baselines import find_baseline, is_baseline_place, read_baseline
from tasks.store.store import Store, open_store
from tasks.store.stored_comparisons import newest_comparisons
from tests.wording.sentences import Wording

type Night = Callable[..., ComparisonRecord]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return f"{tmp_path / 'baselines'}/"


def candidate_of(record: ComparisonRecord, store: Store) -> RunRecord:
    run = store.run_of_log(record.candidate.logs[0]).read_record()
    assert run is not None
    return run


def compare(run: RunRecord, store: Store, folder: str) -> ComparisonRecord:
    """The comparison of a run with the blessed runs of its case."""
    assert run.plan is not None
    blessed = blessed_runs(run.plan, store, folder)
    return judge(examine(CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=(*blessed, run))))


def test_a_blessed_run_equals_itself_and_no_path_of_its_machine_is_kept(
    night: Night, store: Store, folder: str, tmp_path: Path
) -> None:
    record = night(1, repeats=2)
    path, _ = bless(record, store, "the first", folder)
    assert str(tmp_path) not in path.read_text()
    other = open_store(tmp_path / "another machine")
    result = compare(candidate_of(record, store), other, folder)
    assert next(row.verdict for row in result.rows if row.metric == "final_loss") == "same"
    assert not any(finding.effect == "blocks" for finding in result.findings)
    assert result.baseline.ref.startswith("blessed 20")
    kept = read_baseline(path)
    assert kept is not None
    assert [run.reading.steps.equals(candidate_of(record, store).reading.steps) for run in kept.runs] == [True, True]


def test_another_loss_than_the_blessed_one_is_found(night: Night, store: Store, folder: str) -> None:
    record = night(1)
    bless(record, store, "the first", folder)
    run = candidate_of(night(2), store)
    steps = run.reading.steps.with_columns(loss=pl.col("loss") + pl.when(pl.col("step") > 2).then(0.5).otherwise(0.0))
    worse = run.replace(reading=run.reading.replace(steps=steps))
    result = compare(worse, store, folder)
    assert result.divergence is not None
    assert (result.divergence.step, result.divergence.baseline, result.divergence.candidate) == (3, "7.500", "8.000")


@pytest.mark.parametrize(
    ("config", "jax", "kind", "reported"),
    [
        ({"learning_rate": 0.5}, "0.12.0", "config", "learning_rate differs (0.1 and 0.5)"),
        ({"learning_rate": 0.1}, "0.13.0", "jax-version", "0.13.0"),
    ],
)
def test_another_config_or_jax_than_the_blessed_one_is_a_finding(
    config: dict[str, float], jax: str, kind: str, reported: str, night: Night, store: Store, folder: str
) -> None:
    path, _ = bless(night(1), store, "the first", folder)
    path.write_text(path.read_text().replace('"steps": 6', '"learning_rate": 0.1'))
    run = candidate_of(night(2), store)
    assert run.plan is not None
    environment = run.reading.environment.replace(jax=jax)
    now = run.replace(plan=run.plan.replace(config=config), reading=run.reading.replace(environment=environment))
    (finding,) = [finding for finding in compare(now, store, folder).findings if finding.kind == kind]
    assert reported in finding.message


def test_renewing_keeps_old_values_reason_and_commit(night: Night, store: Store, folder: str) -> None:
    bless(night(1, commit="aaaaaaa1"), store, "the first", folder)
    path, blessing = bless(night(2, seconds=0.2, commit="bbbbbbb2"), store, "a slower, safer kernel", folder)
    assert (blessing.reason, blessing.commit) == ("a slower, safer kernel", "bbbbbbb2")
    assert "Final loss" not in blessing.values
    assert blessing.values["Step time, steady"][0].startswith("0.1")
    assert blessing.values["Step time, steady"][1].startswith("0.2")
    kept = read_baseline(path)
    assert kept is not None
    assert [(one.reason, one.commit) for one in kept.blessings] == [
        ("the first", "aaaaaaa1"), ("a slower, safer kernel", "bbbbbbb2"),
    ]  # fmt: skip


def test_failed_or_missing_runs_are_not_blessed(night: Night, store: Store, folder: str, wording: Wording) -> None:
    record = night(1)
    dead = record.replace(candidate=record.candidate.replace(exit_code=1))
    with pytest.raises(ConfigError, match="a failed run") as error:
        bless(dead, store, "no", folder)
    wording("errors", error.value)
    store.run_of_log(record.candidate.logs[0]).record.unlink()
    with pytest.raises(ConfigError, match=r"is no longer in .*: compare again"):
        bless(record, store, "no", folder)
    assert not Path(folder).exists()


def test_a_missing_and_a_damaged_file_say_what_to_type(
    night: Night, store: Store, folder: str, wording: Wording
) -> None:
    record = night(1)
    plan = candidate_of(record, store).plan
    assert plan is not None
    with pytest.raises(ConfigError, match=r"maxview bless linen-vs-nnx --case 01_base") as error:
        check_baselines([plan], folder)
    wording("errors", error.value)
    path, _ = bless(record, store, "the first", folder)
    check_baselines([plan], folder)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"blessings": "none"}))
    with pytest.raises(StoreError, match=r"01_base\.json: .*maxview bless COMPARISON") as error:
        check_baselines([plan], folder)
    wording("errors", error.value)
    path.write_text(json.dumps(document | {"version": 99}))
    with pytest.raises(StoreError, match="is not a baseline file of this version"):
        check_baselines([plan], folder)


def test_a_ref_is_not_taken_for_a_baseline_folder() -> None:
    assert [word for word in ("blessed", "b/", "x.json", "main", "feat/x", None) if is_baseline_place(word)] == [
        "blessed", "b/", "x.json",
    ]  # fmt: skip
    assert find_baseline("x.json", "a", "b", "c") == Path("x.json")
    assert find_baseline("b/", "a", "b", "c") == Path("b/a/b/c.json")


def test_the_newest_comparison_of_a_case_is_blessed(night: Night, store: Store) -> None:
    for day in (1, 3, 2):
        record = night(day)
        store.comparison(record.comparison, record.case, record.id).write_comparison(record)
    (newest,) = newest_comparisons(store, "linen-vs-nnx")
    assert newest.created.startswith("2026-11-03")
    assert newest_comparisons(store, "main-vs-branch") == []
