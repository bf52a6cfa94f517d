"""The record of a finished run, built from the files in its folder."""

import json
import re
import subprocess
from collections.abc import Callable
from math import inf, isnan
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tasks.ingest.log_causes import find_end, with_cause, with_place
from tasks.ingest.run_record import adopt_run, build_record, read_metrics, read_run_log, with_full_disk
from tasks.records import CheckpointProof, CodeVersion, LogError, RunPlan, RunReading
from tasks.resolve.plans import Request, resolve
from tasks.scrape import scrape_run
from tasks.store import RunDirectory, Store
from tests.wording.sentences import Wording

LOG = "XPK Start: x\ncompleted step: 0\ncompleted step: 1\nXPK End: x\nEXIT_CODE={code}\n"


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return Store(tmp_path).run("a-run").create()


@pytest.fixture
def reading_of(directory: RunDirectory) -> Callable[..., RunReading]:
    """reading_of(code, text): a reading of the run's log without an exception."""

    def read(code: int | None, text: str = LOG, **more: Any) -> RunReading:
        directory.log.write_text(text.format(code=code))
        return RunReading(name="a-run", format="maxtext", exit_code=code, **more)

    return read


# ---------------------------------------------------------------- where it ran


@pytest.mark.parametrize(
    ("notes", "place"),
    [
        ((), None),
        (("c: n1, n2",), "cluster c: n1, n2"),
        (("c: n1", "c: n1"), "cluster c: n1"),
        (("c: n1", "c: n2"), "cluster c: n1; then cluster c: n2"),  # it was restarted
    ],
)
def test_the_launchers_note_gives_the_place_of_a_run(
    notes: tuple[str, ...], place: str | None, reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    noted = "".join(f"maxview: the job ran on cluster {note}\n" for note in notes)
    reading = reading_of(0, LOG.replace("XPK End", f"{noted}XPK End"))
    assert with_place(reading, directory.log).environment.place == place


# ---------------------------------------------------------------- why it ended


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (124, "TimeLimit", "the time limit was reached"),
        (127, "CannotStart", "the command could not be started"),
        (1, "ExitCode", "ended with exit code 1 and no exception in its log"),
    ],
)
def test_an_exit_code_is_a_cause_with_its_line(
    code: int, kind: str, message: str, reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    error = with_cause(reading_of(code), directory.log, supervised=True).error
    assert error is not None
    assert (error.type, error.message, error.line) == (kind, message, 5)
    assert directory.log.read_bytes()[error.offset :].startswith(f"EXIT_CODE={code}".encode())


@pytest.mark.parametrize(
    ("code", "death"), [(124, "timeout"), (127, "configuration"), (2, "configuration"), (1, "other")]
)
def test_an_exit_code_has_a_class(
    code: int, death: str, reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    reading = with_cause(reading_of(code), directory.log, supervised=True)
    assert reading.error is not None
    assert (reading.error.kind, reading.fate) == (death, death)


@pytest.mark.parametrize(
    ("code", "signal", "death", "message"),
    [
        (137, "SIGKILL", "killed", "ended by signal 9 (SIGKILL): kill -9, or out of memory"),
        (143, "SIGTERM", "killed", "ended by signal 15 (SIGTERM)"),
        (139, "SIGSEGV", "other", "ended by signal 11 (SIGSEGV)"),
    ],
)
def test_a_signal_is_the_cause_that_the_log_shows(
    code: int, signal: str, death: str, message: str, directory: RunDirectory
) -> None:
    directory.log.write_text(LOG.format(code=code))
    error = with_cause(scrape_run(directory.log), directory.log, supervised=True).error
    assert error is not None
    assert (error.type, error.kind, error.message, error.line) == (signal, death, message, 5)


LOGGED = "I0418 00:55:39.221671 135 train.py:70] Config param steps: 3\n"


@pytest.mark.parametrize(
    ("said", "message", "line"),
    [
        (
            "steps=3: it has already trained 5 steps (set a larger steps)\n",
            "steps=3: it has already trained 5 steps (set a larger steps)",
            3,
        ),
        ("a: is bad\nb: is bad\n\n", "a: is bad; b: is bad", 3),
        ("torn, without a line break", "torn, without a line break", 3),
        ("said before\n" + LOGGED + "the last word\n", "the last word", 5),
        ("=== Source Location Trace: ===\nlearning/x/init.cc:370\nthere is no TPU\n", "there is no TPU", 5),
        (LOGGED * 2, "ended with exit code 2 and no exception in its log", 6),
    ],
)
def test_the_message_of_a_trainer_that_refused_its_config_is_the_cause(
    said: str, message: str, line: int, reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    broken = "" if said.endswith("\n") else "\n"
    text = f"XPK Start: x\n{LOGGED}{said}{broken}XPK End: x\nEXIT_CODE={{code}}\n"
    reading = with_cause(reading_of(2, text), directory.log, supervised=True)
    assert reading.error is not None
    assert (reading.error.message, reading.error.line, reading.fate) == (message, line, "configuration")
    expected = "EXIT_CODE=2" if message.startswith("ended with") else message.partition(";")[0]
    assert directory.log.read_text().splitlines()[line - 1] == expected


def test_a_missing_exit_code_is_a_cause(reading_of: Callable[..., RunReading], directory: RunDirectory) -> None:
    error = with_cause(
        reading_of(None, "XPK Start: x\ncompleted step: 0\ncompleted st"), directory.log, supervised=True
    ).error
    assert error is not None
    assert (error.type, error.line, error.offset) == ("Killed", 3, 31)


def test_in_a_log_that_never_has_an_exit_code_its_absence_means_nothing(
    reading_of: Callable[..., RunReading], directory: RunDirectory
) -> None:
    reading = reading_of(None, "a log\nwithout a frame\n")
    assert with_cause(reading, directory.log, supervised=False) == reading


def test_a_run_that_ended_well_needs_no_cause(reading_of: Callable[..., RunReading], directory: RunDirectory) -> None:
    assert with_cause(reading_of(0), directory.log, supervised=True).error is None


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


def test_an_exception_is_the_better_cause(reading_of: Callable[..., RunReading], directory: RunDirectory) -> None:
    error = LogError(type="ValueError", message="x", line=2, offset=13)
    assert with_cause(reading_of(1, error=error), directory.log, supervised=True).error == error


@pytest.mark.parametrize(
    ("text", "span", "line", "offset"),
    [
        ("", (0, 0), 1, 0),
        ("one line", (0, 0), 1, 0),
        ("a\nb\n\n  \n", (0, 0), 2, 2),
        ("a EXIT_CODE=1 b", (0, 0), 1, 2),
        ("first\nEXIT_CODE=0\nsecond\nEXIT_CODE=1\n", (0, 18), 2, 6),  # two runs in one file
        ("first\nEXIT_CODE=0\nsecond\nEXIT_CODE=1\n", (18, 37), 4, 25),
        ("first\nEXIT_CODE=0\nsecond\nthird\n", (18, 31), 4, 25),
    ],
)
def test_the_end_of_a_runs_text(text: str, span: tuple[int, int], line: int, offset: int, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(text)
    place = find_end(log, span)
    assert (place.line, place.offset) == (line, offset)


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


def test_a_run_without_metrics_or_program(tmp_path: Path) -> None:
    plan = resolve(Request(comparison="linen-vs-nnx"), tmp_path)[0].model_copy(update={"commit": None})
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
    before = make_plan("", tree="t", commit=edit, ref="feature + 1 changed file", arm="branch")
    plan = before.model_copy(update={"commit": committed, "ref": "feature", "version": version})
    record = build_record(before, directory, reading_of(0), ()).model_copy(
        update={"program": {"trainer": {"commit": edit, "source": "s"}}}
    )
    reused = adopt_run(record, plan)
    assert reused.plan is not None
    assert (reused.label, reused.commit, reused.plan.version) == ("feature · 222222222", committed, version)
    assert reused.program == {"trainer": {"commit": committed, "source": "s"}}
    other = record.model_copy(update={"commit": "3" * 40, "program": {"trainer": {"commit": "3" * 40}}})
    assert adopt_run(other, plan).program == other.program  # it ran another trainer than was planned
    assert adopt_run(other, plan).commit == "3" * 40
    assert adopt_run(record, plan.model_copy(update={"tree": ""})) is record
