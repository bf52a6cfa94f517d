"""Plain files: MLflow's folders `mlruns/`, tables in CSV, and Hugging Face's `trainer_state.json`."""

import csv
import json
from pathlib import Path

from configs.read import load_yaml
from tasks.ingest.trackers.tracked_run import TrackedRun, iso_of
from tasks.scrape.dialects.json_rows import flatten, number_of, read_object, step_of
from tasks.scrape.dialects.metric_names import STEPS, WALL
from tasks.scrape.window import LogFormatError

STATE = "trainer_state.json"
JSON_SUFFIXES = (".jsonl", ".ndjson")
MLFLOW_META = "meta.yaml"


def list_mlruns(place: Path) -> list[Path]:
    """Return the run folders of MLflow below a place."""
    return sorted(meta.parent for meta in place.rglob(MLFLOW_META) if (meta.parent / "metrics").is_dir())


def read_mlruns(place: Path) -> list[TrackedRun]:
    """Return the runs of MLflow's folders. Raises LogFormatError for a damaged line."""
    runs = []
    for folder in list_mlruns(place):
        meta = load_yaml((folder / MLFLOW_META).read_text(encoding="utf-8"), typ="safe")
        name = meta.get("run_name") or folder.name
        run = TrackedRun(str(name), "MLflow", 1, folder, key=folder.name, finished=meta.get("status") == 3)
        run.started, run.ended = (
            iso_of(time / 1000 if time else None) for time in (meta.get("start_time"), meta.get("end_time"))
        )
        for path in sorted((folder / "params").rglob("*")) if (folder / "params").is_dir() else ():
            if path.is_file():
                run.config[str(path.relative_to(folder / "params"))] = path.read_text(encoding="utf-8").strip()
        for path in sorted((folder / "metrics").rglob("*")):
            if path.is_file():
                _add_metric(run, path, str(path.relative_to(folder / "metrics")))
        runs.append(run)
    return runs


def _add_metric(run: TrackedRun, path: Path, tag: str) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            time, value, *step = line.split(" ")
            run.add(int(step[0]) if step else 0, tag, float(value), int(time) / 1000)
        except ValueError as error:
            raise LogFormatError(f"{path}:{number}: is no metric of MLflow: {line[:40]!r}") from error


def list_tables(place: Path) -> list[Path]:
    """Return the CSV files of a place that have a column of steps."""
    files = place.rglob("*.csv") if place.is_dir() else [place] * (place.suffix == ".csv")
    return sorted(path for path in files if _step_column(path))


def _step_column(path: Path) -> str | None:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        names = next(csv.reader(file), [])
    return next((name for name in STEPS if name in names), None)


def read_tables(place: Path) -> list[TrackedRun]:
    """Return the run of each CSV file: rows of one step are one, empty cells are no numbers. Raises LogFormatError."""
    runs = []
    for path in list_tables(place):
        run = TrackedRun(path.stem if path.stem != "metrics" else path.resolve().parent.name, "CSV", 1, path)
        column = _step_column(path)
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                step = step_of({"step": row[column]}) if column else None
                if step is None:
                    raise LogFormatError(f"{path}:{number}: has no step in its column {column}: remove the line")
                for tag, text in row.items():
                    value = number_of(text)
                    if value is not None and tag != column:
                        run.add(step[1], tag, value)
        runs.append(run)
    return runs


def list_json(place: Path) -> list[Path]:
    """Return the files of JSON lines below a folder whose first line has a step."""
    files = (path for path in place.rglob("*") if path.suffix in JSON_SUFFIXES and path.is_file())
    return sorted(path for path in files if _first_step(path)) if place.is_dir() else []


def _first_step(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        values = read_object(file.readline(1 << 20))
    return values is not None and step_of(values) is not None


def read_json(place: Path) -> list[TrackedRun]:
    """Return the run of each file of JSON lines. Raises LogFormatError for a damaged line that is not the last."""
    runs = []
    for path in list_json(place):
        run = TrackedRun(path.stem if path.stem != "metrics" else path.resolve().parent.name, "JSON lines", 1, path)
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        for number, line in enumerate(lines, 1):
            values = read_object(line) if line.strip() else {}
            if values is None and number < len(lines):
                raise LogFormatError(f"{path}:{number}: is no JSON object: {line[:40]!r}; remove the line")
            if (step := step_of(values or {})) is not None:
                wall = next((wall for name in WALL if (wall := number_of((values or {}).get(name))) is not None), None)
                for tag, value in flatten(values or {}):
                    if (one := number_of(value)) is not None and tag not in (*STEPS, *WALL):
                        run.add(step[1], tag, one, wall)
        runs.append(run)
    return runs


def list_states(place: Path) -> list[Path]:
    """Return the newest `trainer_state.json` of each run below a place; each checkpoint of a run has one."""
    if not place.is_dir():
        return [place] * (place.name == STATE)
    newest: dict[Path, Path] = {}
    for path in sorted(place.rglob(STATE), key=lambda path: path.stat().st_mtime):
        newest[path.parent.parent if path.parent.name.startswith("checkpoint-") else path.parent] = path
    return sorted(newest.values())


def read_states(place: Path) -> list[TrackedRun]:
    """Return the run of each trainer state. Raises LogFormatError for a damaged file."""
    runs = []
    for path in list_states(place):
        folder = path.parent.parent if path.parent.name.startswith("checkpoint-") else path.parent
        run = TrackedRun(folder.resolve().name, "Hugging Face Trainer", 1, path)
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            for row in state["log_history"]:
                for tag, value in flatten(row):
                    number = number_of(value)
                    # the last entry sums the run up
                    if number is not None and tag != "step" and "train_runtime" not in row:
                        run.add(int(row["step"]), tag, number)
            run.finished = state["global_step"] == state["max_steps"]
        except (ValueError, KeyError, TypeError) as error:
            raise LogFormatError(
                f"{path}: is a damaged trainer state: {error!r}; give the one of another checkpoint"
            ) from error
        runs.append(run)
    return runs
