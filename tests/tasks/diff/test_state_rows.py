"""Final states: judged if equal losses require equal states; NaN in a checkpoint is always judged."""

from collections.abc import Callable
from typing import Any

import pytest

from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.compared_checkpoints import ArrayDifference, CheckpointDifference, ValueDifference
from tasks.records.run import RunRecord
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], MetricDiff]
type Say = Callable[..., dict[str, Any]]

START = {"params/a": "00", "params/b": "00"}
END = {"params/a": "01", "params/b": "02"}
SAVED = {0: True, 9: True}


def ending(arrays: dict[str, str], start: dict[str, str] = START, program: str = "f00d") -> dict[str, Any]:
    states = {"initial_state": {"digest": "s", "arrays": start}, "state": {"digest": "e", "arrays": arrays}}
    return {"record": {"program": states | {"stablehlo_sha256": program}}}


def test_equal_losses_with_other_arrays_are_changed(
    make_run: MakeRun, compare: Compare, row_of: RowOf, wording: Wording
) -> None:
    other = END | {"params/b": "ff"}
    record = compare(make_run("linen", exact=True, **ending(END)), make_run("nnx", exact=True, **ending(other)))
    row = row_of(record, "final_state")
    assert (row.verdict, record.verdict) == ("changed", "changed")
    assert row.reason.startswith("1 of 2 arrays ")
    assert "params/b" in row.reason
    wording("reasons", row.reason)
    assert "no difference" not in record.headline


def test_equal_states_are_the_same(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(*(make_run(arm, exact=True, plan={}, **ending(END)) for arm in ("linen", "nnx")))
    assert (row_of(record, "final_state").verdict, record.verdict) == ("same", "same")


def test_other_losses_come_with_other_arrays(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    losses = (9.0, 8.5, 8.0, 7.5, 7.25, 7.0001)
    other = make_run("nnx", exact=losses, **ending(END | {"params/b": "ff"}))
    row = row_of(compare(make_run("linen", exact=True, **ending(END)), other), "final_state")
    assert row.verdict == "not judged"


def test_printed_losses_prove_nothing_about_a_state(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    record = compare(make_run("linen", **ending(END)), make_run("nnx", **ending(END | {"params/b": "ff"})))
    assert row_of(record, "final_state").verdict == "not judged"


def test_a_nondeterministic_baseline_proves_nothing(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    baseline = [make_run("linen", exact=True, repeat=n, **ending(END | {"params/b": f"0{n}"})) for n in range(2)]
    candidate = [make_run("nnx", exact=True, repeat=n, **ending(END)) for n in range(2)]
    assert row_of(compare(baseline, candidate), "final_state").verdict == "not judged"
    # the baseline is deterministic, and one run of the candidate ends differently
    assert row_of(compare(candidate, baseline), "final_state").verdict == "changed"


def test_a_branch_without_training_that_replays_losses_blocks(
    make_run: MakeRun, compare: Compare, wording: Wording
) -> None:
    record = compare(make_run("linen", exact=True, **ending(END)), make_run("nnx", exact=True, **ending(START)))
    (finding,) = [finding for finding in record.findings if finding.effect == "blocks"]
    assert finding.message.startswith("nnx · c0ffee ")
    assert "params/a, params/b" in finding.message
    wording("findings", finding.message)
    assert (record.verdict, record.headline) == ("unknown", f"not comparable: {finding.message}")


def test_no_difference_is_not_reported_beside_a_failed_floor(
    make_run: MakeRun, compare: Compare, wording: Wording
) -> None:
    record = compare(
        make_run("linen", exact=True, plan={}, **ending(END)),
        make_run("nnx", exact=True, plan={}, **ending(END, START, "beef")),
    )
    assert record.verdict == "same"
    assert "no difference" not in record.headline
    assert '"same program" failed' in record.headline
    wording("reasons", record.headline)


@pytest.mark.parametrize(
    ("lost", "word", "arm"), [((0, 3), "regressed", "candidate"), ((3, 0), "improved", "baseline")]
)
@pytest.mark.parametrize("step", [0.0, 1e-6])  # the difference of the losses: zero, and more
def test_nan_in_a_checkpoint_is_judged_without_any_proof(
    lost: tuple[int, int], word: str, arm: str, step: float, make_run: MakeRun, compare: Compare, row_of: RowOf,
    announce: Say, prove: Say,
    wording: Wording,
) -> None:  # fmt: skip
    losses = (9.0, 8.5, 8.0, 7.5, 7.25, 7.0 + step)
    left = make_run("linen", exact=True, reading=announce(SAVED), record=prove(SAVED))
    right = make_run("nnx", exact=losses, reading=announce(SAVED), record=prove(SAVED))
    values = ValueDifference(values=12, differing=3, not_finite=3, lost=lost)
    array = ArrayDifference(role="parameter", names=("params.w",), other_names=("params.w",), values=values)
    found = CheckpointDifference(step=9, path="/a/9", other_path="/b/9", arrays=(array,))
    row = row_of(compare(left, right, checkpoints=found), "checkpoints")
    assert row.verdict == word
    assert row.reason.startswith(f"at step 9, only the {arm}'s ")
    assert "3 values in 1 array, first params.w" in row.reason
    wording("reasons", row.reason)
