# ruff: noqa: E501 – the lines of these logs are long
"""torchtitan's logs, in the formats of its versions (torchtitan/components/metrics.py, MetricsProcessor.log)."""

import pytest

from tasks.records.log_reading import RunReading
from tasks.scrape.read_log import scrape_text

HEAD = "[rank0]:[titan] 2025-06-20 19:13:39,663 - root - INFO - "
NEW = "step: {step:2}  loss: {loss:8.5f}  grad_norm:  8.2782  memory: 87.87GiB(62.89%)  tps: 5,970  tflops: 1,301.33  mfu: 30.47%"
LATE_2024 = "step: {step:2}  loss: {loss:7.4f}  memory: 45.23GiB(47.65%)  tps: 21,734  mfu: 45.10%"


def line(step: int, loss: float = 8.5, form: str = NEW) -> str:
    """A metrics line of rank 0."""
    return HEAD + form.format(step=step, loss=loss)


def read(*lines: str) -> RunReading:
    """The reading of these lines."""
    return scrape_text("".join(f"{line}\n" for line in lines).encode(), name="x").runs[0]


def test_every_field() -> None:
    run = read(line(1, 12.41531), line(10), HEAD + "Training completed")
    assert run.format == "torchtitan"
    assert run.steps.drop("line", "offset").row(0, named=True) == {
        "step": 1, "seconds": None, "tflops_per_device": 1301.33, "tokens_per_s_per_device": 5970.0, "total_weights": None,
        "loss": 12.41531, "grad_norm": 8.2782, "memory_gib": 87.87, "memory_pct": 62.89, "mfu": 30.47,
        "time": "2025-06-20T19:13:39.663",
    }  # fmt: skip
    assert run.coverage.complete
    assert (run.coverage.gaps, run.coverage.unknown_keys, run.coverage.glued_lines) == ((), (), 0)


def test_older_forms() -> None:
    run = read(line(1, form=LATE_2024), line(20, form=LATE_2024), line(30, form=LATE_2024))
    assert run.steps["tokens_per_s_per_device"].to_list() == [21734.0] * 3
    assert run.steps["tflops_per_device"].to_list() == [None] * 3
    share = read(
        HEAD.replace("[titan] ", "")
        + "step: 640/644 = 99.3789%  loss:  6.2116  memory: 87.04GiB(93.48%)  tps: 52,142  mfu: 3.09%"
    )
    assert share.steps["step"].to_list() == [640]
    assert share.steps["time"].to_list() == ["2025-06-20T19:13:39.663"]


def test_colours_do_not_matter() -> None:
    plain = f"{line(1)}\n{line(2)}\n"
    colours = (
        plain.replace("step: ", "\x1b[31mstep: ").replace("loss: ", "\x1b[32mloss: ").replace("%\n", "%\x1b[39m\n")
    )
    first, second = (scrape_text(text.encode(), name="x").runs[0] for text in (plain, colours))
    assert second.steps.equals(first.steps)
    assert second.coverage.unwrapped == ("colour codes",)


def test_facts() -> None:
    run = read(
        HEAD + "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]",
        HEAD + "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.18GiB memory",
        HEAD + "Model llama3 debugmodel size: 6,139,136 total parameters",
        HEAD + "Training starts at step 1.",
        line(1),
        HEAD + "Saving the checkpoint (or staging if async is enabled).",
        HEAD + "Finished saving the checkpoint (or staging if async is enabled)in 5.53 seconds.",
        HEAD + "validate step:  1  loss:  7.1234  memory:  1.42GiB(1.49%)  tps: 3,454",
        line(2),
    )
    assert run.environment.device_kind == "NVIDIA H100 80GB HBM3"
    assert run.environment.mesh == {"dp_shard": 4, "tp": 2}
    assert run.parameters.count == 6139136
    assert [(event.step, event.blocking_s, event.committed) for event in run.checkpoints] == [(1, 5.53, None)]
    assert [(row["step"], row["loss"]) for row in run.evals] == [(1, 7.1234)]
    assert run.started == "2025-06-20T19:13:39.663"
    assert run.steps["step"].to_list() == [1, 2]


def test_the_checkpoint_of_the_last_step() -> None:
    # pytorch/torchtitan pull request 3393: two lines report it, and it is never asynchronous
    run = read(
        line(49),
        line(50),
        HEAD + "Saving the checkpoint.",
        HEAD + "Saving a full checkpoint at last step, step 50.",
        HEAD + "Last step checkpoint completed in 0.52s",
        HEAD + "Training completed",
    )
    (event,) = run.checkpoints
    assert (event.step, event.line, event.blocking_s, event.committed, event.committed_line) == (50, 3, 0.52, True, 5)


def test_the_rank_with_the_loss_is_read() -> None:
    last = "[rank4]:" + line(1)[8:]
    run = read(line(1, -1.0), last, line(2, -1.0), last.replace("step:  1", "step:  2"))
    assert run.steps["loss"].to_list() == [8.5, 8.5]
    assert run.coverage.rewinds == 0
    assert run.ranks == ({"rank": 0, "rows": 2, "last_step": 2}, {"rank": 4, "rows": 2, "last_step": 2})


@pytest.mark.parametrize("lost", [1, 2, 3, 5])
def test_a_row_with_another_ranks_name_is_reported(lost: int) -> None:
    rows = [line(step) for step in range(1, 6)]
    rows[lost - 1] = rows[lost - 1].replace("[rank0]", "[rank08]")
    run = read(*rows)
    assert run.steps["step"].to_list() == [step for step in range(1, 6) if step != lost]
    assert run.coverage.gaps == ((lost, lost),)


@pytest.mark.parametrize(
    ("steps", "gaps"),
    [
        ((1, 2, 3, 4), ()),
        ((1, 10, 20, 30), ()),  # `log_freq: 10`
        ((1, 3, 4, 5), ((2, 2),)),
        ((1, 30, 40, 50), ((10, 20),)),
        ((1, 10, 30, 40, 50), ((20, 20),)),
        ((50, 60, 70), ()),  # resumed at step 40
        ((1, 10), ()),
    ],
)
def test_a_missing_row_is_reported(steps: tuple[int, ...], gaps: tuple[tuple[int, int], ...]) -> None:
    assert read(*map(line, steps)).coverage.gaps == gaps


def test_a_truncated_line_is_not_read() -> None:
    whole = f"{line(1)}\n{line(2)}\n".encode()
    begin = whole.index(b"step:  2")
    for cut in range(begin + len("step:  2  l"), len(whole) - 2):
        run = scrape_text(whole[:cut], name="x").runs[0]
        assert run.steps["step"].to_list() == [1], whole[:cut]
        assert run.coverage.truncated
        assert [line.line for line in run.coverage.unread] == [2]


@pytest.mark.parametrize("damage", ["8.5#000", "8,5.0"])
def test_damage_is_detected(damage: str) -> None:
    coverage = read(line(1), line(2).replace("8.50000", damage), line(3)).coverage
    assert (coverage.step_lines_seen, coverage.step_lines_parsed) == (3, 2)


@pytest.mark.parametrize(
    ("whole", "damaged"),
    [
        ("tflops: 2.31", "tflops: 2.3s"),  # a rate is not a time: its last digit became an `s`
        (
            "tps: 3,454  tflops: 2.31  mfu: 42.63%",
            "tps: 3%",
        ),  # nor a percentage: a block was lost up to the end of the row
    ],
)
def test_a_damaged_rate_is_rejected(whole: str, damaged: str) -> None:
    head = "[titan] 2025-01-01 00:00:00,000 - root - INFO - step:"
    rows = [
        f"{head} {n:2d}  loss:  8.1309  memory:  1.42GiB(1.49%)  tps: 3,454  tflops: 2.31  mfu: 42.63%" for n in (1, 2)
    ]
    assert whole in rows[0]
    rows[0] = rows[0].replace(whole, damaged)
    (run,) = scrape_text("".join(f"{row}\n" for row in rows).encode(), name="x").runs
    assert run.steps["step"].to_list() == [2]
    assert run.coverage.step_lines_seen == 2


def test_line_numbers_of_grep_are_not_ranks() -> None:
    run = read(*(f"{number}:{line(number)}" for number in range(1, 5)))
    assert (run.steps["step"].to_list(), run.ranks) == ([1, 2, 3, 4], ())
    ranked = read(*(f"{rank}: {line(number)}" for number in range(1, 5) for rank in (0, 1)))
    assert [(rank["rank"], rank["rows"]) for rank in ranked.ranks] == [(0, 4), (1, 4)]


def test_a_loss_that_lost_a_digit_beside_nan_losses() -> None:
    losses = [8.5, float("nan"), 8.3, float("nan"), 8.1]
    rows = [line(number, loss) for number, loss in enumerate(losses, 1)]
    assert read(*rows).steps["step"].to_list() == [1, 2, 3, 4, 5]
    rows[2] = rows[2].replace("  8.30000", "  8.3000")
    assert read(*rows).steps["step"].to_list() == [1, 2, 4, 5]


@pytest.mark.parametrize(("printed", "heights"), [("1.5e10", 3), ("1.5e999", 2), ("inf", 3)])
def test_an_infinite_number(printed: str, heights: int) -> None:
    rows = [line(number) + "  eps: 1.5e10" for number in (1, 2, 3)]
    rows[1] = rows[1].replace("1.5e10", printed)
    assert read(*rows).steps.height == heights


@pytest.mark.parametrize(
    ("whole", "damaged"), [("87.87GiB", "7.87GiB"), ("loss:  8.50000", "loss: 8.50000"), ("  8.2782", "  378.2782")]
)
@pytest.mark.parametrize("steps", [3, 30])  # 30: most are read by the format of the first
def test_a_number_that_is_too_narrow_or_too_wide_for_its_column_is_damaged(
    whole: str, damaged: str, steps: int
) -> None:
    lines = [line(step) for step in range(1, steps + 1)]
    lines[-2] = lines[-2].replace(whole, damaged)
    run = read(*lines)
    assert run.steps["step"].to_list() == [*range(1, steps - 1), steps]
    assert [unread.line for unread in run.coverage.unread] == [steps - 1]


def test_a_row_inside_another() -> None:
    """The second row's step is not a field of the first."""
    rows = [line(number) for number in (1, 2, 3)]
    at = rows[1].index("  tps")
    run = read(rows[0], rows[1][:at] + "  " + NEW.format(step=7, loss=8.5), rows[2])
    assert run.steps["step"].to_list() == [1, 7, 3]
    assert [unread.text.split("  loss")[0] for unread in run.coverage.unread] == ["step:  2"]


def test_a_coloured_evaluation_is_not_a_row_without_its_head() -> None:
    """torchtitan/components/metrics.py of 2026, log_validation: yellow, green, turquoise, blue and a reset."""
    validate = (
        HEAD + "\x1b[33mvalidate step: {step:2}  \x1b[32mloss: {loss:7.4f}  \x1b[38;2;54;234;195mmemory: "
        "37.10GiB(39.06%)  \x1b[34mtps: 15,970\x1b[39m"
    )
    lines = [line(step) for step in range(1, 6)] + [validate.format(step=5, loss=8.25)]
    lines += [line(step) for step in range(6, 11)] + [validate.format(step=10, loss=12.5)]
    run = read(*lines, HEAD + "Training completed")
    assert run.coverage.complete
    assert (run.coverage.step_lines_seen, run.coverage.step_lines_parsed, run.coverage.unread) == (10, 10, ())
    assert [(one["step"], one["loss"]) for one in run.evals] == [(5, 8.25), (10, 12.5)]
    headless = line(7).replace("step:  7", "")
    assert len(read(*lines[:8], headless, *lines[8:]).coverage.unread) == 1
