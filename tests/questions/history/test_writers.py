"""Several machines write, compact and read one history at once, in a folder and in a bucket, without losses."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from questions.history.history_table import compact_history, load_history, write_rows
from questions.history.record_rows import HISTORY_SCHEMA
from tasks.store.files import Files, LocalFiles
from tasks.store.gcs import GcsFiles

EACH = 12


@pytest.fixture(autouse=True)
def _two_files_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("questions.history.history_table.MANY", 2)


@pytest.fixture(params=["local", "gs"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """machine(): the same files through another machine's client."""
    if request.param == "local":
        return lambda: LocalFiles(tmp_path / "files")
    url = request.getfixturevalue("gcs_url")
    return lambda: GcsFiles(url)


def rows(number: int, value: float = 0.1) -> pl.DataFrame:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    row: dict[str, Any] = {
        "comparison_id": f"{number:04x}", "created": moment + timedelta(seconds=value), "time": moment,
        "comparison": "linen-vs-nnx", "case": "01_base", "target": "cpu", "arm": "nnx", "role": "candidate",
        "repeat": 0, "run": f"nnx-{number}", "metric": "step_time_s", "unit": "s", "better": "lower", "value": value,
        "samples": 20,
    }  # fmt: skip
    return pl.DataFrame([row], schema=HISTORY_SCHEMA)


@pytest.mark.flows
def test_two_writers_and_two_compactions_at_once_lose_nothing(machine: Any) -> None:
    def write(first: int) -> None:
        files: Files = machine()
        for number in range(first, first + EACH):
            write_rows(rows(number), files)
            if number % 3 == 0:
                write_rows(rows(number, value=0.5), files)  # compared again

    def compact() -> list[int]:
        files: Files = machine()
        return [compact_history(files) for _ in range(4)]

    def read() -> list[int]:
        files: Files = machine()
        return [load_history(files).height for _ in range(4)]

    with ThreadPoolExecutor(5) as pool:
        work = [pool.submit(write, 0), pool.submit(write, EACH), pool.submit(read)]
        work += [pool.submit(compact), pool.submit(compact)]
        heights = work[2].result()
        for one in work:
            one.result()
    assert heights == sorted(heights)  # an existing comparison never disappears
    history = load_history(machine())
    assert history["comparison_id"].to_list() == [f"{number:04x}" for number in range(2 * EACH)]
    assert history["value"].to_list() == [0.5 if number % 3 == 0 else 0.1 for number in range(2 * EACH)]
    compact_history(machine())
    assert load_history(machine()).equals(history)
    assert len(list(machine().entries("history"))) == 1
