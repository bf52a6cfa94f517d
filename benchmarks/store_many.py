"""Prints how long stores of many runs and histories of many comparisons take, in a folder and in a bucket on loopback.

python -m benchmarks.store_many [--count 3000]
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from tasks.history import HISTORY_SCHEMA, compact_history, load_history
from tasks.history.table import file_name, to_parquet
from tasks.records import RunReading, RunRecord
from tasks.store import Store, open_store
from tasks.store.documents import run_record_to_json

STAND_IN = Path(__file__).parent.parent / "tests" / "standins" / "gcs.py"
METRICS = ("step_time_s", "stall_s", "first_step_s", "program_memory_gb", "final_loss", "tokens_per_s", "parameters")


def night(number: int) -> pl.DataFrame:
    """The rows of one comparison: two runs, seven metrics."""
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    common: dict[str, Any] = {
        "comparison_id": f"{number:010x}", "created": moment, "time": moment, "comparison": "linen-vs-nnx",
        "case": "01_base", "target": "cpu", "commit": f"{number:040x}", "repeat": 0, "unit": "s", "better": "lower",
        "samples": 20, "verdict": "same", "same_program": True, "jax": "0.12.0",
    }  # fmt: skip
    rows = [
        common | {"arm": arm, "role": role, "run": f"{arm}-{number}", "metric": metric, "value": 0.1}
        for arm, role in (("linen", "baseline"), ("nnx", "candidate"))
        for metric in METRICS
    ]
    return pl.DataFrame(rows, schema=HISTORY_SCHEMA)


def fill(folder: Path, count: int) -> None:
    """A store in a folder: runs as they are, each with two checkpoints of 15 files, and rows of as many comparisons."""
    record = run_record_to_json(
        RunRecord(
            plan=None, arm="nnx", label="nnx", commit=None, log="log.txt", reading=RunReading(name="x", format="x")
        )
    ).encode()
    files = [f"checkpoints/{step}/items/d/{name:032x}" for step in (0, 9) for name in range(15)]
    files += ["plan.json", "config.yml", "log.txt", "metrics.jsonl", "program.json", "record.json"]

    for number in range(count):
        for name in files:
            path = folder / "runs" / f"run-{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(record if name == "record.json" else b"x")
        rows = night(number)
        path = folder / file_name(rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(to_parquet(rows))


def measure(open_: Callable[[], Store], count: int, where: str) -> None:
    """Fill a store and time what people wait for; every line is a machine that has not seen the store before."""
    open_()  # whatever has to be imported
    clock(f"{where}: list {count} runs", lambda: sum(1 for _ in open_().runs()))
    clock(f"{where}: find one run among them", lambda: open_().run(f"run-{count // 2}").read_record() is not None)
    store = open_()
    clock(f"{where}: read all records", lambda: read_all(store))
    clock(f"{where}: read them again", lambda: read_all(store))
    clock(f"{where}: load {count} comparisons", lambda: load_history(open_().files).height)
    clock(f"{where}: compact them", lambda: compact_history(open_().files))
    clock(f"{where}: load them compacted", lambda: load_history(open_().files).height)


def read_all(store: Store) -> int:
    """How many records there are."""
    store.refresh("runs")
    return sum(run.read_record(listed=True) is not None for run in store.runs())


def clock(what: str, work: Any) -> None:
    started, used = time.perf_counter(), time.process_time()
    found = work()
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    print(f"{what}: {wall:.2f} s, of which {cpu:.2f} s of this process's CPU ({found})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=3000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        fill(out / "many", count)
        # before the folder's own history is compacted
        argv = [sys.executable, str(STAND_IN), f"bucket={out}"]
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            os.environ["STORAGE_EMULATOR_HOST"] = server.stdout.readline().strip()
            os.environ |= {"NO_GCE_CHECK": "true", "GOOGLE_CLOUD_PROJECT": "p"}
            machines = itertools.count()

            def open_elsewhere() -> Store:
                os.environ["XDG_CACHE_HOME"] = f"{folder}/machine-{next(machines)}"
                return open_store("gs://bucket/many")

            measure(open_elsewhere, count, "bucket on loopback")
            measure(lambda: open_store(out / "many"), count, "folder")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
