"""Pasted, truncated, folded and forwarded logs: no wrong number is read, and no run is lost in another."""

import re
from typing import Any

import pytest

from tasks.records.log_reading import RunReading, StepCompleted
from tasks.scrape.follow import LogFollower
from tasks.scrape.read_log import scrape_text
from tasks.scrape.window import LogFormatError

TITAN = "[rank0]:[titan] 2025-06-01 10:00:0{n},123 - root - INFO - step: {n:2d}  loss: {loss:8.5f}  grad_norm:  1.2500  memory:  1.95GiB(2.05%)  tps: 30,768  tflops: 5.00  mfu: 0.50%"  # noqa: E501
MEGATRON = " iteration        {n}/      20 | consumed samples:           16 | elapsed time per iteration (ms): 4493.2 | learning rate: 0.000E+00 | global batch size:    16 | lm loss: 1.000000E+01 | loss scale: 1.0 | number of skipped iterations:   0 | number of nan iterations:   0 |"  # noqa: E501


def read(text: str | bytes) -> RunReading:
    (run,) = scrape_text(text.encode() if isinstance(text, str) else text, name="x.log").runs
    return run


def titan(count: int = 5) -> list[str]:
    noise = "[rank0]:[titan] 2025-06-01 10:00:00,000 - root - INFO - " + "Building the model and its optimizer " * 8
    return [noise, noise, *(TITAN.format(n=n, loss=8 - n / 10) for n in range(1, count + 1))]


@pytest.mark.flows
def test_rows_truncated_or_folded_by_a_terminal_give_no_wrong_number() -> None:
    """For any terminal width, in a log with other long lines and in one of rows only."""
    whole = read("\n".join(titan()) + "\n").steps
    assert whole["tokens_per_s_per_device"].to_list() == [30768.0] * 5
    for width in range(90, len(titan()[2])):
        for lines in (titan(), titan()[2:]):
            cut = [line[:width] for line in lines]
            folded = [line[at : at + width] for line in lines for at in range(0, len(line), width)]
            for text in (cut, folded):
                try:
                    run = read("\n".join(text) + "\n")
                except LogFormatError:  # the rest shows no trainer
                    continue
                assert run.coverage.step_lines_seen >= 5
                for row in run.steps.iter_rows(named=True):
                    right = whole.row(row["step"] - 1, named=True)
                    keys = [key for key in right if key not in ("time", "line", "offset")]
                    assert all(row.get(key) in (right[key], None) for key in keys), (width, row)


def test_equally_truncated_losses_are_not_read(logs: Any) -> None:
    lines = [line[: line.index(" lm_loss") - 5] for line in logs.steps(6)]  # `loss: 8.9`
    assert lines[0].endswith(", loss: 9.0") or lines[0].split(", ")[-1].startswith("loss: ")
    assert read("\n".join(lines) + "\n").coverage.step_lines_parsed == 0


def test_two_runs_in_one_file_are_two(logs: Any) -> None:
    first, second = logs.framed(*logs.steps(5)), logs.framed(*logs.steps(3))
    text = first + second
    runs = scrape_text(text, name="x.log").runs
    assert [(run.name, run.steps.height) for run in runs] == [("x (run 1)", 5), ("x (run 2)", 3)]
    for run in runs:
        assert all(text[offset:].startswith(b"completed step: ") for offset in run.steps["offset"])
        assert run.steps["line"].to_list() == [text.count(b"\n", 0, at) + 1 for at in run.steps["offset"]]
    assert runs[1].span == (len(first), len(text))
    failed = logs.framed(*logs.steps(5), code=1)
    assert len(scrape_text(failed + second, name="x.log").runs) == 1  # retried


def test_two_runs_of_megatron_in_one_file_are_two() -> None:
    table = "------------------------ arguments ------------------------\n  seed ........ {}\n-------------------- end of arguments ---------------------\n"  # noqa: E501
    one = (
        "".join(f"{MEGATRON.format(n=n)}\n" for n in range(1, 4))
        + "[after training is done] datetime: 2024-01-01 00:00:00\n"
    )
    runs = scrape_text((table.format(1) + one + table.format(2) + one).encode(), name="x.log").runs
    assert [run.config["seed"] for run in runs] == ["1", "2"]
    assert [run.steps.height for run in runs] == [3, 3]


def test_a_save_confirmed_by_megatron_is_committed() -> None:
    lines = [MEGATRON.format(n=1), "saving checkpoint at iteration       1 to /ckpt in torch_dist format",
             "  successfully saved checkpoint from iteration       1 to /ckpt", MEGATRON.format(n=2)]  # fmt: skip
    (save,) = read("\n".join(lines) + "\n").checkpoints
    assert (save.state, save.committed) == ("committed", True)


@pytest.mark.parametrize(
    ("line", "kind", "type_"),
    [
        # pytorch: ProcessGroupNCCL.cpp
        ("[rank3]:[E601 10:00:00.1 ProcessGroupNCCL.cpp:1895] [PG ID 0 Rank 3] Process group watchdog thread "
         "terminated with exception: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5) ran "
         "for 600029 milliseconds before timing out.", "timeout", "NCCL"),
        ("[E ProcessGroupNCCL.cpp:587] Some NCCL operations have failed or timed out. Due to the asynchronous nature "
         "of CUDA kernels, we are taking the entire process down.", "timeout", "NCCL"),
        ("Memory access fault by GPU node-4 (Agent handle: 0x5581c0) on address 0x7f3a.", "other", "GPU"),
        ("Segmentation fault (core dumped)", "other", "SIGSEGV"),
        ("command terminated with exit code 137", "killed", "SIGKILL"),
        ("##[error]Process completed with exit code 137.", "killed", "SIGKILL"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB.", "device_oom", "torch.OutOfMemoryError"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dialect", ["maxtext", "megatron", "torchtitan"])
def test_one_line_causes_of_death(logs: Any, line: str, kind: str, type_: str, dialect: str) -> None:
    rows = {"maxtext": logs.steps(3), "megatron": [MEGATRON.format(n=n) for n in (1, 2, 3)], "torchtitan": titan(3)}
    run = read("\n".join([*rows[dialect], line, "some last words"]) + "\n")
    assert run.error is not None
    assert (run.error.kind, run.error.type, run.error.line) == (kind, type_, len(rows[dialect]) + 1)
    survived = read("\n".join([line, *rows[dialect]]) + "\n")
    assert survived.error is None


def test_line_prefixes_of_users_and_launchers(logs: Any) -> None:
    plain = read("\n".join(logs.steps(6)) + "\n").steps.drop("line", "offset")
    pasted = {
        "backticks": [f"- `{line}`" for line in logs.steps(6)],
        "HTML line breaks": ["<br>".join(logs.steps(6))],
        "Ray's repeats": [f"(TrainWorker pid=7) {line} [repeated 3x across cluster]" for line in logs.steps(6)],
        "rich's file column": [
            f"[10:00:0{n}] INFO     {line}        metrics.py:196" for n, line in enumerate(logs.steps(6))
        ],
    }
    for wrapping, lines in pasted.items():
        run = read("\n".join(lines) + "\n")
        assert run.coverage.unwrapped == (wrapping,)
        assert run.steps.drop("line", "offset").equals(plain), wrapping


NEMO = (
    "[NeMo I 2025-03-01 10:00:00 nemo_logging:393] Experiments will be logged",
    "Training epoch 0, iteration 0/9 | lr: 0.0006 | global_batch_size: 32 | global_step: 0 | reduced_train_loss: 11.02 "
    "| train_step_timing in s: 4.21",
    *(
        f"Training epoch {n // 3}, iteration {n % 3}/9 | lr: 0.0006 | global_batch_size: 32 | global_step: {n} | "
        f"reduced_train_loss: {11 - n / 8:.4g} | train_step_timing in s: 0.31{n} | consumed_samples: {32 * n + 32}"
        for n in range(1, 9)
    ),
)


def test_nemo() -> None:
    """As nemo/lightning/pytorch/callbacks/progress_printer.py prints it: iterations restart with each epoch."""
    run = read("\n".join([*NEMO, "`Trainer.fit` stopped: `max_steps=9` reached."]) + "\n")
    assert run.format == "nemo"
    assert run.steps["step"].to_list() == list(range(9))
    assert run.steps["seconds"].to_list() == [4.21, *(float(f"0.31{n}") for n in range(1, 9))]
    assert run.steps["loss"].to_list() == [11.02, *(float(f"{11 - n / 8:.4g}") for n in range(1, 9))]
    assert run.steps["consumed_samples"].to_list() == [None, *(32 * n + 32 for n in range(1, 9))]
    assert (run.coverage.complete, run.coverage.unknown_keys) == (True, ())
    cut = read("\n".join(NEMO)[:-1])
    assert (cut.steps.height, cut.coverage.step_lines_seen, cut.coverage.truncated) == (8, 9, True)


def test_nemo_prints_whole_and_decimal_numbers_in_one_column() -> None:
    """A warm-up begins with `lr: 0`; `.4` never prints a fifth digit, so such a number was merged from two."""
    first = NEMO[1].replace("lr: 0.0006", "lr: 0")
    damaged = NEMO[4].replace("reduced_train_loss: 10.62", "reduced_train_loss: 10.625")
    assert damaged != NEMO[4]
    run = read("\n".join([NEMO[0], first, *NEMO[2:4], damaged, *NEMO[5:]]) + "\n")
    assert run.steps["step"].to_list() == [0, 1, 2, 4, 5, 6, 7, 8]
    assert run.steps["lr"].to_list() == [0, *[0.0006] * 7]
    assert [line.text for line in run.coverage.unread] == ["step 3, printed like no other"]


@pytest.mark.parametrize(
    ("lost", "onto"),
    [("in_step_timing", "_loss: "), ("train_step_timing", "ced_train_loss: "), ("med_samples", "in s: ")],
    ids=["head of one key, tail of another", "a tail", "head and tail, with blanks"],
)
def test_two_rows_joined_by_a_lost_block_are_rejected(lost: str, onto: str) -> None:
    """The joined row has the step of one row and numbers of the next; only the torn key shows it."""
    before, after = NEMO[4], NEMO[5]
    joined = before[: before.index(lost)] + after[after.index(onto) :]
    assert len(re.findall("train_step_timing", joined)) == 1
    run = read("\n".join([*NEMO[:4], joined, *NEMO[6:]]) + "\n")
    assert run.steps["step"].to_list() == [0, 1, 2, 5, 6, 7, 8]
    assert [line.text for line in run.coverage.unread] == ["step 3, printed like no other"]


def test_a_new_key_in_one_row_is_read() -> None:
    named = NEMO[4].replace(" | reduced_train_loss", " | val_accuracy: 0.25 | reduced_train_loss")
    run = read("\n".join([*NEMO[:4], named, *NEMO[5:]]) + "\n")
    assert run.steps["step"].to_list() == list(range(9))
    assert run.steps["val_accuracy"].to_list() == [None, None, None, 0.25, *[None] * 5]


def test_a_growing_nemo_log_is_not_taken_for_megatron() -> None:
    """Megatron's model prints a line in NeMo's log that also begins Megatron's own logs."""
    said = "[NeMo I 2025-03-01 10:00:00 nemo_logging:393]  > number of parameters on (tensor, pipeline) model parallel rank (0 ,0): 1108204800"  # noqa: E501
    follower = LogFollower()
    events = [event for line in (said, *NEMO) for event in follower.feed(f"{line}\n".encode())]
    assert [event.step for event in events if isinstance(event, StepCompleted)] == list(range(9))
