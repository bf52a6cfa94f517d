"""MLPerf's lines `:::MLLOG`, in the forms that NeMo, MaxText's `mllog_utils` and other submissions print."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tasks.records.log_reading import RunReading
from tasks.scrape.read_log import scrape_text

T0 = 1_760_000_000_000  # 2025-10-09T08:53:20Z, in milliseconds
SEEDS = os.environ.get("MAXVIEW_SEEDS")
LOGS = None if SEEDS is None else Path(SEEDS).parent / "data" / "logs"


def event(key: str, value: Any = None, seconds: float = 0.0, **metadata: Any) -> str:
    """A line of the logging library, `seconds` after T0."""
    fields = {"namespace": "", "time_ms": T0 + round(1000 * seconds), "event_type": "POINT_IN_TIME", "key": key}
    return ":::MLLOG " + json.dumps(fields | {"value": value, "metadata": {"file": "train.py", "lineno": 7} | metadata})


def read(*lines: str) -> RunReading:
    return scrape_text("".join(f"{line}\n" for line in lines).encode(), name="x").runs[0]


def rank(number: int, line: str) -> str:
    """A line as `srun -l` prints it."""
    return f"{number:2}: {line}"


def step(number: float, loss: float, seconds: float | None = None, at: float = 0.0) -> str:
    """A step as NeMo prints it: numbers of steps are floats."""
    more = {} if seconds is None else {"train_step_time": seconds}
    stats = {"train_loss": loss, "reduced_train_loss": loss} | more
    return event("tracked_stats", stats, at, step=number)


def test_steps_with_seconds_and_losses() -> None:
    run = read(
        event("seed", 17), event("global_batch_size", 32.0), event("run_start"), step(31.0, 8.07, 0.339, 11),
        step(63.0, 7.75, 0.345, 22), event("eval_accuracy", 6.43, 23, samples_count=2048),
        event("run_stop", None, 24, status="success"),
    )  # fmt: skip
    assert run.format == "mllog"
    assert run.steps.select("step", "seconds", "loss").rows() == [(31, 0.339, 8.07), (63, 0.345, 7.75)]
    assert run.config == {"seed": "17", "global_batch_size": "32"}
    assert run.coverage.complete
    assert run.ended == "2025-10-09T08:53:44.000+00:00"
    assert [(one["step"], one["loss"]) for one in run.evals] == [(64, 6.43)]


def test_seconds_come_from_the_times_of_lines_without_them() -> None:
    """90 s for the steps 10 to 80 are 90/70 s a step."""
    run = read(*(rank(0, step(n, 2.0 - n / 100, at=n * 90 / 70)) for n in range(10, 90, 10)))
    seconds = run.steps["seconds"].to_list()
    assert seconds[0] is None  # nothing says when the first ten began
    assert seconds[1:] == pytest.approx([90 / 70] * 7, abs=1e-4)


def test_maxtexts_blocks() -> None:
    """MaxText counts samples as epochs, and its block's length stands where it starts."""
    lines = [event("global_batch_size", 512), event("submission_benchmark", "gpt3"), event("run_start")]
    for n in range(3):
        lines.append(event("block_start", None, 100 * n, first_epoch_num=n * 5120, epoch_count=5120))
        lines.append(event("block_stop", None, 100 * n + 80, first_epoch_num=n * 5120))
        lines.append(event("eval_accuracy", 3.0 - n / 10, 100 * n + 90, epoch_num=(n + 1) * 5120))
    run = read(*lines, event("run_stop", None, 300, status="success"))
    assert run.steps.select("step", "seconds").rows() == [(10, 8.0), (20, 8.0), (30, 8.0)]
    assert [one["loss"] for one in run.evals] == [3.0, 2.9, 2.8]
    assert run.coverage.complete


def test_an_optional_import_is_no_cause_of_death() -> None:
    failed = (
        "INFO: Import of apex.amp failed with: Traceback (most recent call last):", '  File "/a/imports.py", line 1',
        "    import apex", "ModuleNotFoundError: No module named 'apex'",
    )  # fmt: skip
    run = read(*(rank(n % 2, line) for n in range(2) for line in failed), event("run_start"), step(1, 2.5, 0.1, 1))
    assert run.error is None
    later = (failed[0].partition("with: ")[2], *failed[1:])
    died = read(event("run_start"), step(1, 2.5, 0.1, 1), *later)
    assert died.error is not None
    assert "apex" in died.error.message


# ---------------------------------------------------------------- forms × wrappings × ends

ROWS = ((10, 2.5), (20, 2.25), (30, 2.125))


def numbered(seconds: bool) -> list[str]:
    """NeMo's rows, with or without the seconds of a step; a step takes 0.5 s."""
    return [step(float(n), loss, 0.5 if seconds else None, at=n * 0.5) for n, loss in ROWS]


def counted_in_samples() -> list[str]:
    """Rows of trainers that count samples, with 32 of them in a step."""
    began = event("block_start", None, 0.0, samples_count=0)
    return [began, *(event("train_loss", loss, n * 0.5, samples_count=32 * n) for n, loss in ROWS)]


FORMS = {
    "NeMo": (numbered(seconds=True), [0.5, 0.5, 0.5]),
    "NeMo without seconds": ([event("block_start", None, 0.0, step=0), *numbered(seconds=False)], [0.5, 0.5, 0.5]),
    "samples": (counted_in_samples(), [0.5, 0.5, 0.5]),
    "NeMo without a start": (numbered(seconds=False), [None, 0.5, 0.5]),
}
WRAPPINGS = {
    "plain": lambda lines: lines,
    "srun -l": lambda lines: [rank(0, line) for line in lines],
    # 63 other ranks print the settings and their own chatter
    "64 ranks": lambda lines: [
        rank(number, line if number == 0 else "[NeMo I 2025-10-09 08:53:20 rank] all reduced")
        for line in lines for number in (0, 7, 63)
    ],
    "times": lambda lines: [f"2025-10-09T08:53:20.000Z {line}" for line in lines],
    "carriage returns": lambda lines: [f"{line}\r" for line in lines],
}  # fmt: skip
ENDS = {
    "success": event("run_stop", None, 20, status="success"),
    "aborted": event("run_stop", None, 20, status="aborted"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("form", FORMS)
def test_rows_seconds_losses_and_the_end_of_each_form(form: str, wrapping: str, end: str) -> None:
    rows, seconds = FORMS[form]
    head = (event("seed", 17), event("global_batch_size", 32), event("run_start"))
    run = read(*WRAPPINGS[wrapping]([*head, *rows, ENDS[end]]))
    assert run.steps.select("step", "loss").rows() == list(ROWS)
    assert run.steps["seconds"].to_list() == seconds
    assert (run.config, run.error) == ({"seed": "17", "global_batch_size": "32"}, None)
    assert run.facts["status"]["value"] == end
    assert run.coverage.complete


@pytest.mark.parametrize("cut", ['"value": {"tr', '"metadata": {"fi'])
def test_a_cut_line_is_no_row(cut: str) -> None:
    whole = step(2, 2.25, 0.1, 2)
    run = read(event("run_start"), step(1, 2.5, 0.1, 1), whole[: whole.index(cut) + len(cut)])
    assert run.steps["step"].to_list() == [1]
    assert not run.coverage.complete


def test_a_log_without_a_row_is_not_complete() -> None:
    run = read(event("run_start"), event("run_stop", None, 5, status="success"))
    assert run.steps.is_empty()
    assert not run.coverage.complete


@pytest.mark.skipif(LOGS is None or not LOGS.is_dir(), reason="no data/logs beside the folder MAXVIEW_SEEDS")
def test_published_logs_hold_the_rows_that_were_counted_by_hand() -> None:
    assert LOGS is not None
    notes = json.loads((LOGS / "notes.json").read_text())
    mlperf = [note for note in notes if "MLLOG" in note["dialect"]]
    assert len(mlperf) >= 3
    for note in mlperf:
        path = LOGS / note["file"]
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        (run,) = scrape_text(data, name="x").runs
        rows = run.steps.filter(run.steps["loss"].is_not_null()).select("step", "loss").rows()
        assert len(rows) == note["n_rows"], note["file"]
        for counted in note["runs"]:
            assert rows[0] == (counted["first"], counted["first_loss"])
            assert rows[-1] == (counted["last"], counted["last_loss"])
        assert (run.error is not None) == note["died"], note["file"]
