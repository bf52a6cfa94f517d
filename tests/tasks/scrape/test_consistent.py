"""A number that lost a digit and is still one is told by the rows around it; rows that may be right are left alone."""

import itertools
import re
from typing import Any

import numpy as np
import pytest

from tasks.scrape import scrape_text

WORK, TOKENS = 13.59, 2048


def rows(count: int, *, work: float = WORK, first: int = 0) -> list[str]:
    """Step lines whose rates are what their seconds make of a constant, each rounded as MaxText does."""
    seconds = np.round(11.5 + 0.731 * np.sin(np.arange(count)), 3)
    return [
        f"completed step: {first + n}, seconds: {s:.3f}, TFLOP/s/device: {work / s:.3f}, "
        f"Tokens/s/device: {TOKENS * work / WORK / s:.3f}, total_weights: 65536, loss: 9.{n % 1000:03d}, "
        f"lm_loss: {8 + n / 1000:.3f}, perplexity: {np.exp(round(8 + n / 1000, 3)):.3f}"
        for n, s in enumerate(seconds.tolist())
    ]


def read(lines: list[str]) -> Any:
    (run,) = scrape_text("".join(f"{line}\n" for line in lines).encode(), name="x").runs
    return run


@pytest.mark.parametrize("count", [12, 400])  # one by one, and as columns
@pytest.mark.parametrize(
    ("whole", "damaged"),
    [
        (r"seconds: 1(\d)", r"seconds: \1"),
        (r"seconds: (\d\d)", r"seconds: 1\1"),
        (r"device: 1\.(\d)", r"device: 1\g<1>."),
        (r"Tokens/s/device: \d", "Tokens/s/device: "),
        (r"perplexity: \d", "perplexity: "),
        (r"step: \d", "step: 9"),
    ],
)
def test_a_number_that_lost_a_digit(count: int, whole: str, damaged: str) -> None:
    lines = rows(count)
    lines[6] = re.sub(whole, damaged, lines[6]).replace("1111.", "111.")
    run = read(lines)
    assert run.steps["step"].to_list() == [n for n in range(count) if n != 6]
    assert [line.line for line in run.coverage.unread] == [7]
    assert (run.coverage.step_lines_seen, run.coverage.step_lines_parsed) == (count, count - 1)


@pytest.mark.parametrize("count", [12, 400])
def test_rows_that_agree_within_rounding_are_all_kept(count: int) -> None:
    run = read(rows(count))
    assert run.steps.height == run.coverage.step_lines_seen == count
    assert run.coverage.unread == ()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(rows(20) + rows(1, work=2 * WORK, first=20), id="another configuration at the end"),
        pytest.param(rows(20) + rows(2, work=2 * WORK, first=20) + rows(20, first=22), id="and for two rows"),
        pytest.param(rows(20) + rows(1, work=2 * WORK, first=5) + rows(20, first=6), id="a restart"),
        pytest.param(
            list(itertools.chain(*zip(rows(20), rows(20, work=3 * WORK), strict=True))), id="two runs interleaved"
        ),
        pytest.param([re.sub(r"TFLOP/s/device: \S+", f"TFLOP/s/device: {n * n % 17}.125,", line)
                      for n, line in enumerate(rows(40))], id="rates of another kind"),
        pytest.param([line.replace("loss: 9.006", "loss: nan").replace("perplexity: 2999.", "perplexity: 2999.")
                      for line in rows(20)], id="no number"),
    ],
)  # fmt: skip
def test_what_may_be_so_is_kept(lines: list[str]) -> None:
    run = read(lines)
    assert run.steps.height == run.coverage.step_lines_seen == len(lines)


def test_no_number_hides_no_damage() -> None:
    lines = rows(20)
    lines[3] = re.sub(r"perplexity: \S+", "perplexity: nan", lines[3])
    lines[9] = re.sub(r"perplexity: \d", "perplexity: ", lines[9])
    run = read(lines)
    assert run.steps["step"].to_list() == [n for n in range(20) if n != 9]


def test_a_number_that_is_none_next_to_it_hides_no_damage() -> None:
    lines = rows(20)
    lines[8] = re.sub(r"lm_loss: \S+ perplexity: \S+", "lm_loss: nan, perplexity: nan", lines[8])
    lines[9] = re.sub(r"perplexity: \d", "perplexity: ", lines[9])
    assert read(lines).steps["step"].to_list() == [n for n in range(20) if n != 9]


def test_a_small_error_beside_a_great_one_hides_nothing() -> None:
    """The row before has another last digit before the point, which nobody can tell from a rate of its own."""
    lines = rows(20)
    rate = float(re.findall(r"Tokens/s/device: (\S+),", lines[8])[0])
    lines[8] = lines[8].replace(f"{rate:.3f}", f"{rate + 3:.3f}")
    lines[9] = re.sub(r"Tokens/s/device: \d", "Tokens/s/device: ", lines[9])
    run = read(lines)
    assert run.steps["step"].to_list() == [n for n in range(20) if n != 9]
