# ruff: noqa: E501 – the lines of these logs are long
"""The known line formats of Megatron and related trainers: short lines from public logs."""

import json
import math
import re

import pytest
from polars.testing import assert_frame_equal

from tasks.records.log_reading import RunReading
from tasks.scrape.dialects import megatron
from tasks.scrape.read_log import scrape_text
from tasks.scrape.table.step_table import StepTable
from tasks.scrape.window import windows

# microsoft/Megatron-DeepSpeed before 2.0 and NVIDIA's first versions: no colons, no samples
FIRST = " iteration      100/  320000 | elapsed time per iteration (ms): 1203.4 | learning rate 1.500E-04 | lm loss 7.123456E+00 | loss scale 65536.0 |"
# NVIDIA/nccl issue 743: BERT, Megatron-LM 2.x
BERT = " iteration       20/ 1000000 | consumed samples:           80 | elapsed time per iteration (ms): 140.6 | learning rate: 2.020E-08 | global batch size:     4 | lm loss: 1.005022E+01 | sop loss: 8.174902E-01 | loss scale: 32768.0 | grad norm: 217.199 | number of skipped iterations:   8 | number of nan iterations:   0 |"
# deepspeedai/Megatron-DeepSpeed pull request 434: a loss of NaN is omitted and not counted
NO_LOSS = " iteration        9/      10 | consumed samples:          108 | consumed tokens:       442368 | elapsed time per iteration (ms): 1979.2 | learning rate: 4.219E-07 | global batch size:    12 | loss scale: 1.0 | actual seqlen:  4096 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 6.063 | tokens per gpu per second (tgs): 2069.506 | TFLOPs: 127.00 |"
# bigscience-workshop/Megatron-DeepSpeed issue 396
NAN_NORM = " iteration     5426/  250000 | consumed samples:        43408 | consumed tokens:     88899584 | elapsed time per iteration (ms): 4247.9 | learning rate: 2.999E-04 | global batch size:     8 | loss scale: 1.0 | grad norm: nan | actual seqlen:  2048 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 1.883 | TFLOPs: 78.36 |"
# OpenGPT-X on JUWELS: seconds with four decimals
SECONDS = "[default3]: iteration       10/ 3125000 | consumed samples:          960 | elapsed time per iteration (s): 7.2310 | learning rate: 4.438E-07 | global batch size:    96 | lm loss: 1.010967E+01 | loss scale: 4096.0 | grad norm: 178.553 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 13.276 | TFLOPs: 101.54 |"
# argonne-lcf/Megatron-DeepSpeed, megatron/training_log.py
ARGONNE = "[2024-06-21 10:50:42][INFO][training:1609] -  iteration=       1/  317892 | consumed_samples=         768 | consumed_tokens=     3145728 | elapsed_time_per_iteration_ms=108893.2 | learning_rate=1.88743e-08 | global_batch_size=  768 | lm loss=11.133188 | loss_scale=1.0 | actual_seqlen= 4096 | number_of_skipped_iterations=  0 | number_of_nan_iterations=  0 | samples_per_second=7.053 | tokens_per_gpu_per_second_tgs=1203.674 | [LM]-TFLOPs=49.66 | [DS]-TFLOPs=73.32 |"
# Megatron-Bridge under NeMo-Run, NVIDIA/cloudai
BRIDGE = "ain_fp8_mx/0  [2025-12-22 15:18:33] iteration       50/      50 | consumed samples:        25600 | elapsed time per iteration (ms): 9089.0 | learning rate: 3.000000E-05 | global batch size:   512 | lm loss: 8.114214E+00 | load_balancing_loss: 1.000000E+00 | loss scale: 1.0 | grad norm: 0.042 | number of skipped iterations:   0 | number of nan iterations:   0 |"
# NVIDIA/cloudai, MegatronRun
CORE = "[2026-01-16 07:32:24] iteration        5/     100 | consumed samples:        10240 | elapsed time per iteration (ms): 15800.0 | throughput per GPU (TFLOP/s/GPU): 490.0 | learning rate: 4.134000E-07 | global batch size:  2048 | lm loss: 1.344240E+01 | seq_load_balancing_loss: 1.000203E+00 | loss scale: 1.0 | grad norm: 2.870 | num zeros: 1174412544.0 | params norm: 8660.607 | number of skipped iterations:   0 | number of nan iterations:   0 |"
# AMD-AGI/Primus, as its log collector forwards it: the padding collapsed
PRIMUS = "[20251202 06:56:28][rank-7/8][INFO ] [--------trainer.py:2560] : iteration 4408/ 5000 | consumed samples: 564224 | elapsed time per iteration (ms): 13100.0/13240.9 | hip mem usage/free/total/usage_ratio: 153.81GB/102.17GB/255.98GB/60.09% | throughput per GPU (TFLOP/s/GPU): 579.4/573.6 | tokens per GPU (tokens/s/GPU): 10005.5/9903.7 | learning rate: 3.421949E-07 | global batch size: 128 | lm loss: 4.142716E-03 | loss scale: 1.0 | grad norm: 0.003 | number of skipped iterations: 0 | number of nan iterations: 0 |"
# aws-samples, Megatron under `srun -l`: iterations wider than their column
SRUN = "1:  iteration       25/73242187 | consumed samples:           50 | elapsed time per iteration (ms): 87.0 | learning rate: 1.638E-08 | global batch size:     2 | lm loss: 1.086954E+01 | loss scale: 4294967296.0 | grad norm: 0.000 | number of skipped iterations:   0 | number of nan iterations:   0 |"
# a fork that logs the loss of each codebook
CODEBOOKS = " iteration      100/     100 | consumed samples:         1600 | elapsed time per iteration (ms): 87.0 | lm loss: 1.320000E+01 | text loss: 8.420000E+00 | audio loss mean: 5.000000E+00 | audio loss k0: 4.790000E+00 | loss scale: 1.0 | grad norm: 5.7 |"
# EleutherAI/gpt-neox, megatron/logging.py
NEOX = " samples/sec: 3.456 | iteration       10/  320000 | elapsed time per iteration (ms): 1157.4 | learning rate: 6.000E-06 | approx flops per GPU: 31.2TFLOPS | lm_loss: 1.077133E+01 | loss scale: 4096.0 | number of skipped iterations:   0 | number of nan iterations:   0 |"
# Megatron-LM's megatron/rl: without a last iteration
ENDLESS = " iteration       12/infinity | consumed samples:          384 | elapsed time per iteration (ms): 0.0 | learning rate: 1.000E-06 | global batch size:    32 | lm loss: 1.217154E-02 | loss scale: 1.0 | grad norm: 0.173 | number of nan iterations:   0 |"


def read(*lines: str) -> RunReading:
    """The reading of these lines."""
    return scrape_text("".join(f"{line}\n" for line in lines).encode(), name="x").runs[0]


@pytest.mark.parametrize(
    ("line", "step", "seconds", "loss", "tflops", "tokens"),
    [
        (FIRST, 100, 1.2034, 7.123456, None, None),
        (BERT, 20, 0.1406, 10.05022, None, None),
        (NO_LOSS, 9, 1.9792, None, 127.0, 2069.506),
        (NAN_NORM, 5426, 4.2479, None, 78.36, None),
        (SECONDS, 10, 7.231, 10.10967, 101.54, None),
        (ARGONNE, 1, 108.8932, 11.133188, 49.66, 1203.674),
        (BRIDGE, 50, 9.089, 8.114214, None, None),
        (CORE, 5, 15.8, 13.4424, 490.0, None),
        (PRIMUS, 4408, 13.1, 0.004142716, 579.4, 10005.5),
        (SRUN, 25, 0.087, 10.86954, None, None),
        (NEOX, 10, 1.1574, 10.77133, None, None),
        (CODEBOOKS, 100, 0.087, 13.2, None, None),
        (ENDLESS, 12, 0.0, 0.01217154, None, None),
    ],
)
def test_a_row(
    line: str, step: int, seconds: float, loss: float | None, tflops: float | None, tokens: float | None
) -> None:
    run = read(line)
    row = run.steps.row(0, named=True)
    found = (row["step"], row["seconds"], row["loss"], row["tflops_per_device"], row["tokens_per_s_per_device"])
    assert found == (step, seconds, loss, tflops, tokens)
    assert (run.coverage.step_lines_seen, run.coverage.step_lines_parsed, run.coverage.glued_lines) == (1, 1, 0)
    # every bar of the line except the head's ends one field
    assert len([key for key in row if row[key] is not None]) >= line.count("|")


def test_lines_of_some_versions_only() -> None:
    assert read(BERT).steps["sop loss"].to_list() == [0.8174902]
    assert math.isnan(read(NAN_NORM).steps["grad norm"][0])
    assert read(ARGONNE).steps["time"].to_list() == ["2024-06-21T10:50:42"]
    assert read(BRIDGE).steps["time"].to_list() == ["2025-12-22T15:18:33"]
    assert read(PRIMUS).steps["tflops_per_device (average)"].to_list() == [573.6]
    assert read(CODEBOOKS).coverage.unknown_keys == ("audio loss k0", "audio loss mean", "text loss")


def test_throughput_on_the_previous_line() -> None:
    # NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/training/utils/train_utils.py
    printed = "ain_fp8_mx/0 Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU"
    assert read(printed, BRIDGE).steps["tflops_per_device"].to_list() == [663.5]
    other = printed.replace("9.09", "7.11")  # for a missing row
    assert read(other, BRIDGE).steps["tflops_per_device"].to_list() == [None]


def test_a_skipped_iteration_has_its_own_format() -> None:
    # Megatron-LM core 0.11, log interval 10: the last of the ten was skipped, so there is no norm
    rows = [
        " [2025-04-13 23:41:20] iteration       20/    1000 | consumed samples:          320 | elapsed time per iteration (ms): 820.7 | learning rate: 4.000000E-05 | global batch size:    16 | lm loss: 1.072453E+01 | loss scale: 131072.0 | grad norm: 3.874 | num zeros: 71.0 | number of skipped iterations:   6 | number of nan iterations:   0 |",
        " [2025-04-13 23:41:28] iteration       30/    1000 | consumed samples:          480 | elapsed time per iteration (ms): 821.8 | learning rate: 9.000000E-05 | global batch size:    16 | lm loss: 1.038769E+01 | loss scale: 4096.0 | number of skipped iterations:   5 | number of nan iterations:   0 |",
        " [2025-04-13 23:41:37] iteration       40/    1000 | consumed samples:          640 | elapsed time per iteration (ms): 849.8 | learning rate: 9.998165E-05 | global batch size:    16 | lm loss: 9.992319E+00 | loss scale: 4096.0 | grad norm: 2.357 | num zeros: 881.0 | number of skipped iterations:   0 | number of nan iterations:   0 |",
    ]
    run = read(*rows)
    assert run.steps["grad norm"].to_list() == [3.874, None, 2.357]
    assert run.coverage.step_lines_parsed == 3
    # without a skipped iteration, a missing norm was lost
    lost = read(rows[0], rows[1].replace("iterations:   5", "iterations:   0"), rows[2])
    assert (lost.steps["step"].to_list(), [line.line for line in lost.coverage.unread]) == ([20, 40], [2])


@pytest.mark.parametrize(
    ("whole", "damaged"),
    [
        ("lm loss: 1.038769E+01 | loss scale: 4096.0", "lm loss: 1.0396.0"),  # two numbers merged into one
        ("lm loss: 1.038769E+01", "lm loss: 1.08769E+01"),
        ("lm loss: 1.038769E+01", "lm loss: -34"),
        ("lm loss: 1.038769E+01", "lm loss: 1.038769E+801"),
        ("lm loss: 1.038769E+01 | loss scale", "lm lo scale"),
        ("         480 |", "         40 |"),
        ("      30/    1000", "      3/    1000"),
        ("    1000 | consumed", "    100 | consumed"),
        ("| lm loss: 1.038769E+01 ", ""),
        ("iteration       30/", "iter       30/"),
    ],
)
def test_a_damaged_row_is_rejected(whole: str, damaged: str) -> None:
    row = " [2025-04-13 23:41:28] iteration {step:8d}/    1000 | consumed samples: {samples:12d} | elapsed time per iteration (ms): 821.8 | learning rate: 9.000000E-05 | global batch size:    16 | lm loss: 1.038769E+01 | loss scale: 4096.0 | grad norm: 2.357 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    rows = [row.format(step=step, samples=step * 16) for step in (20, 30, 40, 50)]
    assert whole in rows[1]
    run = read(rows[0], rows[1].replace(whole, damaged), *rows[2:])
    assert run.steps["step"].to_list() == [20, 40, 50]
    assert (run.coverage.step_lines_seen, run.coverage.step_lines_parsed) == (4, 3)
    assert [line.line for line in run.coverage.unread] == [2]


def test_memory_timers_and_parameters() -> None:
    run = read(
        " > number of parameters on model parallel rank 0: 178100224",  # Megatron-LM before 2021
        "> number of parameters on (tensor, pipeline) model parallel rank (1, 0)=5933109248",  # Argonne
        CORE,
        "[Rank 0] (after 5 iterations) memory (GB) | mem-allocated-gigabytes: 10.5 | mem-max-allocated-gigabytes: 20.25 | mem-max-reserved-gigabytes: 30.0 |",
        "[2024-06-21 10:50:42][INFO][utils:190] - [Rank 1] (after 1 iterations) memory (MB) | allocated: 18243.64111328125 | max allocated: 50664.2548828125 | reserved: 54556.0 | max reserved: 54556.0",
        "time (ms) | forward-compute: 193.77 | backward-compute: 73.02 | optimizer: 63.01 | batch-generator: 25.27",
        "(min, max) time across ranks (ms):",
        "    train/valid/test-data-iterators-setup ..........: (114.59, 115.60)",
    )
    assert run.rank_memory.select("rank", "max_allocated_gb", "max_reserved_mb").rows() == [
        (0, 20.25, None), (1, None, 54556.0),
    ]  # fmt: skip
    assert {(entry["tensor"], entry["pipeline"]): entry["parameters"] for entry in run.ranks if entry["parameters"]} == {
        (0, 0): 178100224, (1, 0): 5933109248,
    }  # fmt: skip
    assert run.timers.select("timer", "min_ms", "max_ms").rows() == [
        ("forward-compute", 193.77, 193.77), ("backward-compute", 73.02, 73.02), ("optimizer", 63.01, 63.01),
        ("batch-generator", 25.27, 25.27), ("train/valid/test-data-iterators-setup", 114.59, 115.6),
    ]  # fmt: skip
    written = json.loads(json.dumps(run.model_dump()))
    read_again = type(run).model_validate(written)
    assert_frame_equal(read_again.timers, run.timers)
    assert [rank["memory"] for rank in written["ranks"] if rank["rank"] == 0] == [[
        {"iterations": 5, "allocated_gb": 10.5, "max_allocated_gb": 20.25, "max_reserved_gb": 30.0, "line": 4,
         "offset": run.rank_memory["offset"][0]}
    ]]  # fmt: skip
    assert_frame_equal(read_again.rank_memory, run.rank_memory)
    assert read_again.ranks == run.ranks
    assert run.timers["line"].to_list() == [6, 6, 6, 6, 8]


def test_the_memory_row_of_the_first_versions() -> None:
    # NVIDIA/Megatron-LM issue 5
    run = read(
        FIRST,
        "after 100 iterations memory (MB) | allocated: 5133.326171875 | max allocated: 7899.060546875 | cached: 9324.0 | max cached: 9324.0",
    )
    assert run.rank_memory.drop("offset").rows(named=True) == [
        {"rank": 0, "iterations": 100, "allocated_mb": 5133.326171875, "max_allocated_mb": 7899.060546875, "cached_mb": 9324.0, "max_cached_mb": 9324.0, "line": 2}
    ]  # fmt: skip


def test_a_memory_row_without_its_bracket_is_not_rank_0s() -> None:
    row = "[Rank 14] (after 63 iterations) memory (MB) | allocated: 1.5 | max allocated: 2.5 | reserved: 4.0"
    assert read(FIRST, row).rank_memory["rank"].to_list() == [14]
    assert read(FIRST, row.replace("iterations)", "iterations")).rank_memory.is_empty()


def test_memory_rows_with_missing_numbers() -> None:
    """A row has the numbers that it printed, in the table and in JSON, whatever the other rows of its rank have."""
    run = read(
        CORE,
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: 1.5 | reserved: 4.0",
        "[Rank 0] (after 2 iterations) memory (MB) | allocated: 2.5 | max allocated: 3.5",
    )
    assert run.rank_memory.drop("offset").rows(named=True) == [
        {"rank": 0, "iterations": 1, "allocated_mb": 1.5, "reserved_mb": 4.0, "max_allocated_mb": None, "line": 2},
        {"rank": 0, "iterations": 2, "allocated_mb": 2.5, "reserved_mb": None, "max_allocated_mb": 3.5, "line": 3},
    ]
    first, second = run.model_dump()["ranks"][0]["memory"]
    assert list(first) == ["iterations", "allocated_mb", "reserved_mb", "line", "offset"]
    assert list(second) == ["iterations", "allocated_mb", "max_allocated_mb", "line", "offset"]


def test_checkpoints() -> None:
    run = read(
        "WARNING: could not find the metadata file /ckpt/GPT2/latest_checkpointed_iteration.txt",
        "    will not load any checkpoints and will start from random",
        CORE,
        "saving checkpoint at iteration     100 to /ckpt/GPT2 in torch_dist format",
        "  scheduled an async checkpoint save at iteration     100 to /ckpt/GPT2",
        CORE.replace("5/", "6/"),
        "  successfully saved checkpoint from iteration     100 to /ckpt/GPT2 [ t 1/1, p 1/1 ]",
        "saving checkpoint at iteration     200 to /ckpt/GPT2 in torch_dist format",
    )
    assert run.facts["checkpoint_not_found"]["value"].endswith("latest_checkpointed_iteration.txt")
    assert [(event.step, event.path, event.committed, event.line) for event in run.checkpoints] == [
        (100, "/ckpt/GPT2", True, 4), (200, "/ckpt/GPT2", None, 8),
    ]  # fmt: skip
    loaded = read("  successfully loaded checkpoint from /ckpt [ t 1/2, p 1/4 ] at iteration 500", CORE)
    assert (loaded.facts["restored_from"]["value"], loaded.facts["restored_step"]["value"]) == ("/ckpt", 500)


def test_validation_rows() -> None:
    run = read(
        CORE,
        " validation loss at iteration 5 | lm loss value: 8.889540E+00 | lm loss PPL: 7.255679E+03 | ",
        " validation loss at iteration 5 on validation set | lm loss value: 2.922429E+00 | lm loss PPL: 1.858637E+01 | ",
        " validation loss at the end of training for test data | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 | ",
        " validation loss at iteration 5 | lm loss value: 8.8897.255679E+03 | ",
        " validation loss at iteration 5 | lm loss value: 8.88940E+00 | lm loss PPL: 7.255679E+03 | ",
    )
    assert [(row["step"], row["loss"], row["set"]) for row in run.evals] == [
        (5, 8.88954, None), (5, 2.922429, "validation set"), (5, 2.9, "the end of training for test data"),
    ]  # fmt: skip
    assert [line.line for line in run.coverage.unread] == [5, 6]


def test_validation_rows_of_gpt_neox() -> None:
    # EleutherAI/gpt-neox, megatron/training.py, evaluate_and_print_results
    run = read(
        NEOX,
        " validation results at iteration 10 | lm_loss value: 6.912345E+00 | lm_loss_ppl value: 1.004600E+03 | ",
        " test results at the end of training for test data | lm_loss value: 6.5E+00 | lm_loss_ppl value: 6.7E+02 | ",
        " test results at iteration 10 | lm_loss value: 6.5E+00 | lm_loss_ppl value: 6.7E+02 | ",
        " validation results at iteration 10 | lm_loss value: 6.912345E+00 | lm_loss_ppl val",
    )
    assert [(row["step"], row["loss"], row["perplexity"], row["set"]) for row in run.evals] == [
        (10, 6.912345, 1004.6, None), (10, 6.5, 670.0, "the end of training for test data"), (10, 6.5, 670.0, "test"),
    ]  # fmt: skip
    assert [line.line for line in run.coverage.unread] == [5]


WATCHDOG = "[rank3]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=131072000, NumelOut=131072000, Timeout(ms)=600000) ran for 600081 milliseconds before timing out."
CHILD = [
    "Traceback (most recent call last):",
    '  File "/usr/bin/torchrun", line 8, in <module>',
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "============================================================",
    "pretrain_gpt.py FAILED",
    "------------------------------------------------------------",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2025-05-21_15:43:03",
    "  rank      : 0 (local_rank: 0)",
    "  exitcode  : -9 (pid: 14750)",
    "  error_file: <N/A>",
    "  traceback : Signal 9 (SIGKILL) received by PID 14750",
]


@pytest.mark.parametrize(
    ("lines", "kind", "line"),
    [
        ([WATCHDOG, *CHILD], "NCCL", 2),
        (CHILD, "SIGKILL", 12),
        # NVIDIA/Megatron-LM issue 1880
        (["E1223 05:18:02.971000 3304089 site-packages/torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: -11) local_rank: 0 (pid: 3304209) of binary: python3.12"], "SIGSEGV", 2),
        (["terminate called after throwing an instance of 'c10::AcceleratorError'", "  what():  CUDA error: misaligned address", *CHILD], "c10::AcceleratorError", 2),
        (["slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0. Some of the step tasks have been OOM Killed."], "slurmstepd", 2),
        # NVIDIA-NeMo/Megatron-Bridge issue 3427: SLURM with its own time
        (["[2026-04-20T03:25:23.011] error: *** STEP 1942963.1 ON n1 CANCELLED AT 2026-04-20T03:25:23 DUE TO TIME LIMIT ***"], "slurmstepd", 2),
        (["srun: error: o0616: task 0: Out Of Memory"], "srun", 2),
        (["srun: error: o0616: tasks 0-3: Killed"], "SIGKILL", 2),
        # saforem2/ezpz issue 210
        (["x4112c1s0b0n0: rank 0 died from signal 11 and dumped core", "x4112c1s0b0n0: rank 4 died from signal 9"], "SIGSEGV", 2),
        (["mpirun noticed that process rank 3 with PID 0 on node a exited on signal 9 (Killed)."], "SIGKILL", 2),
        (["[2023-07-05 15:08:29,918] [ERROR] [launch.py:321:sigkill_handler] ['python3'] exits with return code = -9"], "SIGKILL", 2),
        # Lightning-AI/pytorch-lightning issue 20434
        (["./pretrain.sh: line 184: 2324239 Aborted                 (core dumped) python a.py"], "SIGABRT", 2),
        # facebookresearch/ParlAI issue 3084, without any other message
        (["srun: error: n1: tasks 2-7: Exited with exit code 1", "srun: error: n2: task 14: Exited with exit code 1"], "srun", 2),
        # WM-PO/WMPO issue 3, ray-project/ray issue 47461
        (["(raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed"], "killed due to memory pressure", 2),
        (["(raylet) A worker died or was killed while executing a task by an unexpected system error."], "A worker died or was killed while executing a task by an unexpected system error.", 2),
        # alibaba/Pai-Megatron-Patch issue 21
        (["finetune.py: error: unrecognized arguments: --DDP-impl local", *CHILD[:3]], "ArgumentError", 2),
        (["Fatal Python error: Segmentation fault", "", "Current thread 0x00007f (most recent call first):"], "Fatal Python error", 2),
        (["slurmstepd: error: *** JOB 123 ON node1 CANCELLED AT 2024-05-01T10:00:00 DUE TO TIME LIMIT ***"], "slurmstepd", 2),
        (["[rank1]: Traceback (most recent call last):", '[rank1]:   File "a.py", line 1', "[rank1]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", WATCHDOG, *CHILD], "RuntimeError", 4),
    ],
)  # fmt: skip
def test_cause_of_death(lines: list[str], kind: str, line: int) -> None:
    error = read(CORE, *lines).error
    assert error is not None
    assert (error.type, error.line) == (kind, line)


def test_an_error_followed_by_steps_is_not_a_death() -> None:
    assert read(WATCHDOG, CORE).error is None
    assert read("srun: error: o0616: task 0: Out Of Memory", CORE).error is None


def test_an_error_after_the_end_is_not_a_death() -> None:
    # NVIDIA-NeMo/Megatron-Bridge issue 3427: it does not exit, and is cancelled eight minutes later
    done = "[after training is done] datetime: 2026-04-20 03:17:08"
    late = "slurmstepd: error: *** STEP 1942963.1 ON n1 CANCELLED AT 2026-04-20T03:25:23 DUE TO TIME LIMIT ***"
    assert read(CORE, done, late).error is None


@pytest.mark.parametrize(
    ("said", "fate"),
    [
        ("[exiting program after receiving SIGTERM.] datetime: 2026-09-06 17:57:10", "preempted"),
        ("[exiting program after 690.0159624854724 minutes] datetime: 2026-08-25 19:54:10", "unknown"),
    ],
)
def test_a_run_that_stopped_early_without_an_error(said: str, fate: str) -> None:
    run = read(CORE, said)
    assert (run.fate, run.coverage.complete) == (fate, True)


def test_an_eviction_explains_errors_that_it_may_have_caused() -> None:
    evicted = "The node was low on resource: memory. Container main was using 35505620Ki"
    error = read(CORE, evicted, *CHILD).error
    assert error is not None
    assert (error.type, error.kind, error.line) == ("SIGKILL", "host_oom", 13)
    assert "line 2 says" in error.why


def test_a_rank_that_only_lost_a_peer_is_not_the_cause() -> None:
    # NVIDIA/nccl issue 1928: rank 3's message is printed first
    error = read(
        CORE,
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "a.py", line 281, in _verify',
        "[rank3]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3763, remote process exited or there was a network error, NCCL version 2.28.8",
        "[rank3]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "[rank2]: Traceback (most recent call last):",
        '[rank2]:   File "a.py", line 301, in <module>',
        "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        *CHILD,
    ).error
    assert error is not None
    assert (error.type, error.kind, error.line) == ("torch.OutOfMemoryError", "device_oom", 8)
    assert error.why.startswith("1 more only reports ")


def test_the_exception_of_a_ray_worker() -> None:
    # THUDM/slime issue 795: its frames follow the driver's, without a separate header
    error = read(
        CORE,
        "Traceback (most recent call last):",
        '  File "/w/slime/train.py", line 106, in <module>',
        "    train(args)",
        "ray.exceptions.RayTaskError(RuntimeError): ray::MegatronTrainRayActor.train() (pid=2407496, ip=172.17.0.2)",
        '  File "/w/Megatron-LM/megatron/core/rerun_state_machine.py", line 500, in validate_result',
        "    raise RuntimeError(full_message)",
        "RuntimeError: Rank 3, iteration 29: Unexpected result nan (message='found NaN in local forward loss')",
    ).error
    assert error is not None
    assert (error.type, error.kind, error.line) == ("RuntimeError", "nan", 8)


WHOLE = CORE.replace("15800.0", "15800")  # an unknown trainer's field, but a valid number


@pytest.mark.parametrize("line", [CORE, PRIMUS, BERT, SECONDS, ARGONNE, NO_LOSS, WHOLE])
def test_rows_read_in_bulk_equal_rows_read_one_by_one(line: str) -> None:
    step = re.search(r"iteration[ =]( *\d+)", line)
    assert step is not None
    lines = [
        line[: step.start(1)] + f"{number:{len(step[1])}d}" + line[step.end(1) :].replace("7.", f"{number}.")
        for number in range(300)
    ]
    text = "".join(f"{line}\n" for line in lines).encode()
    frames = []
    for live in (False, True):
        table = StepTable(megatron.DIALECT, live=live)
        for window in windows([text[:50_000], text[50_000:]]):
            table.add(window)
        frames.append(table.frame())
    together, single = frames
    assert together.height == 300
    assert 0 < together["seconds"].max() < 500  # type: ignore[operator]
    for one, other in zip(together.iter_rows(named=True), single.iter_rows(named=True), strict=True):
        assert one == other


def test_a_row_with_two_losses_is_two_rows() -> None:
    """Text of another row, moved into this one, has its loss under a shorter name."""
    rows = [CORE.replace(" 5/", f" {n}/") for n in (5, 6, 7, 8)]
    rows[1] = rows[1].replace("lm loss: ", "lm loss: 4.028905E+00 |loss: ")
    run = read(*rows)
    assert run.steps["step"].to_list() == [5, 7, 8]
    assert (run.coverage.step_lines_seen, run.coverage.step_lines_parsed) == (4, 3)


def test_text_before_a_row_on_its_line_is_read() -> None:
    """Two rows share a line, and the second one's format is used for the others."""
    rows = [BERT.replace("  20/", f"{number:4d}/") for number in range(5, 131)]
    run = read(rows[0] + rows[1], *rows[2:])
    assert run.steps["step"].to_list() == [*range(5, 131)]
    table = StepTable(megatron.DIALECT)
    marks = [f"rank {number} forward start tensor 1 {row}" for number, row in enumerate(rows)]
    (window,) = windows(["".join(f"{line}\n" for line in marks).encode()])
    gaps = table.add(window)
    assert table.frame()["step"].to_list() == [*range(5, 131)]
    assert sum(b" forward start " in window.data[begin:end] for begin, end in gaps) == len(marks)


@pytest.mark.parametrize("broken", ["iteration (ms)", "consumed samples", "lm loss"])
def test_a_row_without_its_head_and_both_ends_is_reported(broken: str) -> None:
    """Neither the time nor the last count of such a row is recognisable, but the fields between them are."""
    rows = [CORE.replace(" 5/", f" {n}/") for n in (5, 6, 7, 8)]
    begin = rows[1].index(broken) + len(broken)
    rows[1] = rows[1][: rows[1].index("teration")] + rows[1][begin:].replace("nan iterations", "nan iterat")
    run = read(*rows)
    assert run.steps["step"].to_list() == [5, 7, 8]
    assert (run.coverage.step_lines_seen, [line.line for line in run.coverage.unread]) == (4, [2])


def test_an_event_with_an_impossible_number() -> None:
    run = read(
        CORE, "rank 1 forward start tensor 00", "rank 01 forward start tensor 0", "rank 1 forward start tensor 0"
    )
    assert [event["line"] for event in run.schedule] == [4]
    assert [line.line for line in run.coverage.unread] == [2, 3]


# AMD-AGI/Primus of 2026, print_rank_last_patches.py: fields joined with bars, none behind the last, then a colour reset
PRIMUS_2026 = "\x1b[34m[20260708 09:03:{step:02}][rank-7/8][DEBUG] [-----utils.py:{at}] : [2026-07-08 09:03:{step:02}] iteration {step:8}/     500 | consumed samples: {samples:12} | elapsed time per iteration (ms): 1891.8/1888.6 | compute per GPU (TFLOP/s/GPU): 654.2 (avg 655.3)  | tokens/s/GPU inst/harmonic mean: 692.9/694.0 | learning rate: 4.400000E-05 | global batch size:     8 | lm loss: 1.018988E+01 | loss scale: 1.0 | grad norm: 100.835 | number of skipped iterations:   0 | number of nan iterations:   0{memory}\x1b[0m"
HIP = " | hip mem usage/free/total/usage_ratio: 63.94GB/224.04GB/287.98GB/22.20%"
ROCM = "  | rocm mem usage/free/total/usage_ratio: 63.51GB/224.47GB/287.98GB/22.05% | rank-{rank} rocm max mem usage/usage_ratio: 79.55GB/27.62%"


def primus(step: int, *, memory: str = HIP + ROCM, at: int = 429) -> str:
    return PRIMUS_2026.format(step=step, samples=8 * step, at=at, memory=memory.format(rank=step % 8))


@pytest.mark.parametrize("memory", ["", HIP, HIP + ROCM], ids=["no memory", "hip", "rocm"])
def test_a_row_of_primus_ends_without_a_bar(memory: str) -> None:
    run = read(*(primus(step, memory=memory) for step in range(11, 17)))
    first = run.steps.row(0, named=True)
    assert run.steps["step"].to_list() == [11, 12, 13, 14, 15, 16]
    assert (run.coverage.unread, run.coverage.unknown_keys, run.coverage.gaps) == ((), (), ())
    assert (first["seconds"], first["seconds (average)"], first["loss"]) == (1.8918, 1.8886, 10.18988)
    assert (first["tflops_per_device"], first["tflops_per_device (average)"]) == (654.2, 655.3)
    assert (first["tokens_per_s_per_device"], first["tokens_per_s_per_device (average)"]) == (692.9, 694.0)
    assert first["number of nan iterations"] == 0
    if memory == HIP + ROCM:
        assert set(run.steps["rocm max mem usage/usage_ratio"]) == {"79.55GB/27.62%"}


@pytest.mark.parametrize("left", range(40, 700, 23))
def test_a_truncated_row_without_a_last_bar_is_reported(left: int) -> None:
    """A field without a bar counts only if its text shows that it is complete."""
    cut = primus(13)[:left].rstrip()
    run = read(primus(11), primus(12), cut, primus(14))
    whole = cut.endswith(("%", "nan iterations:   0"))
    assert run.steps["step"].to_list() == ([11, 12, 13, 14] if whole else [11, 12, 14])
    assert whole or "iteration" not in cut.rpartition("]")[2] or len(run.coverage.unread) == 1 or run.coverage.gaps


def test_rows_printed_twice_by_primus_count_once() -> None:
    """On one node its first and its last rank print each row: equal values, different source lines."""
    run = read(*(primus(step, at=at) for step in range(1, 6) for at in (425, 429)))
    assert run.steps["step"].to_list() == [1, 2, 3, 4, 5]
    assert run.coverage.rewinds == 0


# a fork of 2026 on 128 nodes: words in `consumed tokens` and `eta`
ETA = "3:  [2026-05-29 03:52:45] iteration {step:8}/     300 | consumed samples:       307200 | consumed tokens: 1.258B | elapsed time per iteration (ms): 131064.1 | eta: {eta} | tokens/sec/gpu: 8000.5 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 1.100000E-05 | global batch size:  1024 | lm loss: 1.504590E+00 | loss scale: 1.0 | grad norm: 0.623 | number of skipped iterations:   0 | number of nan iterations:   0 |"
ITERATION_TIME = " iteration {step:8}/     300 | eta: {eta} | samples/sec: 45.3 | lm loss: 1.504590E+00 | iteration time: {time} | grad norm: 0.623 |"


def test_columns_of_forks_are_read_by_their_names() -> None:
    run = read(ETA.format(step=298, eta="1 day, 0:02:10"), ETA.format(step=299, eta="0:02:11"))
    assert run.steps["seconds"].to_list() == [131.0641] * 2
    assert run.steps["tokens_per_s_per_device"].to_list() == [8000.5] * 2
    assert run.steps["eta"].to_list() == ["1 day, 0:02:10", "0:02:11"]
    for time, seconds in (("2.512 s", 2.512), ("2512.4 ms", 2.5124)):
        run = read(*(ITERATION_TIME.format(step=step, eta="0:02:11", time=time) for step in (1, 2, 3)))
        assert run.steps["seconds"].to_list() == [seconds] * 3
        assert run.steps["samples/sec"].to_list() == [45.3] * 3
    without_unit = ITERATION_TIME.format(step=1, eta="0:02:11", time="2.512")
    assert len(read(without_unit, without_unit.replace("1/", "2/")).coverage.unread) == 2


LOADED = "  successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration 50"
RESUMED = " [2026-08-04 01:02:00] iteration {step:8}/      80 | consumed samples:         1600 | elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): 4.5 | learning rate: 1.100000E-05 | global batch size:    32 | lm loss: 2.500000E+00 | loss scale: 1.0 | grad norm: 6.321 | number of skipped iterations:   0 | number of nan iterations:   0 |"


@pytest.mark.parametrize(
    ("rows", "mean"),
    [
        # 52 took 1.0 s: (5.0 + 1.0) / 2 is printed
        ({51: 5.0, 52: 3.0, 53: 1.0, 54: 1.01, 55: 0.99}, 3.0),
        # an older version: 52 is an ordinary step; as a mean its time would be negative
        ({51: 5.0, 52: 1.02, 53: 1.0, 54: 1.01, 55: 0.99}, None),
        # every tenth row, and the first out of turn
        ({51: 5.0, 60: 1.4, 70: 1.0, 80: 1.01}, 1.4),
        ({60: 1.4, 70: 1.0, 80: 1.01}, None),
    ],
)
def test_the_second_row_after_a_resume_is_not_a_single_step(rows: dict[int, float], mean: float | None) -> None:
    """NVIDIA/Megatron-LM issue 6237: the timer is not reset after the first row."""
    run = read(LOADED, *(RESUMED.format(step=step, ms=1000 * seconds) for step, seconds in rows.items()))
    assert run.steps["step"].to_list() == list(rows)
    assert run.coverage.unknown_keys == ()
    expected = [None if seconds == mean else seconds for seconds in rows.values()]
    assert run.steps["seconds"].to_list() == expected
    assert ("seconds (average)" in run.steps.columns) == (mean is not None)
    if mean is not None:
        assert run.steps["seconds (average)"].to_list()[1] == mean
        assert run.steps["loss"].null_count() == 0
