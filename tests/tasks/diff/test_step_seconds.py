"""Seconds as fine as a log tells them: by the tokens per second of the same row."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from tasks.diff.step_seconds import PRINTED_UNIT_S, refine_seconds, tokens_of

TOKENS = 128
# as of the second founding log: quick steps that all print as 0.071, and what waits for a checkpoint
TRUE = np.array([0.070638, 0.070911, 0.071204, 0.071362, 0.424118, 2.863907, 9.285331])


def rows(seconds: Sequence[float | None], rates: Sequence[float | None] | None = None) -> pl.DataFrame:
    columns = {"step": range(len(seconds)), "seconds": seconds}
    return pl.DataFrame(columns if rates is None else {**columns, "tokens_per_s_per_device": rates}, strict=False)


def printed(true: np.ndarray) -> pl.DataFrame:
    return rows(np.round(true, 3).tolist(), np.round(TOKENS / true, 3).tolist())


def test_what_a_log_rounds_away_stands_in_the_rate() -> None:
    assert printed(TRUE)["seconds"].to_list()[:4] == [0.071] * 4
    fine, unit = refine_seconds(printed(TRUE))
    # half a unit of the third decimal of the rate, as a share of it
    off = np.abs(fine["seconds"].to_numpy() / TRUE - 1)
    assert np.all(off <= 0.0005 / np.round(TOKENS / TRUE, 3) * 1.01)
    # one such unit, of a rate of about 1790 per second
    middle = float(np.median(TRUE))
    assert unit == pytest.approx(0.001 * middle**2 / TOKENS, rel=0.01)
    assert unit < PRINTED_UNIT_S / 10_000


def test_without_a_long_step_the_shares_are_exact_and_the_whole_is_within_what_was_printed() -> None:
    quick = TRUE[:4]
    fine, _ = refine_seconds(printed(quick))
    found = fine["seconds"].to_numpy()
    assert found / found[0] == pytest.approx(quick / quick[0], rel=1e-6)
    assert np.all(np.abs(found - quick) <= 0.0005)


@pytest.mark.parametrize(
    "table",
    [
        rows([0.071, 0.072]),  # a dialect without a rate
        rows([0.071], [1812.056]),  # one row agrees with anything
        rows([0.1, 0.1, 0.1], [1280.0, 1280.0, 1900.0]),  # a rate that is none of this step
        rows([0.1, 0.1], [None, float("inf")]),
    ],
)
def test_rows_that_do_not_agree_are_left_as_they_are(table: pl.DataFrame) -> None:
    fine, unit = refine_seconds(table)
    assert fine.equals(table)
    assert unit == PRINTED_UNIT_S


def test_a_row_without_a_rate_keeps_its_seconds() -> None:
    table = rows([0.071, 0.071, 9.285, None], [1812.056, None, 13.786, 1812.0])
    fine, _ = refine_seconds(table)
    assert fine["seconds"].to_list() == [pytest.approx(128 / 1812.056), 0.071, pytest.approx(128 / 13.786), None]


def test_a_long_step_gives_the_tokens_away() -> None:
    # 9.2845 … 9.2855 s at 13.7855 … 13.7865 per second: 127.99 to 128.02 tokens
    assert tokens_of(np.array([0.071, 9.285]), np.array([1812.056, 13.786])) == 128.0
    assert tokens_of(np.array([0.071, 9.285]), np.array([1812.056, 15.0])) is None
