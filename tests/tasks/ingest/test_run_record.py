"""The record of a finished run, built from the files in its folder."""

import json
import re
import subprocess
from collections.abc import Callable
from math import inf, isnan
from pathlib import Path

import polars as pl
import pytest

from tasks.ingest.log_causes import with_cause
from tasks.ingest.run_record import adopt_run, build_record, read_metrics, read_run_log, with_full_disk
from tasks.records.checkpoint_proof import CheckpointProof
from tasks.records.log_reading import RunReading
from tasks.records.plan import CodeVersion, RunPlan
from tasks.records.run_end import LogError
from tasks.resolve.plans import Request, resolve
from tasks.store.directories import RunDirectory
from tests.tasks.ingest.conftest import LOG
from tests.wording.sentences import Wording

# ---------------------------------------------------------------- a full disk


def test_a_full_disk_is_named_with_the_remedy(
    reading_of: Callable[..., RunReading], directory: RunDirectory, wording: Wording
) -> None:
    known = {"type": "StopTraining", "line": 2, "offset": 13, "kind": "disk_full"}
    reading = reading_of(1, error=LogError(message="No space left on device (free some)", **known))
    error = with_full_disk(reading, directory.path).error
    assert error is not None
    listed = subprocess.run(["df", "--output=target", directory.path], capture_output=True, text=True, check=True)
    disk = listed.stdout.split()[-1]
    assert f"No space left on device: the disk at {disk} has " in error.reason
    assert error.why.startswith("line 2 ")
    assert error.why.endswith("No space left on device (free some)")
    wording("findings", re.sub(r"[\d.]+ of [\d.]+ GB", "A of B GB", error.reason), DISK=f"at {disk} has")
    named = reading_of(1, error=LogError(message="[Errno 28] No space left on device: '/data/x'", **known))
    assert with_full_disk(named, directory.path) == named  # the log has a better cause


# ---------------------------------------------------------------- the metrics file


def test_metrics_in_full_precision(directory: RunDirectory) -> None:
    rows = [{"step": 0, "loss": 8.31776618, "step_time_s": 3}, {"step": 1, "loss": "nan", "step_time_s": 0.1}]
    rows += [{"step": 2, "loss": "inf", "step_time_s": 0.1, "grad_norm": 1e-300}]
    directory.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = read_metrics(directory.metrics)
    assert frame is not None
    assert frame["loss"][0] == 8.31776618
    assert isnan(frame["loss"][1])
    assert frame["loss"][2] == inf
    assert frame["grad_norm"].to_list() == [None, None, 1e-300]
    assert frame.schema["step_time_s"] == pl.Float64


def test_an_evaluation_after_its_step_is_no_second_step(directory: RunDirectory) -> None:
    rows = [
        {"step": 0, "loss": 8.0},
        {"step": 1, "loss": 7.0},
        {"step": 1, "eval_accuracy": 0.5},
        {"step": 1, "loss": 7},
    ]
    directory.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = read_metrics(directory.metrics)
    assert frame is not None
    assert frame["step"].to_list() == [0, 1, 1]  # the last one is trained again
    assert frame["eval_accuracy"].to_list() == [None, 0.5, None]


@pytest.mark.parametrize("torn", ['{"step": 1, "lo', '{"step": 1, "loss": 7.25}', "{"])
def test_an_unterminated_line_is_ignored(torn: str, directory: RunDirectory) -> None:
    directory.metrics.write_text('{"step": 0, "loss": 8.0}\n' + torn)
    frame = read_metrics(directory.metrics)
    assert frame is not None
    assert frame["step"].to_list() == [0]


@pytest.mark.parametrize("content", [None, "", '{"step"'])
def test_no_metrics(content: str | None, directory: RunDirectory) -> None:
    if content is not None:
        directory.metrics.write_text(content)
    assert read_metrics(directory.metrics) is None


@pytest.mark.parametrize("line", ["not json", "[1, 2]", "3", ""])
def test_a_damaged_line_is_named(line: str, directory: RunDirectory) -> None:
    directory.metrics.write_text(f'{{"step": 0}}\n{line}\n{{"step": 2}}\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl:2: not a JSON object"):
        read_metrics(directory.metrics)


@pytest.mark.parametrize("step", ['"a"', "[1]", "null", "0.5", "1e30", "true", '"0"', '"nan"', '"inf"'])
def test_a_step_that_is_no_number_is_named(step: str, directory: RunDirectory, wording: Wording) -> None:
    directory.metrics.write_text(f'{{"step": 0}}\n{{"step": {step}, "loss": 8.0}}\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl:2: ") as error:
        read_metrics(directory.metrics)
    wording("errors", str(error.value).partition("'")[0])


def test_only_numbers_of_steps_are_metrics(directory: RunDirectory) -> None:
    lines = ['{"config": {"lr": 1}}', '{"step": 0.0, "loss": {"a": 1}, "step_cpu_time_s": "x"}']
    lines += [
        f'{{"step": 1.0, "loss": [1, 2], "step_cpu_time_s": {"9" * 400}, "note": true}}',
        '{"step": 2, "\xff": 1}',
    ]
    directory.metrics.write_bytes("".join(line + "\n" for line in lines).encode("latin-1"))
    frame = read_metrics(directory.metrics)
    assert frame is not None
    assert frame["step"].to_list() == [0, 1, 2]
    assert frame.schema["step"] == pl.Int64
    assert frame["loss"].to_list() == frame["note"].to_list() == [None] * 3
    assert frame["step_cpu_time_s"].to_list() == [None, inf, None]


def test_only_numbers_are_metrics_of_maxtext(directory: RunDirectory) -> None:
    row = {"learning/loss": "a", "step": 1.0, "perf/step_time_seconds": ["b"], "learning/total_weights": None}
    directory.metrics.write_text(json.dumps(row) + "\n")
    frame = read_metrics(directory.metrics)
    assert frame is not None
    assert frame.rows(named=True) == [{"loss": None, "step": 1, "step_time_s": None, "total_weights": None}]


# ---------------------------------------------------------------- the record


def proof(path: Path, step: int | None) -> CheckpointProof:
    return CheckpointProof(step=step, path=str(path), ok=True, checks=("commit",))


def test_a_record_has_all_contents_of_the_folder(tmp_path: Path) -> None:
    plan = resolve(Request(comparison="linen-vs-nnx"), tmp_path)[1]
    directory = RunDirectory(Path(plan.directory)).create()
    directory.log.write_text(LOG.format(code=137))
    directory.metrics.write_text('{"step": 0, "loss": 8.0, "step_time_s": 1.0}\n')
    directory.program.write_text('{"stablehlo_sha256": "f00d"}')
    proofs = [proof(directory.checkpoints / "9", 9), proof(directory.checkpoints / "x", None)]
    proofs += [proof(directory.checkpoints / "0", 0)]
    record = build_record(plan, directory, RunReading(name="log", format="maxtext", exit_code=137), proofs)
    assert record.reading.name == plan.run_name
    assert record.reading.error is not None
    assert record.label == f"nnx · {plan.commit[:9] if plan.commit else 'no commit'}"
    assert [p.step for p in record.proofs] == [0, 9, None]
    assert record.program == {"stablehlo_sha256": "f00d"}
    assert record.metrics is not None
    assert record.log == str(directory.log)
    directory.write_record(record)
    assert repr(directory.read_record()) == repr(record)


def test_the_supervisors_note_of_the_memory_is_read(tmp_path: Path) -> None:
    plan = resolve(Request(comparison="linen-vs-nnx"), tmp_path)[0]
    directory = RunDirectory(Path(plan.directory)).create()
    log = LOG.format(code=0)
    directory.log.write_text(log)
    reading = RunReading(name="log", format="maxtext", exit_code=0, span=(0, len(log) + 100))
    assert build_record(plan, directory, reading, []).host_peak_b is None
    directory.log.write_text(f"{log}maxview: largest resident memory of a process: 1536 MiB\n")
    assert build_record(plan, directory, reading, []).host_peak_b == 3 * 2**29


def test_a_run_without_metrics_or_program(tmp_path: Path) -> None:
    plan = resolve(Request(comparison="linen-vs-nnx"), tmp_path)[0].replace(commit=None)
    directory = RunDirectory(Path(plan.directory)).create()
    directory.log.write_text(LOG.format(code=1))
    record = build_record(plan, directory, RunReading(name="log", format="maxtext", exit_code=1), [])
    assert (record.metrics, record.program, record.label) == (None, {}, "linen · no commit")


@pytest.mark.parametrize(("code", "finished"), [(0, True), (1, False), (137, False), (None, False)])
def test_only_a_run_that_ended_well_is_finished(code: int | None, finished: bool, tmp_path: Path) -> None:
    plan = resolve(Request(comparison="linen-vs-nnx"), tmp_path)[0]
    directory = RunDirectory(Path(plan.directory)).create()
    directory.log.write_text(LOG.format(code=code))
    record = build_record(plan, directory, RunReading(name="log", format="maxtext", exit_code=code), [])
    assert record.is_finished is finished


# ---------------------------------------------------------------- a log that the run itself destroyed


@pytest.mark.parametrize(
    ("left", "why"),
    [
        (None, "No such file or directory"),
        (b"\1\0\1", "is not text"),
        (b"completed step: 0, loss: 9.000\nEXIT_CODE=0\nXPK Start: x\nEXIT_CODE=0\n", "holds 2 runs"),
    ],
)
def test_a_log_that_the_run_destroyed_is_its_cause_of_death(
    directory: RunDirectory, left: bytes | None, why: str
) -> None:
    if left is not None:
        directory.log.write_bytes(left)
    for _ in range(2):  # a killed flow does it again
        reading = with_cause(read_run_log(directory.log), directory.log, supervised=True)
        assert reading.exit_code is None
        assert reading.error is not None
        assert reading.error.type == "UnreadableLog"
        assert "the run itself removed or overwrote it" in reading.error.message
        assert why in reading.error.message
    kept = directory.log.with_name("log.1.txt")
    assert (kept.read_bytes() if kept.exists() else None) == left


# ---------------------------------------------------------------- under which name it is reused


def test_a_reused_run_has_the_names_of_the_present_request(
    make_plan: Callable[..., RunPlan], directory: RunDirectory, reading_of: Callable[..., RunReading]
) -> None:
    """The same files, first compared as a working tree, then as a commit."""
    edit, committed = "1" * 40, "2" * 40
    version = CodeVersion(name="feature", sha=committed, subject="the edit")
    before = make_plan("", tree="t", commit=edit, ref="your tree (a.py)", arm="branch")
    plan = before.replace(commit=committed, ref="feature", version=version)
    record = build_record(before, directory, reading_of(0), ()).replace(
        program={"trainer": {"commit": edit, "source": "s"}}
    )
    reused = adopt_run(record, plan)
    assert reused.plan is not None
    assert (reused.label, reused.commit, reused.plan.version) == ("feature · 222222222", committed, version)
    assert reused.program == {"trainer": {"commit": committed, "source": "s"}}
    other = record.replace(commit="3" * 40, program={"trainer": {"commit": "3" * 40}})
    assert adopt_run(other, plan).program == other.program  # it ran another trainer than was planned
    assert adopt_run(other, plan).commit == "3" * 40
    assert adopt_run(record, plan.replace(tree="")) is record
