"""Contradictory values of one run block the verdict; rounding does not."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from tasks.metrics.printed import printed_units
from tasks.records.checkpoint_proof import Restore
from tasks.records.compared_case import ComparisonRecord, Finding
from tasks.records.run import RunRecord
from tasks.records.shared_fields import Source
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]

LOSSES = (8.690952, 8.560123, 8.410999, 8.300501, 8.212345, 8.1000004)


def found_in(record: ComparisonRecord, kind: str) -> list[Finding]:
    return [finding for finding in record.findings if finding.kind == kind]


def printed(values: Sequence[float], decimals: int = 3) -> list[float]:
    return [round(value, decimals) for value in values]


# ---------------------------------------------------------------- the log against the metrics file


@pytest.mark.parametrize("decimals", [1, 3, 5])
def test_rounding_is_not_a_contradiction(decimals: int, make_run: MakeRun, compare: Compare) -> None:
    run = make_run("nnx", exact=LOSSES, losses=printed(LOSSES, decimals))
    assert not found_in(compare(make_run("linen", exact=LOSSES, losses=printed(LOSSES)), run), "log-disagrees")


def test_four_significant_digits_are_not_a_contradiction(make_run: MakeRun, compare: Compare) -> None:
    losses = (12.3449, 9.87654, 0.0123456, 0.00098765, 0.000012344, 1.5)
    run = make_run("nnx", exact=losses, losses=[float(f"{value:.4g}") for value in losses])
    assert not found_in(
        compare(make_run("linen", exact=losses, losses=run.reading.steps["loss"]), run), "log-disagrees"
    )


def test_a_log_that_is_a_tenth_lower_than_its_metrics_blocks(make_run: MakeRun, compare: Compare) -> None:
    lower = make_run("nnx", exact=LOSSES, losses=[round(0.9 * value, 3) for value in LOSSES])
    record = compare(make_run("linen", exact=LOSSES, losses=printed(LOSSES)), lower)
    (finding,) = found_in(record, "log-disagrees")
    assert finding.effect == "blocks"
    # 0.9 × 8.690952 = 7.8218568
    assert "nnx · c0ffee disagree at step 0: " in finding.message
    assert finding.message.endswith(": loss 7.822 in the log, 8.69095 in the file")
    assert (record.verdict, record.headline) == ("unknown", f"not comparable: {finding.message}")


def test_a_single_contradicting_step_is_named(make_run: MakeRun, compare: Compare, wording: Wording) -> None:
    losses = printed(LOSSES)
    losses[3] += 0.002  # printed: 8.301, in full 8.300501
    (finding,) = found_in(
        compare(make_run("linen", exact=LOSSES, losses=losses), make_run("nnx", exact=LOSSES, losses=printed(LOSSES))),
        "log-disagrees",
    )
    assert "step 3: loss 8.303 " in finding.message
    wording("findings", finding.message)
    assert finding.evidence[0].source == Source(line=103, offset=1030)


def test_seconds_of_the_log_that_are_half_of_the_file_block(
    make_run: MakeRun, compare: Compare, wording: Wording
) -> None:
    quick = make_run("nnx", exact=LOSSES, losses=printed(LOSSES), seconds=(3.0, 0.05, 0.055, 0.05, 0.06, 0.05))
    (finding,) = found_in(compare(make_run("linen", exact=LOSSES, losses=printed(LOSSES)), quick), "log-disagrees")
    assert "step 1: seconds 0.05 " in finding.message
    wording("findings", finding.message)


def test_a_nan_in_one_of_the_two_blocks(make_run: MakeRun, compare: Compare) -> None:
    losses = (*LOSSES[:5], float("nan"))
    both = make_run("linen", exact=losses, losses=[*printed(LOSSES[:5]), float("nan")])
    assert not found_in(compare(both, both), "log-disagrees")
    alone = make_run("nnx", exact=losses, losses=printed(LOSSES))
    assert "at step 5: loss 8.1 in the log, nan in" in found_in(compare(both, alone), "log-disagrees")[0].message


def test_the_unit_of_a_value_is_inferred_from_values_of_its_size() -> None:
    # 7.5 is printed as 7.500: 8.125 shows three decimals; 0.00012 has five decimals; zeros show none
    units = printed_units(np.array([7.5, 8.125, 0.00012, 20.0]))
    assert units == pytest.approx([1e-3, 1e-3, 1e-5, 1.0])
    assert printed_units(np.array([])).size == 0


# ---------------------------------------------------------------- a step twice


def twice(run: RunRecord, restores: tuple[Restore, ...] = ()) -> RunRecord:
    """The run with every step line twice, with half the seconds."""
    steps = run.reading.steps
    steps = pl.concat([steps, steps.with_columns(pl.col("offset") + 5)]).sort("offset")
    steps = steps.with_columns(pl.col("seconds") / 2)
    return run.replace(reading=run.reading.replace(steps=steps, restores=restores))


def test_every_step_twice_with_half_the_seconds_blocks(make_run: MakeRun, compare: Compare) -> None:
    record = compare(make_run("linen"), twice(make_run("nnx")))
    (finding,) = found_in(record, "repeated-steps")
    assert (finding.effect, record.verdict) == ("blocks", "unknown")
    assert "log of nnx · c0ffee has step 0 twice, " in finding.message
    assert finding.message.endswith("(6 steps in all)")
    assert finding.evidence[0].source == Source(line=100, offset=1005)


def test_a_step_repeated_after_a_restart_is_not_a_contradiction(make_run: MakeRun, compare: Compare) -> None:
    run = make_run("nnx")
    steps = pl.concat([run.reading.steps, run.reading.steps[-1:].with_columns(pl.col("offset") + 20)])
    restore = Restore(step=4, line=106, offset=1060)
    silent = steps.with_columns(line=pl.Series([*steps["line"][:-1], steps["line"][-1] + 4]))  # other lines between
    for table, restores, count in ((steps, (restore,), 0), (steps, (), 1), (silent, (), 0)):
        reading = run.reading.replace(steps=table, restores=restores)
        record = compare(make_run("linen"), run.replace(reading=reading))
        assert len(found_in(record, "repeated-steps")) == count


def test_a_metrics_file_with_every_step_twice_blocks(make_run: MakeRun, compare: Compare) -> None:
    run = make_run("nnx", exact=True)
    assert run.metrics is not None
    doubled = run.replace(metrics=pl.concat([run.metrics, run.metrics]).sort("step"))
    (finding,) = found_in(compare(make_run("linen", exact=True), doubled), "repeated-steps")
    assert "file of nnx · c0ffee has step 0 twice" in finding.message


# ---------------------------------------------------------------- one unit of the last digit


@pytest.mark.parametrize(("last", "kinds"), [(7.001, ["last-digit"]), (7.0, []), (7.5, [])])
def test_one_unit_of_the_last_digit_is_a_finding(
    last: float, kinds: list[str], make_run: MakeRun, compare: Compare
) -> None:
    losses: dict[str, Any] = {"losses": (9.0, 8.5, 8.0, 7.5, 7.25, last)}
    record = compare(make_run("linen"), make_run("nnx", **losses))
    found = found_in(record, "last-digit")
    assert [finding.kind for finding in found] == kinds
    if found:
        assert found[0].message.startswith("loss ")
        assert found[0].message.endswith(" at step 5 (7.000 and 7.001)")
        assert found[0].message in record.headline


# ---------------------------------------------------------------- one run on both sides


TWELVE = tuple(9.0 - step / 10 for step in range(12))
TIMES = (3.0, *(0.07 + step * step % 7 / 1000 for step in range(11)))
OTHER_TIMES = (3.0, *reversed(TIMES[1:]))


def metrics_of(seconds: Sequence[float]) -> dict[str, Any]:
    return {"metrics": pl.DataFrame({"step": range(12), "loss": TWELVE, "step_time_s": seconds})}


@pytest.mark.parametrize("aa", [False, True])
def test_a_launched_run_with_the_other_arms_log_is_one_run(make_run: MakeRun, compare: Compare, *, aa: bool) -> None:
    def run(arm: str, seconds: Sequence[float]) -> RunRecord:
        return make_run(arm, plan={}, losses=TWELVE, seconds=seconds)

    record = compare(run("linen", TIMES), run("nnx", TIMES), aa=aa)
    (finding,) = found_in(record, "same-log")
    assert finding.message.startswith("the logs of linen · c0ffee and nnx · c0ffee ")
    assert (record.verdict, record.headline) == ("unknown", f"not comparable: {finding.message}")
    assert not found_in(compare(run("linen", TIMES), run("nnx", OTHER_TIMES), aa=aa), "same-log")


def test_a_launched_run_with_the_other_arms_metrics_file_is_one_run(make_run: MakeRun, compare: Compare) -> None:
    def run(arm: str, printed: Sequence[float], written: Sequence[float]) -> RunRecord:
        return make_run(arm, plan={}, losses=TWELVE, seconds=printed, record=metrics_of(written))

    record = compare(run("linen", TIMES, TIMES), run("nnx", OTHER_TIMES, TIMES))
    (finding,) = found_in(record, "same-log")
    assert finding.message.startswith("the metrics files of ")
    assert record.headline == f"not comparable: {finding.message}"
    fair = compare(run("linen", TIMES, TIMES), run("nnx", OTHER_TIMES, OTHER_TIMES))
    assert not found_in(fair, "same-log")
