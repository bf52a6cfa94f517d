"""The history's files: one per comparison, read as one table, compacted and rebuilt with concurrent writers."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from questions.history.history_table import (
    append_comparison,
    compact_history,
    load_history,
    read_runs,
    rebuild_history,
)
from questions.history.prior import group_equal_runs
from questions.history.record_rows import HISTORY_SCHEMA, history_rows
from questions.history.series import find_series
from tasks.publish.site.comparison_pages import publish_comparison
from tasks.records.compared_case import ComparisonRecord
from tasks.store.atomic import StoreError
from tasks.store.directories import RunDirectory
from tasks.store.store import Store, open_store
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type Night = Callable[..., ComparisonRecord]


@pytest.fixture(autouse=True)
def _two_files_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("questions.history.history_table.MANY", 2)


def only(history: pl.DataFrame, metric: str = "step_time_s") -> pl.DataFrame:
    return history.filter(pl.col("metric") == metric)


def test_a_comparison_gives_one_row_per_run_and_metric(store: Store, night: Night) -> None:
    record = night(1, repeats=2)
    name = append_comparison(record, store)
    assert name == f"history/2026-11-01/{record.id}.parquet"
    history = load_history(store.files)
    assert dict(history.schema) == HISTORY_SCHEMA
    steps = only(history)
    assert steps["run"].to_list() == ["n1-linen-r0", "n1-linen-r1", "n1-nnx-r0", "n1-nnx-r1"]
    assert steps["role"].to_list() == ["baseline", "baseline", "candidate", "candidate"]
    assert steps["repeat"].to_list() == [0, 1, 0, 1]
    assert steps["value"].to_list() == pytest.approx([0.1] * 4)
    assert steps["samples"].to_list() == [5] * 4  # six steps without the first
    assert steps["time"].to_list() == [datetime(2026, 11, 1, 3, tzinfo=UTC)] * 4
    assert set(steps["verdict"]) == {next(row.verdict for row in record.rows if row.metric == "step_time_s")}
    row = only(history, "final_loss").row(0, named=True)
    assert (row["case"], row["target"], row["jax"], row["commit"], row["value"]) == (
        "01_base", "cpu", "0.12.0", "c0ffee1", 7.0,
    )  # fmt: skip


def test_a_repeated_comparison_replaces_its_rows(store: Store, night: Night) -> None:
    append_comparison(night(1), store)
    again = night(1, seconds=0.2)
    append_comparison(again, store)
    steps = only(load_history(store.files))
    assert steps["value"].to_list() == pytest.approx([0.2, 0.2])


def test_compaction_keeps_every_row_and_leaves_one_file(store: Store, night: Night) -> None:
    for day in range(1, 6):
        append_comparison(night(day), store)
    before = load_history(store.files)
    compact_history(store.files)
    assert [entry.name.split("/")[1] for entry in store.files.entries("history")] == ["compacted"]
    assert load_history(store.files).equals(before)
    compact_history(store.files)  # nothing to do
    append_comparison(night(2, seconds=0.3), store)  # made again after it was compacted
    append_comparison(night(6), store)
    after = only(load_history(store.files)).filter(pl.col("role") == "baseline")
    assert after["value"].to_list() == pytest.approx([0.1, 0.3, 0.1, 0.1, 0.1, 0.1])
    compact_history(store.files)
    assert only(load_history(store.files)).filter(pl.col("role") == "baseline").equals(after)


def test_rows_written_during_a_compaction_survive(store: Store, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    append_comparison(night(1), store)
    append_comparison(night(2), store)
    files = store.files
    read = type(files).read_many

    def write_meanwhile(self: object, names: list[str]) -> dict[str, bytes]:
        found = read(self, names)  # type: ignore[arg-type]
        append_comparison(night(1, seconds=0.5), store)
        append_comparison(night(3), store)
        return found

    monkeypatch.setattr(type(files), "read_many", write_meanwhile)
    compact_history(files)
    monkeypatch.undo()
    baseline = only(load_history(files)).filter(pl.col("role") == "baseline")
    assert baseline["value"].to_list() == pytest.approx([0.5, 0.1, 0.1])


def test_two_compactions_at_once_lose_nothing(store: Store, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 4):
        append_comparison(night(day), store)
    before = load_history(store.files)
    files = store.files
    read = type(files).read_many
    nested = []

    def compact_meanwhile(self: object, names: list[str]) -> dict[str, bytes]:
        found = read(self, names)  # type: ignore[arg-type]
        if not nested:
            nested.append(True)
            append_comparison(night(4), store)
            compact_history(files)
        return found

    monkeypatch.setattr(type(files), "read_many", compact_meanwhile)
    compact_history(files)
    monkeypatch.undo()
    after = load_history(files)
    assert after.filter(pl.col("time") < datetime(2026, 11, 4, tzinfo=UTC)).equals(before)
    assert only(after).height == 8


def test_a_reader_retries_during_many_compactions(store: Store, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 4):
        append_comparison(night(day), store)
    files = store.files
    read = type(files).read_many
    asked: list[list[str]] = []

    def compact_before(self: object, names: list[str]) -> dict[str, bytes]:
        asked.append(names)
        if len(asked) < 9:  # every listed file is gone before it is read
            monkeypatch.setattr(type(files), "read_many", read)
            append_comparison(night(3 + len(asked)), store)
            compact_history(files)
            monkeypatch.setattr(type(files), "read_many", compact_before)
        return read(self, names)  # type: ignore[arg-type]

    monkeypatch.setattr(type(files), "read_many", compact_before)
    baseline = only(load_history(files)).filter(pl.col("role") == "baseline")
    assert baseline.height == 11
    assert len(asked) >= 9


def test_the_history_is_rebuilt_from_the_folders_alone(store: Store, night: Night, tmp_path: Path) -> None:
    for day in (1, 2):
        record = night(day)
        publish_comparison(record, store)
    night(3)  # its runs exist, but no comparison contains them
    before = load_history(store.files)
    moved = tmp_path / "moved"
    store.path.rename(moved)  # as in an old archive
    for entry in Store(moved).files.entries("history"):
        Store(moved).files.delete(entry.name)
    store = open_store(moved)
    assert rebuild_history(store) == 4  # two comparisons and two lone runs
    after = load_history(store.files)
    lone = after.filter(pl.col("comparison_id").str.starts_with("run-"))
    assert after.join(lone, on=["comparison_id"], how="anti").equals(before)
    assert lone["run"].unique(maintain_order=True).to_list() == ["n3-linen-r0", "n3-nnx-r0"]
    assert lone["role"].unique(maintain_order=True).to_list() == ["baseline", "candidate"]
    assert set(lone["verdict"]) == {None}
    publish_comparison(night(3), store)
    assert (
        not load_history(store.files)["comparison_id"].str.starts_with("run-").any()
    )  # now one comparison contains them


def test_a_damaged_file_is_named(store: Store, night: Night, wording: Wording) -> None:
    append_comparison(night(1), store)
    store.files.write("history/2026-11-09/broken.parquet", b"PAR1 no more")
    with pytest.raises(StoreError, match=r"broken\.parquet: .*--rebuild") as error:
        load_history(store.files)
    wording("errors", error.value)


def test_columns_of_other_versions_are_accepted(store: Store, night: Night) -> None:
    name = append_comparison(night(1), store)
    assert name is not None
    path = store.path / name
    pl.read_parquet(path).drop("jax").with_columns(pl.lit(1).alias("of_the_future")).write_parquet(path)
    history = load_history(store.files)
    assert dict(history.schema) == HISTORY_SCHEMA
    assert set(history["jax"]) == {None}


def test_a_store_without_comparisons_has_an_empty_history(store: Store) -> None:
    history = load_history(store.files)
    assert dict(history.schema) == HISTORY_SCHEMA
    assert history.is_empty()
    assert group_equal_runs(history) == []


def test_noise_is_taken_from_equal_runs_only(store: Store, night: Night) -> None:
    append_comparison(night(1, seconds=0.10, commit="aaaaaaa"), store)
    append_comparison(night(2, seconds=0.11, commit="aaaaaaa"), store)
    append_comparison(night(3, seconds=0.30, commit="bbbbbbb"), store)
    append_comparison(night(4, seconds=0.31, commit="bbbbbbb", repeats=2), store)
    history = load_history(store.files).filter(metric="step_time_s")
    values = [[value for value, _ in group] for group in group_equal_runs(history.filter(arm="nnx"))]
    assert values == [pytest.approx([0.30, 0.31, 0.31]), pytest.approx([0.10, 0.11])]  # the latest first
    assert len(group_equal_runs(history)) == 4  # two arms of two commits


def test_each_branch_has_its_own_series_and_dead_runs_have_none(store: Store, night: Night) -> None:
    def of_branch(record: ComparisonRecord, branch: str) -> ComparisonRecord:
        label = f"{branch} · c0ffee1"
        return record.replace(candidate=record.candidate.replace(label=label))

    for day, branch in ((1, "feat/a"), (2, "feat/b"), (3, "feat/a")):
        append_comparison(of_branch(night(day), branch), store)
    found = [one for one in find_series(load_history(store.files)) if one.metric == "step_time_s"]
    assert [(series.pair, len(series.nights)) for series in found] == [("linen → feat/a", 2), ("linen → feat/b", 1)]
    record = night(4)
    alive, other = read_runs(record, store)
    dead = other.replace(reading=other.reading.replace(exit_code=1))
    assert set(history_rows(record, [alive, dead])["arm"]) == {"linen"}


def test_records_in_memory_are_not_read_again(night: Night, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    record = night(1)
    runs = read_runs(record, store)
    written = append_comparison(record, store)
    assert written is not None
    before = store.files.read(written)

    def refuse(directory: RunDirectory, **options: bool) -> None:
        raise AssertionError(f"{directory.path} was read again")

    monkeypatch.setattr(RunDirectory, "read_record", refuse)
    assert append_comparison(record, store, runs) == written
    assert store.files.read(written) == before
    assert publish_comparison(record, store, runs).is_file()
