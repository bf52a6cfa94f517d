# ruff: noqa: E501 – the lines of these logs are long
"""Megatron's logs: the founding document's figures, rows of related trainers, and rows that must not be read."""

import glob
import re
from pathlib import Path

import pytest

from tasks.records.log_reading import RunReading
from tasks.scrape.read_log import scrape, scrape_text

ROW = (
    " [2025-06-28 18:42:{second:02d}] iteration {step:8d}/      20 | consumed samples: {samples:12d} | elapsed time per "
    "iteration (ms): 4493.2 | learning rate: 1.500000E-04 | global batch size:    16 | lm loss: {loss:.6E} | "
    "loss scale: 4096.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
# megatron/training/training.py of NVIDIA/Megatron-LM: a skipped fp16 iteration has neither loss nor norm
SKIPPED = (
    " [2025-06-28 18:42:27] iteration        1/      20 | consumed samples:           16 | elapsed time per iteration (ms): "
    "4493.2 | learning rate: 0.000000E+00 | global batch size:    16 | loss scale: 4294967296.0 | number of skipped "
    "iterations:   1 | number of nan iterations:   0 |"
)
# bigscience-workshop/bigscience, chronicles of BLOOM: Megatron-DeepSpeed under torchrun
BLOOM = (
    "[default7]: iteration    94768/  115311 | consumed samples:    177927088 | consumed tokens: 364394676224 | elapsed time "
    "per iteration (s): 215.82 | learning rate: 7.610E-06 | global batch size:  2048 | lm loss: 1.943883E+00 | grad norm: "
    "0.128 | num zeros: 0.0 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 9.490 "
    "| TFLOPs: 145.31 |"
)
# AMD-AGI/Primus, primus/modules/trainer/megatron/trainer.py: instantaneous/average
PRIMUS = (
    "[20250528 09:03:28][rank-31/32][INFO ] [-----trainer.py:1234] :  iteration        5/      10 | consumed samples:         "
    "1280 | elapsed time per iteration (ms): 21040.5/21043.2 | hip mem usage/free/total/usage_ratio: "
    "150.20GB/41.79GB/191.98GB/78.23% | throughput per GPU (TFLOP/s/GPU): 543.2/543.3 | tokens per GPU (tokens/s/GPU): "
    "9345.1/9343.2 | learning rate: 1.000000E-05 | global batch size:   256 | lm loss: 1.170000E+01 | loss scale: 1.0 | "
    "grad norm: nan | number of skipped iterations:   0 | number of nan iterations:   0 |"
)


def row(step: int, loss: float = 7.5) -> str:
    """A row of Megatron-LM with a loss."""
    return ROW.format(second=step % 60, step=step, samples=step * 16, loss=loss)


def read(*lines: str) -> RunReading:
    """The reading of these lines."""
    return scrape_text("".join(f"{line}\n" for line in lines).encode(), name="x").runs[0]


@pytest.fixture(scope="module")
def seed(seeds: Path) -> RunReading:
    """The founding document's Megatron log."""
    return scrape(seeds / "004_662ed16e02b2db79.txt").runs[0]


def test_seed_arguments(seed: RunReading, seeds: Path) -> None:
    text = (seeds / "004_662ed16e02b2db79.txt").read_text()
    table = text.split(" arguments ---")[1].split("--- end of arguments")[0].splitlines()[1:-1]
    assert list(seed.config) == [line.split()[0] for line in table]
    assert all(value == " ".join(re.sub(r"^  \S+ (\.+ ?)?", "", line).split()) for line, value in zip(
        table, seed.config.values(), strict=True))  # fmt: skip
    assert seed.config["inference_dynamic_batching_buffer_guaranteed_fraction"] == "0.2"
    assert seed.config["adam_eps"] == "1e-08"


def test_seed_parameters_and_memory(seed: RunReading) -> None:
    expected = {0: 156577792, 1: 100741120, 2: 100741120, 3: 152387584}
    found = {(entry["tensor"], entry["pipeline"]): entry["parameters"] for entry in seed.ranks}
    assert found == {(tensor, pipeline): count for tensor in (0, 1) for pipeline, count in expected.items()}
    assert (seed.parameters.count, seed.parameters.printed) == (910_000_000, "0.91 billion")
    assert [entry["rank"] for entry in seed.ranks] == list(range(8))
    memory = {row["rank"]: row for row in seed.rank_memory.iter_rows(named=True)}
    assert sorted(seed.rank_memory["rank"]) == list(range(8))
    assert memory[3]["max_allocated_mb"] == 7150.60791015625
    # the last stage's two ranks hold the same part of the model
    assert memory[6]["allocated_mb"] == memory[7]["allocated_mb"]
    values = {key: fact["value"] for key, fact in seed.facts.items()}
    assert (values["vocab_size"], values["dummy_tokens"], values["padded_vocab_size"]) == (50257, 175, 50432)
    assert (seed.environment.num_devices, seed.environment.mesh) == (8, {"tensor": 2, "pipeline": 4})


def test_seed_row(seed: RunReading) -> None:
    (step,) = seed.steps.to_dicts()
    assert (step["step"], step["seconds"], step["loss"]) == (1, 4.4932, None)
    assert (step["consumed samples"], step["global batch size"], step["learning rate"]) == (16, 16, 0.0)
    assert (step["loss scale"], step["number of skipped iterations"], step["number of nan iterations"]) == (
        2.0**32,
        1,
        0,
    )
    assert step["time"] == "2025-06-28T18:42:27"


def test_seed_schedule(seed: RunReading, seeds: Path) -> None:
    assert len(seed.schedule) == 388
    assert sum(event["after_iteration"] is None for event in seed.schedule) == 256
    assert {event["tensor"] for event in seed.schedule} == set(range(32))
    summary = {entry["rank"]: entry["schedule"] for entry in seed.ranks if entry["schedule"]}
    assert summary[6]["forward"] == summary[7]["forward"] == {"started": 61, "finished": 60}
    assert summary[6]["backward"] == {"started": 36, "finished": 36}
    assert summary[7]["backward"] == {"started": 37, "finished": 37}
    assert [[e["direction"], e["tensor"]] for rank in (6, 7) for e in summary[rank]["in_flight"]] == [
        ["forward", 28]
    ] * 2
    assert all(0 < summary[rank]["idle_share"] < 1 for rank in (6, 7))
    coverage = seed.coverage
    assert (coverage.step_lines_seen, coverage.step_lines_parsed, coverage.glued_lines) == (1, 1, 4)
    assert coverage.truncated
    assert not coverage.complete
    data = (seeds / "004_662ed16e02b2db79.txt").read_bytes()
    for event in seed.schedule:
        text = f"rank {event['rank']} {event['direction']} {event['event']} tensor {event['tensor']}".encode()
        assert data[event["offset"] :].startswith(text)
        assert data.count(b"\n", 0, event["offset"]) + 1 == event["line"]


def test_idle_share_counts_stretches() -> None:
    events = ("0 forward start", "1 forward start", "0 forward finished", "1 forward finished", "0 backward start")
    run = read(*(f"rank {event} tensor 0" for event in events), row(1))
    idle = {entry["rank"]: entry["schedule"]["idle_share"] for entry in run.ranks}
    # rank 0 was busy in 2 of the 4 stretches between its events, rank 1 in both of its own
    assert idle == {0: 0.5, 1: 0.0}


def test_relatives() -> None:
    bloom = read(BLOOM).steps.row(0, named=True)
    assert (bloom["step"], bloom["seconds"], bloom["loss"]) == (94768, 215.82, 1.943883)
    assert (bloom["tflops_per_device"], bloom["consumed tokens"], bloom["grad norm"]) == (145.31, 364394676224, 0.128)
    run = read(PRIMUS)
    primus = run.steps.row(0, named=True)
    assert (primus["seconds"], primus["seconds (average)"]) == (21.0405, 21.0432)
    assert (primus["tflops_per_device"], primus["tokens_per_s_per_device"]) == (543.2, 9345.1)
    assert primus["grad norm"] != primus["grad norm"]
    assert primus["number of nan iterations"] == 0
    assert primus["time"] == "2025-05-28T09:03:28"
    assert run.coverage.glued_lines == 0


@pytest.mark.parametrize("prefix", ["", "[default3]:", "[node-1:3]:", "1: ", "[rank3]: "])
def test_prefixes_are_not_a_second_writer(prefix: str) -> None:
    run = read(prefix + SKIPPED, prefix + row(2).replace("lm loss", "lm-loss"))
    assert run.steps["loss"].to_list() == [None, 7.5]
    assert (run.coverage.glued_lines, run.coverage.step_lines_parsed) == (0, 2)


def test_glued_rows_are_read_and_counted() -> None:
    run = read(row(1) + row(2), row(3) + "rank 6 forward start tensor 0")
    assert run.steps["step"].to_list() == [1, 2, 3]
    assert run.coverage.glued_lines == 2
    assert len(run.schedule) == 1


@pytest.mark.flows
def test_a_truncated_row_is_not_read() -> None:
    whole = f"{row(1)}\n{row(2)}\n".encode()
    begin = whole.index(b"iteration        2")
    for cut in range(begin + len("iteration        2/      20 |"), len(whole) - 2):
        run = scrape_text(whole[:cut], name="x").runs[0]
        assert run.steps["step"].to_list() == [1]
        assert run.coverage.truncated
        assert run.coverage.unread[0].line == 2
    damaged = read(row(1), row(2).replace("7.500000E+00", "7.5#0000E+00"), row(3)).coverage
    assert (damaged.step_lines_seen, damaged.step_lines_parsed, damaged.gaps) == (3, 2, ((2, 2),))


def test_an_interval_is_not_a_gap() -> None:
    assert read(*(row(step) for step in (10, 20, 30, 60, 70))).coverage.gaps == ((40, 50),)
    run = read(*(row(step) for step in (1, 2, 3, 6, 4)))
    assert (run.coverage.gaps, run.coverage.rewinds) == (((4, 5),), 1)


def test_validation_and_checkpoints() -> None:
    run = read(
        row(1),
        "-" * 90,
        " validation loss at iteration 1 | lm loss value: 7.100000E+00 | lm loss PPL: 1.212000E+03 | ",
        "saving checkpoint at iteration       1 to /ckpt in torch_dist format",
        "  successfully saved checkpoint from iteration       1 to /ckpt [ t 1/2, p 1/4 ]",
        "(min, max) time across ranks (ms):",
        "    save-checkpoint ................................: (1234.50, 1240.25)",
        "saving checkpoint at iteration       2 to /ckpt in torch_dist format",
        "[after training is done] datetime: 2025-06-28 18:50:00 ",
        " validation loss at iteration 20 on test set | lm loss value: 6.000000E+00 | lm loss PPL: 4.034000E+02 | ",
    )
    first, second = run.evals
    assert (first["step"], first["loss"], first["perplexity"], first["set"]) == (1, 7.1, 1212.0, None)
    assert (second["step"], second["set"]) == (20, "test set")
    assert [(event.step, event.committed, event.blocking_s) for event in run.checkpoints] == [
        (1, True, 1.24025), (2, False, None),
    ]  # fmt: skip
    assert run.ended == "2025-06-28T18:50:00"
    assert run.coverage.complete


def test_the_first_rank_that_raised_is_the_cause() -> None:
    run = read(
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "one_logger.py", line 3, in <module>',
        "[rank1]: ModuleNotFoundError: No module named 'one_logger'",
        row(1),
        "[rank3]: Traceback (most recent call last):",
        "[rank0]: Traceback (most recent call last):",
        '[rank3]:   File "training.py", line 1, in train',
        '[rank0]:   File "training.py", line 2, in train',
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[rank0]: torch.distributed.DistBackendError: NCCL watchdog",
        "Traceback (most recent call last):",
        '  File "/usr/bin/torchrun", line 8, in <module>',
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    )
    assert run.error is not None
    assert (run.error.type, run.error.line) == ("torch.OutOfMemoryError", 9)
    assert read(*[row(step) for step in range(1, 21)]).error is None


def test_lost_line_breaks(seeds: Path, seed: RunReading) -> None:
    data = Path(glob.glob(str(seeds / "004_*.txt"))[0]).read_bytes()
    run = scrape_text(data.replace(b"\n", b" "), name="x").runs[0]
    assert len(run.schedule) == 388
    assert run.steps.drop("line").equals(seed.steps.drop("line"))
    assert run.parameters.count == seed.parameters.count
    assert {key for key in seed.config if run.config.get(key) != seed.config[key]} == set()


def test_a_number_of_iterations_has_digits_only() -> None:
    """`number of skipped iterations:   1`, with an inserted sign."""
    rows = [ROW.format(second=step, step=step, samples=16 * step, loss=8.0 - step / 10) for step in (1, 2, 3)]
    rows[1] = rows[1].replace("skipped iterations:   0", "skipped iterations:  -1")
    run = read(*rows)
    assert run.steps["step"].to_list() == [1, 3]
    assert run.coverage.step_lines_seen == 3


def test_two_single_formats_of_one_number_are_both_rejected() -> None:
    first, second = (ROW.format(second=step, step=step, samples=16 * step, loss=8.0) for step in (1, 2))
    assert read(first, second).steps.height == 2
    damaged = second.replace("8.000000E+00", "8.00000E+00")
    assert damaged != second
    run = read(first, damaged)
    assert (run.steps.height, len(run.coverage.unread)) == (0, 2)


def test_a_whole_number_narrower_than_its_column_lost_a_digit() -> None:
    rows = [ROW.format(second=step, step=step, samples=16 * step, loss=8.0) for step in range(1, 31)]
    rows[20] = rows[20].replace("batch size:    16", "batch size:    6")
    run = read(*rows)
    assert run.steps["step"].to_list() == [*range(1, 21), *range(22, 31)]


def test_a_number_with_an_inserted_bar_is_damaged_and_its_column_stays_numeric() -> None:
    rows = [ROW.format(second=step, step=step, samples=16 * step, loss=8.0) for step in (1, 2, 3)]
    rows[1] = rows[1].replace("1.500000E-04", "1/500000E-04")
    run = read(*rows)
    assert run.steps["learning rate"].to_list() == [1.5e-4, 1.5e-4]
    assert run.coverage.step_lines_seen == 3


def test_a_row_in_another_unit_is_rejected() -> None:
    rows = [ROW.format(second=step, step=step, samples=16 * step, loss=8.0) for step in (1, 2, 3)]
    rows[1] = rows[1].replace("per iteration (ms)", "per iteration (s)")
    run = read(*rows)
    assert run.steps["step"].to_list() == [1, 3]
    assert [line.line for line in run.coverage.unread] == [2]


def test_a_rank_with_a_leading_zero_is_rejected() -> None:
    lines = [ROW.format(second=n, step=n, samples=n, loss=1.5 + n) for n in (1, 2)]
    for rank, height in (("3", 1), ("03", 0)):
        memory = f"[Rank {rank}] (after 1 iterations) memory (MB) | allocated: 1.5 | reserved: 4.0"
        (run,) = scrape_text("\n".join([lines[0], memory, lines[1], ""]).encode(), name="x").runs
        assert run.steps.height == 2
        assert run.rank_memory.height == height
