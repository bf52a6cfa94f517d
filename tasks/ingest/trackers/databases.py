"""MLflow's and Trackio's SQLite databases. MLflow 3.17 keeps runs in `mlflow.db` by default; before, in `mlruns/`."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from tasks.ingest.trackers.tracked_run import TrackedRun, iso_of
from tasks.scrape.dialects.json_rows import flatten, number_of
from tasks.scrape.window import LogFormatError

SUFFIXES = (".db", ".sqlite", ".sqlite3")


def list_files(place: Path) -> list[Path]:
    """Return the databases of a place that have MLflow's or Trackio's tables."""
    files = place.rglob("*") if place.is_dir() else [place]
    return sorted(path for path in files if path.suffix in SUFFIXES and path.is_file() and _reader_of(path))


def read_runs(place: Path) -> list[TrackedRun]:
    """Return the runs of all databases. Raises LogFormatError for a damaged database."""
    runs: list[TrackedRun] = []
    for path in list_files(place):
        try:
            with _open(path) as database:
                runs += _read_mlflow(database, path) if _reader_of(path) == "MLflow" else _read_trackio(database, path)
        except (sqlite3.Error, ValueError) as error:
            raise LogFormatError(f"{path}: is a damaged database: {error}; copy it again") from error
    return runs


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        yield database


def _reader_of(path: Path) -> str | None:
    try:
        with _open(path) as database:
            tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    except sqlite3.Error:
        return None
    if {"metrics", "runs", "params", "experiments"} <= tables:
        return "MLflow"
    return "Trackio" if {"metrics", "configs"} <= tables else None


def _read_mlflow(database: sqlite3.Connection, path: Path) -> list[TrackedRun]:
    runs = {}
    found = "select run_uuid, name, status, start_time, end_time from runs where lifecycle_stage = 'active'"
    for key, name, status, start, end in database.execute(found + " order by start_time"):
        run = runs[key] = TrackedRun(name or key, "MLflow", 1, path, key=key, finished=status == "FINISHED")
        run.started, run.ended = (iso_of(time / 1000 if time else None) for time in (start, end))
    for key, name, value in database.execute("select run_uuid, key, value from params"):
        if key in runs:
            runs[key].config[name] = value
    rows = database.execute("select run_uuid, step, key, value, is_nan, timestamp from metrics order by timestamp")
    for key, step, name, value, is_nan, time in rows:
        if key in runs:
            runs[key].add(step, name, float("nan") if is_nan else value, time / 1000)
    return list(runs.values())


def _read_trackio(database: sqlite3.Connection, path: Path) -> list[TrackedRun]:
    runs: dict[str, TrackedRun] = {}
    columns = {row[1] for row in database.execute("pragma table_info(metrics)")}
    key = "run_id" if "run_id" in columns else "run_name"
    for one, name, step, time, values in database.execute(
        f"select {key}, run_name, step, timestamp, metrics from metrics order by id"
    ):
        run = runs.setdefault(one, TrackedRun(name, "Trackio", 1, path, key=one))
        wall = datetime.fromisoformat(time).timestamp()
        for tag, value in flatten(json.loads(values)):
            if (number := number_of(value)) is not None:
                run.add(step, tag, number, wall)
    for one, config in database.execute(f"select {key}, config from configs"):
        if one in runs:
            runs[one].config = {
                tag: str(value) for tag, value in flatten(json.loads(config)) if not tag.startswith("_")
            }
    return list(runs.values())
