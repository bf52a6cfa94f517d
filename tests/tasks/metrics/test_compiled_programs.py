"""Compiled programs: how often JAX compiled the training step, by its log and by the programs that it writes."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from questions.history.record_rows import history_rows
from tasks.diff.compare_logs import archive, compare_pair
from tasks.ingest.given_logs import read_pair
from tasks.observe.kept_program import FOLDER, VARIABLE, keep_step_program, read_compiles
from tasks.records.log_reading import StepCompile
from tasks.store.atomic import StoreError
from tasks.store.store import Store
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

# a trainer whose last batch is shorter than the others
TRAINER = """
import jax, jax.numpy as jnp
@jax.jit
def train_step(weights, batch):
    return weights + (batch.T @ batch).sum()
for rows in {rows}:
    train_step(jnp.ones((2,)), jnp.ones((rows, 3)))
"""


def train(rows: tuple[int, ...], folder: Path) -> str:
    """Run real JAX on batches with these numbers of rows; return its log lines about the step's compiles."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_LOG_COMPILES": "1", VARIABLE: str(folder / FOLDER)}
    done = subprocess.run(
        [sys.executable, "-c", TRAINER.format(rows=rows)], env=environment, capture_output=True, text=True, check=True
    )
    return "\n".join(line for line in done.stderr.splitlines() if "Compiling jit(train_step)" in line)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """By arm: the folder with JAX's programs, and JAX's log lines."""
    found = {}
    for arm, rows in (("once", (4, 4)), ("again", (4, 4, 5))):
        folder = tmp_path_factory.mktemp(arm)
        found[arm] = folder, train(rows, folder)
    return found


def test_a_second_compile_regresses_and_the_finding_names_both_signatures(
    lines: dict[str, tuple[Path, str]],
    logs: Any,
    tmp_path: Path,
    wording: Wording,
) -> None:
    files = []
    for arm, (_, text) in lines.items():
        files.append(tmp_path / f"{arm}.txt")
        files[-1].write_bytes(logs.framed(text, *logs.steps(6)))
    records = archive(read_pair(files), Store(tmp_path / "out"))
    record = compare_pair(records, case="01_base", aa=True)
    (row,) = [row for row in record.rows if row.metric == "compiled_programs"]
    assert (row.baseline, row.candidate, row.verdict) == (1.0, 2.0, "regressed")
    (finding,) = [finding for finding in record.findings if finding.kind == "recompiled"]
    assert finding.effect == "note"
    assert re.search(r"2 times: argument 2 .*float32\[4,3\], .*float32\[5,3\]", finding.message)
    wording("findings", finding.message)
    assert [evidence.value for evidence in finding.evidence] == ["float32[2], float32[4,3]", "float32[2], float32[5,3]"]
    source = finding.evidence[1].source
    assert source is not None
    assert files[1].read_text().splitlines()[source.line - 1].startswith("Compiling jit(train_step)")
    assert history_rows(record, records).filter(metric="compiled_programs")["value"].to_list() == [1.0, 2.0]


def test_written_programs_are_counted_once_and_stay_known(lines: dict[str, tuple[Path, str]]) -> None:
    folder, _ = lines["again"]
    assert keep_step_program(folder) is not None
    expected = (StepCompile(signature=("2xf32", "4x3xf32")), StepCompile(signature=("2xf32", "5x3xf32")))
    assert read_compiles(folder) == expected
    assert keep_step_program(folder) is not None  # in a repeated flow the programs are gone
    assert read_compiles(folder) == expected


def test_a_log_without_compiles_has_no_row(logs: Any, tmp_path: Path) -> None:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for number, file in enumerate(files):
        file.write_bytes(logs.framed(*logs.steps(6 + number)))
    record = compare_pair(archive(read_pair(files), Store(tmp_path / "out")), case="01_base", aa=True)
    assert "compiled_programs" not in {row.metric for row in record.rows}
    assert "recompiled" not in {finding.kind for finding in record.findings}


def test_a_restarted_process_compiles_once_more_without_a_finding(
    lines: dict[str, tuple[Path, str]], logs: Any, tmp_path: Path
) -> None:
    once = lines["once"][1]
    start = logs.line("System Information: Jax Version: 0.12.0", source="max_utils.py:800")
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    files[0].write_bytes(logs.framed(start, once, *logs.steps(6)))
    files[1].write_bytes(logs.framed(start, once, *logs.steps(3), start, once, *logs.steps(6)))
    record = compare_pair(archive(read_pair(files), Store(tmp_path / "out")), case="01_base", aa=True)
    (row,) = [row for row in record.rows if row.metric == "compiled_programs"]
    assert (row.baseline, row.candidate, row.verdict) == (1.0, 1.0, "same")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "jax_ir0001_jit_train_step_compile.mlir").write_text("func.func public @main(")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError, match=r"No space left on device: "):
        keep_step_program(tmp_path)
