"""Unreadable input gets one message with file, line and remedy."""

import os
from pathlib import Path
from typing import Any

import pytest

from tasks.scrape.read_log import scrape, scrape_chunks, scrape_run, scrape_text
from tasks.scrape.window import LogFormatError
from tests.wording.sentences import Wording


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"log\.txt: is empty; check that the run started"),
        (b" \n\n\t\n", r"log\.txt: holds nothing but white space; check"),
        (b"XPK Start: \n\x7fELF\0\0\0", r"log\.txt:2: is not text \(a zero byte at offset 16\); give the trainer"),
        (b"\n<!DOCTYPE html><html>", r"log\.txt: is HTML; open it in a browser, select all"),
        (b'{"cells": [{"cell_type": "code", "outputs": []}], "nbformat": 4}', r"is a notebook; save the output"),
        (b"insertId,labels.k8s-pod/app,textPayload,timestamp\na,b,step,2026-04-18T00:00:00Z\n", "is a CSV export"),
        (b"Dear diary,\ntoday I trained nothing.\n", r"log\.txt: contains no training log: none of its 3 lines"),
    ],
)  # fmt: skip
def test_one_message(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(data)
    with pytest.raises(LogFormatError, match=message) as caught:
        scrape(path)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    with pytest.raises(LogFormatError, match=message):
        scrape_text(data, name="log.txt")


def test_a_missing_file(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(LogFormatError, match=r"missing\.log: .*No such file") as error:
        scrape(tmp_path / "missing.log")
    wording("errors", error.value)
    with pytest.raises(LogFormatError, match="is a folder; name the log file in it"):
        scrape(tmp_path)


def test_late_binary(logs: Any, tmp_path: Path) -> None:
    """A log with some stray bytes is not refused."""
    path = tmp_path / "log.txt"
    path.write_bytes(logs.framed(*logs.steps(3), "caf\xe9").replace("é".encode(), b"\xe9\xff"))
    assert scrape_run(path).coverage.complete


def test_a_run_that_died_immediately_has_a_log(logs: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(logs.framed("configs/x.yml:3: unknown key 'stepz'", code=2))
    run = scrape_run(path)
    assert (run.exit_code, run.steps.height) == (2, 0)


def test_an_unusual_key_is_kept(logs: Any) -> None:
    """A field of one line only is not damage if its key resembles no other key."""
    lines = logs.steps(4)
    lines[2] += ", grad_norm: 1.250"
    run = scrape_text(logs.framed(*lines), name="x").runs[0]
    assert run.steps["grad_norm"].to_list() == [None, None, 1.25, None]
    assert (run.coverage.complete, run.coverage.unknown_keys) == (True, ("grad_norm",))


def test_a_log_truncated_inside_a_line(logs: Any) -> None:
    whole = logs.framed(*logs.steps(5))
    line = whole.index(b"completed step: 4")
    for cut in range(line + len(b"completed step: 4, seconds: 0."), whole.index(b"\n", line)):
        run = scrape_text(whole[:cut], name="x").runs[0]
        assert run.steps["step"].to_list() == [0, 1, 2, 3]
        assert (run.coverage.step_lines_seen, run.coverage.step_lines_parsed) == (5, 4)
        assert run.coverage.truncated
        assert not run.coverage.complete
        assert run.exit_code is None


def test_a_growing_log_is_not_truncated(logs: Any) -> None:
    run = scrape_text(logs.framed(*logs.steps(5)).split(b"XPK End")[0], name="x").runs[0]
    assert not run.coverage.truncated
    assert not run.coverage.complete
    assert run.coverage.step_lines_parsed == 5


def test_damage_in_the_middle_is_detected(logs: Any) -> None:
    lines = logs.steps(6)
    lines[2] = lines[2].replace("loss: 8.998", "loss: 8.9#8")
    lines[4] = lines[4][: lines[4].index("device: ") + 10]
    coverage = scrape_text(logs.framed(*lines), name="x").runs[0].coverage
    assert (coverage.step_lines_seen, coverage.step_lines_parsed) == (6, 4)
    assert coverage.gaps == ((2, 2), (4, 4))
    assert not coverage.complete
    assert not coverage.truncated
    assert [line.line for line in coverage.unread] == [4, 6]
    assert coverage.unread[0].text.startswith("completed step: 2, seconds: 0.148, ")


def test_a_line_without_its_middle_is_rejected(logs: Any) -> None:
    lines = logs.steps(6)
    begin, end = lines[3].index("824, Tokens"), lines[3].index("838, total_weights")
    lines[3] = lines[3][:begin] + lines[3][end:]  # now it says `TFLOP/s/device: 91.838`
    run = scrape_text(logs.framed(*lines), name="x").runs[0]
    assert run.steps["step"].to_list() == [0, 1, 2, 4, 5]
    assert (run.coverage.step_lines_seen, run.coverage.step_lines_parsed) == (6, 5)
    assert [line.line for line in run.coverage.unread] == [5]


def test_a_line_with_a_damaged_key_is_rejected(logs: Any) -> None:
    lines = logs.steps(6)
    lines[3] = lines[3].replace("lm_loss: ", "lm_lo")
    lines[4] = lines[4].replace("lm_loss", "lmloss")
    run = scrape_text(logs.framed(*lines), name="x").runs[0]
    assert run.steps["step"].to_list() == [0, 1, 2, 5]
    assert run.coverage.unknown_keys == ()


def test_a_field_that_occurs_once_is_a_field(logs: Any) -> None:
    lines = logs.steps(6)
    lines[5] += ", grad_norm: 0.500"
    run = scrape_text(logs.framed(*lines), name="x").runs[0]
    assert run.steps["grad_norm"].to_list() == [None] * 5 + [0.5]


def test_a_repeated_format_is_accepted(logs: Any) -> None:
    short = [f"completed step: {step}, seconds: 0.148, loss: 8.125" for step in (3, 4)]
    rampup = logs.line("[Rampup Batch Size Phase], completed step: 5, seconds: 0.148, loss: 8.125")
    run = scrape_text(logs.framed(*logs.steps(3), *short, rampup), name="x").runs[0]
    assert run.steps["step"].to_list() == list(range(6))
    assert run.coverage.complete


def test_gaps_and_rewinds(logs: Any) -> None:
    lines = [logs.step(step) for step in (10, 11, 14, 12, 13, 14)]
    run = scrape_text(logs.framed(*lines), name="x").runs[0]
    assert run.coverage.gaps == ((12, 13),)
    assert run.coverage.rewinds == 1
    assert run.steps["step"].to_list() == [10, 11, 14, 12, 13, 14]


def test_unknown_fields_are_kept_and_named(logs: Any) -> None:
    lines = [f"{line}, grad_norm: 0.500, tokens seen: 1024" for line in logs.steps(3)]
    run = scrape_text(logs.framed(*lines), name="x").runs[0]
    assert run.steps["grad_norm"].to_list() == [0.5] * 3
    assert run.steps["tokens seen"].to_list() == [1024.0] * 3
    assert run.coverage.unknown_keys == ("grad_norm", "tokens seen")


@pytest.mark.parametrize("chunk", [70_000, 1 << 20])
def test_large_logs_are_read_in_pieces(logs: Any, chunk: int) -> None:
    save = logs.line("[process=0] Saving checkpoint at step 900", source="checkpoint_manager.py:1512")
    commit = logs.line("Finished saving checkpoint (finalized tmp dir) to `/r/checkpoints/900`.")
    steps = logs.steps(6000)
    data = logs.framed(*steps[:900], save, *steps[900:4000], commit, *steps[4000:])
    pieces = [data[begin : begin + chunk] for begin in range(0, len(data), chunk)]
    (run,) = scrape_chunks(lambda: iter(pieces), name="log").runs
    assert run.steps["step"].to_list() == list(range(6000))
    assert run.coverage.complete
    assert run.span == (0, len(data))
    event = run.checkpoints[0]
    assert (event.step, event.line, event.committed_line) == (900, 902, 4003)
    assert data[event.offset :].startswith(b"Saving checkpoint at step 900")
    for row in run.steps.sample(50, seed=1).iter_rows(named=True):
        assert data[row["offset"] :].startswith(b"completed step: %d," % row["step"])
        assert data.count(b"\n", 0, row["offset"]) + 1 == row["line"]


@pytest.mark.parametrize(
    "row",
    [
        "completed step: {n}, seconds: 0.100, {key}: 1.000, loss: 2.000",
        "iteration {n:8d}/    2000 | elapsed time per iteration (ms): 12.0 | {key}: 1.0 | lm loss: 1.000000E+00 |",
        "step: {n:2d}  loss:  1.00000  {key}:  1.0  memory:  1.20GiB(49.70%)  tps: 44,265",
    ],
)
def test_endless_new_keys_do_not_make_an_endless_table(row: str) -> None:
    """A table with as many columns as rows outgrows any memory; no trainer prints so many keys."""
    keys = ["".join(chr(ord("a") + int(digit)) for digit in f"{n:04d}") for n in range(1000)]
    text = "".join(row.format(n=n, key=f"q{key}q") + "\n" for n, key in enumerate(keys))
    (run,) = scrape_text(text.encode(), name="x").runs
    assert run.steps.width <= 420
    assert (run.coverage.step_lines_seen, run.coverage.complete) == (1000, False)
    assert run.coverage.step_lines_parsed == run.steps.height <= 400
    assert len(run.coverage.unread) > 0


def test_the_holes_of_a_file_are_not_read(logs: Any, tmp_path: Path) -> None:
    """A log truncated by another process continues at its old offset, behind gigabytes that were never written."""
    log = logs.framed(*logs.steps(6)).splitlines(keepends=True)
    path, whole = tmp_path / "holes", tmp_path / "zeros"
    with path.open("wb") as file:
        file.writelines(log[:4])
        file.seek(2 << 40)  # reading that would take an hour
        file.writelines(log[4:])
        file.truncate(3 << 40)
    whole.write_bytes(b"".join(log[:4]) + bytes(10_000) + b"".join(log[4:]) + bytes(10_000))
    expected, run = scrape(whole).runs[0], scrape(path).runs[0]
    assert run.steps.height == 6
    assert run.model_dump(exclude={"name"}) == expected.model_dump(exclude={"name"})
    path.write_bytes(b"")
    os.truncate(path, 2 << 40)
    with pytest.raises(LogFormatError, match="contains no training log"):
        scrape(path)
