"""Turns the rows of comparisons into small Parquet files and back into one table: no locks, any number of writers.

`history/<date>/<comparison id>.parquet` holds one comparison. Its name depends on nothing but the comparison and the
day its first run began, so writing it again replaces it. `history/compacted/<digest>.parquet` holds many comparisons
that were put together. A comparison found twice counts once, as it was made last: so no writer waits for another.
"""

import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import polars as pl

from tasks.history.commit_times import find_commit_time
from tasks.history.record_rows import HISTORY_SCHEMA, folder_name, history_rows, lone_run_rows
from tasks.records import ComparisonRecord, RunRecord
from tasks.store.atomic import StoreError
from tasks.store.files import Entry, Files
from tasks.store.folder import Store

FOLDER = "history"
COMPACTED = f"{FOLDER}/compacted"
UNDATED = "undated"
DELETIONS = 10  # at once: in a bucket each is a request
ATTEMPTS = 50  # of a reader whose files are compacted away under its eyes: each has only what is new to read


def append_comparison(record: ComparisonRecord, store: Store) -> str | None:
    """Write the rows of a comparison whose runs are in the store; returns the file name, None if it has no row."""
    return write_rows(history_rows(record, read_runs(record, store), commit_time=find_commit_time), store.files)


def read_runs(record: ComparisonRecord, store: Store, *, listed: bool = False) -> list[RunRecord]:
    """The records of a comparison's runs, baseline first; a run whose folder is gone is left out."""
    logs = (*record.baseline.logs, *record.candidate.logs)
    found = (store.run_of_log(log).read_record(listed=listed) for log in logs)
    return [run for run in found if run is not None]


def write_rows(rows: pl.DataFrame, files: Files) -> str | None:
    """Write the rows of one comparison under their unchanging name; None if there are none."""
    if rows.is_empty():
        return None
    name = file_name(rows)
    files.write(name, to_parquet(rows))
    return name


def file_name(rows: pl.DataFrame) -> str:
    """`history/<date>/<comparison id>.parquet`, the date being that of the first run's start."""
    moment = rows["time"].min()
    date = moment.strftime("%Y-%m-%d") if isinstance(moment, datetime) else UNDATED
    return f"{FOLDER}/{date}/{rows['comparison_id'][0]}.parquet"


def load_history(files: Files) -> pl.DataFrame:
    """Every row there is, in HISTORY_SCHEMA, oldest run first; an empty table where nothing was compared yet.

    Raises StoreError naming a file that is no table of ours.
    """
    known: dict[Entry, bytes] = {}  # kept from attempt to attempt, so that a later one has only what is new to read
    for _ in range(ATTEMPTS):
        entries = list_history(files)
        data = files.read_many([entry.name for entry in entries if entry not in known])
        known |= {entry: data[entry.name] for entry in entries if entry.name in data}
        # a listing takes its time: what vanished from its end may stand in a file that came where it had passed
        names = {entry.name for entry in known}
        passed = any(entry.name not in names for entry in files.entries(COMPACTED))
        if all(entry in known for entry in entries) and not passed:
            return merge([from_parquet(known[entry], files.url(entry.name)) for entry in entries])
    raise StoreError(f"{files.url(FOLDER)}: its files keep vanishing while they are read; try again")


def list_history(files: Files) -> list[Entry]:
    """The Parquet files of the history, compacted ones included, from one listing."""
    return [entry for entry in files.entries(FOLDER) if entry.name.endswith(".parquet")]


def merge(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """One table out of many: of a comparison that is there twice the later rows, of a run that was written both alone
    and in a comparison the comparison's, in the order the runs began."""
    if not tables:
        return pl.DataFrame(schema=HISTORY_SCHEMA)
    rows = pl.concat(tables)
    made = pl.col("created").fill_null(datetime.min.replace(tzinfo=UTC))
    rows = rows.filter(made == made.max().over("comparison_id"))
    alone = pl.col("comparison_id").str.starts_with("run-")
    compared = rows.filter(~alone)["run"].unique().implode()
    return (
        rows.filter(~alone | ~pl.col("run").is_in(compared))
        .unique(("comparison_id", "arm", "run", "metric"), keep="last", maintain_order=True)
        .sort("time", "comparison_id", "role", "repeat", "metric", maintain_order=True)
    )


def compact_history(files: Files) -> int:
    """Put every file of the history into one; returns how many there were. Safe beside writers, readers and itself."""
    entries = list_history(files)
    if len(entries) < 2:
        return len(entries)
    data = files.read_many([entry.name for entry in entries])
    rows = merge([from_parquet(content, files.url(name)) for name, content in data.items()])
    content = to_parquet(rows)
    name = f"{COMPACTED}/{hashlib.sha256(content).hexdigest()[:16]}.parquet"
    files.write(name, content)
    put_in = [entry for entry in entries if entry.name in data and entry.name != name]
    with ThreadPoolExecutor(DELETIONS) as pool:  # a comparison that was written anew meanwhile stays
        list(pool.map(lambda entry: files.delete(entry.name, version=entry.version), put_in))
    return len(entries)


def rebuild_history(store: Store) -> int:
    """Write the history again from the comparison and run folders alone; returns the number of comparisons and of
    runs outside of any. What is in the history already is replaced, and what only the history knows is kept."""
    written: set[str] = set()
    tables = []
    store.refresh("comparisons")
    store.refresh("runs")
    for directory in store.comparisons():
        record = directory.read_comparison(listed=True)
        if record is not None:
            runs = read_runs(record, store, listed=True)
            written |= {folder_name(run) for run in runs}
            tables.append(history_rows(record, runs, commit_time=find_commit_time))
    tables += [lone_run_rows(run, commit_time=find_commit_time) for run in _other_runs(store, written)]
    return sum(write_rows(table, store.files) is not None for table in tables)


def _other_runs(store: Store, known: set[str]) -> Iterator[RunRecord]:
    for directory in store.runs():
        if directory.run_name not in known:
            run = directory.read_record(listed=True)
            if run is not None:
                yield run


def to_parquet(rows: pl.DataFrame) -> bytes:
    """The rows as one Parquet file."""
    buffer = io.BytesIO()
    rows.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def from_parquet(content: bytes, name: str) -> pl.DataFrame:
    """The inverse of `to_parquet`: columns that are missing are null, columns of a later version are left out."""
    try:
        read = pl.read_parquet(io.BytesIO(content))
        missing = [pl.lit(None).alias(column) for column in HISTORY_SCHEMA if column not in read.columns]
        return read.with_columns(missing).select(list(HISTORY_SCHEMA)).cast(pl.Schema(HISTORY_SCHEMA))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise StoreError(
            f"{name}: is no table of the history ({error}); move it away, then: maxview history --rebuild"
        ) from error
