"""Step times in the finest resolution of a log: from the tokens per second of the same row."""

import numpy as np
import polars as pl
import pytest

from tasks.metrics.merged_steps import PRINTED_UNIT_S, have_equal_times, refine_seconds, tokens_of

TOKENS = 128
# as in the second founding log: steady steps that all print as 0.071, and steps that wait for a checkpoint
TRUE = np.array([0.070638, 0.070911, 0.071204, 0.071362, 0.424118, 2.863907, 9.285331])


def printed(true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.round(true, 3), np.round(TOKENS / true, 3)


def test_the_rate_has_the_digits_that_rounding_removed() -> None:
    assert printed(TRUE)[0].tolist()[:4] == [0.071] * 4
    fine, unit = refine_seconds(*printed(TRUE))
    # half a unit of the third decimal of the rate, as a share of it
    off = np.abs(fine / TRUE - 1)
    assert np.all(off <= 0.0005 / np.round(TOKENS / TRUE, 3) * 1.01)
    # one such unit, of a rate of about 1790 per second
    middle = float(np.median(TRUE))
    assert unit == pytest.approx(0.001 * middle**2 / TOKENS, rel=0.01)
    assert unit < PRINTED_UNIT_S / 10_000


def test_without_a_long_step_the_ratios_are_exact_and_the_sum_is_within_the_printed_precision() -> None:
    quick = TRUE[:4]
    found, _ = refine_seconds(*printed(quick))
    assert found / found[0] == pytest.approx(quick / quick[0], rel=1e-6)
    assert np.all(np.abs(found - quick) <= 0.0005)


@pytest.mark.parametrize(
    ("seconds", "rate"),
    [
        ([0.071], [1812.056]),  # a single row agrees with any count of tokens
        ([0.1, 0.1, 0.1], [1280.0, 1280.0, 1900.0]),  # a rate that does not belong to this step
        ([0.1, 0.1], [np.nan, np.inf]),
    ],
)
def test_inconsistent_rows_stay_unchanged(seconds: list[float], rate: list[float]) -> None:
    fine, unit = refine_seconds(np.array(seconds), np.array(rate))
    assert fine.tolist() == seconds
    assert unit == PRINTED_UNIT_S


def test_a_row_without_a_rate_keeps_its_seconds() -> None:
    fine, _ = refine_seconds(np.array([0.071, 0.071, 9.285, np.nan]), np.array([1812.056, np.nan, 13.786, 1812.0]))
    assert fine == pytest.approx([128 / 1812.056, 0.071, 128 / 13.786, np.nan], nan_ok=True)


def test_a_long_step_determines_the_tokens() -> None:
    # 9.2845 … 9.2855 s at 13.7855 … 13.7865 per second: 127.99 to 128.02 tokens
    assert tokens_of(np.array([0.071, 9.285]), np.array([1812.056, 13.786])) == 128.0
    assert tokens_of(np.array([0.071, 9.285]), np.array([1812.056, 15.0])) is None


def test_one_time_in_all_steps_is_no_sign_of_one_run() -> None:
    def table(seconds: list[float]) -> pl.DataFrame:
        return pl.DataFrame({"step": range(12), "seconds": seconds, "tflops_per_device": [float("nan")] * 12})

    constant, measured = table([0.01] * 12), table([0.01 + 0.001 * n for n in range(12)])
    assert not have_equal_times(constant, constant)  # a program that prints no time of its own
    assert have_equal_times(measured, measured)
