"""Stores the rows of each comparison in a Parquet file and reads all files as one table, without locks.

`history/<date>/<comparison id>.parquet` contains one comparison, or one run outside of any comparison. The name depends
only on the comparison and the day of its first run, so storing the comparison again replaces the file.
`history/compacted/<digest>.parquet` contains many comparisons. If several files contain a comparison, its newest rows
are used, so writers need no locks.
"""

import hashlib
import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import polars as pl

from questions.history.record_rows import HISTORY_SCHEMA, folder_name, history_rows, lone_run_rows
from tasks.records.compared_case import ComparisonRecord
from tasks.records.run import RunRecord
from tasks.store.atomic import StoreError
from tasks.store.files import Entry, Files
from tasks.store.store import Store
from tasks.store.stored_comparisons import read_comparisons

FOLDER = "history"
COMPACTED = f"{FOLDER}/compacted"
MANY = 200  # history files from which on they are compacted: a week of nights
DELETIONS = 10  # parallel deletions in a bucket
ATTEMPTS = 50  # largest number of attempts to read the history while compactions replace its files


def append_comparison(record: ComparisonRecord, store: Store, known: Sequence[RunRecord] = ()) -> str | None:
    """Write the rows of a comparison whose runs are in the store; return the file's name, None if there are no rows.

    known: run records in memory, which are not read again."""
    return write_rows(history_rows(record, read_runs(record, store, known)), store.files)


def read_runs(
    record: ComparisonRecord, store: Store, known: Sequence[RunRecord] = (), *, listed: bool = False
) -> list[RunRecord]:
    """Return the records of a comparison's runs, the baseline's first, without runs whose record is missing.

    known: records in memory, which are not read again. listed: as in `RunDirectory.read_record`.
    """
    here = {run.log: run for run in known}
    logs = (*record.baseline.logs, *record.candidate.logs)
    found = (here.get(log) or store.run_of_log(log).read_record(listed=listed) for log in logs)
    return [run for run in found if run is not None]


def write_rows(rows: pl.DataFrame, files: Files) -> str | None:
    """Write the rows of one comparison or lone run; return the file's name, None if there are no rows."""
    if rows.is_empty():
        return None
    begin = rows["time"].min()
    date = begin.strftime("%Y-%m-%d") if isinstance(begin, datetime) else "undated"
    name = f"{FOLDER}/{date}/{rows['comparison_id'][0]}.parquet"
    files.write(name, to_parquet(rows))
    return name


def load_history(files: Files) -> pl.DataFrame:
    """Return the history as one table (`merge`).

    Raises StoreError for a file that is no history table, or if compactions keep replacing the files.
    """
    known: dict[Entry, bytes] = {}  # kept across attempts, so that each attempt reads only new files
    for _ in range(ATTEMPTS):
        entries = list_history(files)
        data = files.read_many([entry.name for entry in entries if entry not in known])
        known |= {entry: data[entry.name] for entry in entries if entry.name in data}
        # A listing during a compaction can miss both a removed file and its replacement: look for new compacted files.
        names = {entry.name for entry in known}
        passed = any(entry.name not in names for entry in files.entries(COMPACTED))
        if all(entry in known for entry in entries) and not passed:
            return merge([from_parquet(known[entry], files.url(entry.name)) for entry in entries])
    raise StoreError(f"{files.url(FOLDER)}: its files keep vanishing while they are read; try again")


def list_history(files: Files) -> list[Entry]:
    """Return the entries of the history's Parquet files, including compacted ones."""
    return [entry for entry in files.entries(FOLDER) if entry.name.endswith(".parquet")]


def merge(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """Return one table with the rows of all tables, ordered by the start of the runs.

    If a comparison was stored repeatedly, only its newest rows are kept. A run that was first stored alone, and later
    as part of a comparison, keeps only the rows of the comparison.
    """
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


def compact_store(store: Store) -> None:
    """Run `compact_history` on a store."""
    compact_history(store.files)


def compact_history(files: Files) -> None:
    """Replace all history files by one if there are MANY. Safe with concurrent readers and writers."""
    entries = list_history(files)
    if len(entries) < MANY:
        return
    data = files.read_many([entry.name for entry in entries])
    rows = merge([from_parquet(content, files.url(name)) for name, content in data.items()])
    content = to_parquet(rows)
    name = f"{COMPACTED}/{hashlib.sha256(content).hexdigest()[:16]}.parquet"
    files.write(name, content)
    replaced = [entry for entry in entries if entry.name in data and entry.name != name]
    with ThreadPoolExecutor(DELETIONS) as pool:  # with a version, a file that was rewritten meanwhile is kept
        list(pool.map(lambda entry: files.delete(entry.name, version=entry.version), replaced))


def rebuild_history(store: Store) -> int:
    """Recompute the history from all comparisons and runs in the store; return the number of files written.

    Rows of comparisons and runs that are no longer in the store are kept.
    """
    written: set[str] = set()
    tables = []
    store.refresh("runs")
    for record in read_comparisons(store):
        runs = read_runs(record, store, listed=True)
        written |= {folder_name(run) for run in runs}
        tables.append(history_rows(record, runs))
    for directory in store.runs():
        run = None if directory.run_name in written else directory.read_record(listed=True)
        if run is not None:
            tables.append(lone_run_rows(run))
    return sum(write_rows(table, store.files) is not None for table in tables)


def to_parquet(rows: pl.DataFrame) -> bytes:
    """Return the content of a Parquet file with these rows."""
    buffer = io.BytesIO()
    rows.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def from_parquet(content: bytes, name: str) -> pl.DataFrame:
    """Return the rows of a Parquet file in HISTORY_SCHEMA. Raises StoreError.

    Missing columns become null, unknown columns are dropped.
    """
    try:
        read = pl.read_parquet(io.BytesIO(content))
        missing = [pl.lit(None).alias(column) for column in HISTORY_SCHEMA if column not in read.columns]
        return read.with_columns(missing).select(list(HISTORY_SCHEMA)).cast(pl.Schema(HISTORY_SCHEMA))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise StoreError(
            f"{name}: is no history table ({error}); move it away, then: maxview history --rebuild"
        ) from error
