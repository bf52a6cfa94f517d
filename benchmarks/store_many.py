"""Prints how long stores of many runs and histories of many comparisons take, in a folder and in a bucket on loopback.

python -m benchmarks.store_many [--count 5000]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from tasks.history import HISTORY_SCHEMA, compact_history, load_history
from tasks.history.table import write_rows
from tasks.store import Store, open_store

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


def measure(store: Store, count: int, where: str) -> None:
    """Fill a store and time what people wait for."""
    for number in range(count):
        store.files.write(f"runs/run-{number}/record.json", b"{}")
        store.files.write(f"runs/run-{number}/log.txt", b"log")
        write_rows(night(number), store.files)
    clock(f"{where}: list {count} runs", lambda: sum(1 for _ in store.runs()))
    clock(f"{where}: load {count} comparisons", lambda: load_history(store.files).height)
    clock(f"{where}: compact them", lambda: compact_history(store.files))
    clock(f"{where}: load them compacted", lambda: load_history(store.files).height)


def clock(what: str, work: Any) -> None:
    started = time.perf_counter()
    found = work()
    print(f"{what}: {time.perf_counter() - started:.2f} s ({found})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        measure(open_store(Path(folder) / "out"), count, "folder")
        server = subprocess.Popen([sys.executable, str(STAND_IN), "bucket"], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            os.environ["STORAGE_EMULATOR_HOST"] = server.stdout.readline().strip()
            os.environ["XDG_CACHE_HOME"] = folder
            measure(open_store("gs://bucket/many"), count, "bucket on loopback")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
