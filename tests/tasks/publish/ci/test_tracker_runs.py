"""Verdicts become runs in stores that the trackers' own clients write, and that maxview's readers or clients read."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from flows.cli.commands.report_options import Reports
from tasks.publish.ci import tracker_runs
from tasks.publish.ci.tracker_runs import check_clients, describe, write_verdicts
from tasks.publish.content.brief import make_brief
from tasks.records.compared_case import ComparisonRecord

PAGE = "http://host:8000/page.html"


def test_a_missing_client_is_told_before_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_runs.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"--to mlflow: its client is not installed; type: uv sync --extra mlflow"):
        Reports(to=("mlflow",)).check()


def test_the_fields_are_the_records(record_002: ComparisonRecord) -> None:
    fields = describe(record_002, PAGE)
    assert (fields["verdict"], fields["headline"], fields["page"]) == (record_002.verdict, record_002.headline, PAGE)
    assert {f"rows/{row.metric}" for row in make_brief(record_002).rows} <= fields.keys()


@pytest.mark.flows
def test_mlflow(record_002: ComparisonRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="uv sync --extra mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    check_clients(["mlflow"])
    write_verdicts("mlflow", [record_002], [PAGE])
    write_verdicts("mlflow", [record_002], [PAGE])  # the experiment is there already
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as store:
        rows = store.execute("select run_uuid, key, value from tags").fetchall()
        states = store.execute("select status from runs").fetchall()
    assert states == [("FINISHED",)] * 2
    tags = {key: value for run, key, value in rows if run == rows[0][0]}
    assert describe(record_002, PAGE).items() <= tags.items()


@pytest.mark.flows
def test_wandb_offline(record_002: ComparisonRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="uv sync --extra wandb")
    for name, value in (("WANDB_MODE", "offline"), ("WANDB_DIR", str(tmp_path)), ("WANDB_SILENT", "true")):
        monkeypatch.setenv(name, value)
    (place,) = write_verdicts("wandb", [record_002], [PAGE])
    assert Path(place).is_relative_to(tmp_path)
    wandb.teardown()  # as at the process's end: until then its service holds the file
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    text = file.read_bytes()
    assert {word for word in (record_002.verdict, PAGE, record_002.case) if word.encode() not in text} == set()


@pytest.mark.flows
def test_a_store_that_cannot_be_written(
    record_002: ComparisonRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="uv sync --extra mlflow")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/file/mlflow.db")
    with pytest.raises(ValueError, match=f"--to mlflow: the verdict was not written: .*; the comparison .* {PAGE}"):
        write_verdicts("mlflow", [record_002], [PAGE])
