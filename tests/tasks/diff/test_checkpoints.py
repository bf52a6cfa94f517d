"""Checkpoints: announced, committed, verified, and the same steps on both sides."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tasks.diff.examine.arms import ArmRuns
from tasks.diff.judge.state_rows import checkpoint_row
from tasks.records.checkpoint_proof import CheckpointProof, Restore
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.compared_checkpoints import ArrayDifference, CheckpointDifference, ValueDifference
from tasks.records.log_reading import Coverage
from tasks.records.run import RunRecord
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Judge = Callable[..., MetricDiff]
type Say = Callable[[Mapping[int, Any]], dict[str, Any]]

BOTH = {0: True, 5: True}


@pytest.fixture
def judge(
    make_run: MakeRun,
    compare: Callable[..., ComparisonRecord],
    row_of: Callable[[ComparisonRecord, str], MetricDiff],
    announce: Say,
    prove: Say,
) -> Judge:
    """judge(events, proofs, events, proofs): the row of two arms."""

    def row(*sides: Mapping[int, Any]) -> MetricDiff:
        left = make_run("linen", reading=announce(sides[0]), record=prove(sides[1]))
        right = make_run("nnx", reading=announce(sides[2]), record=prove(sides[3]))
        return row_of(compare(left, right), "checkpoints")

    return row


def test_verified_on_both_sides(judge: Judge) -> None:
    row = judge(BOTH, BOTH, BOTH, BOTH)
    assert (row.baseline_text, row.candidate_text) == ("2 of 2 verified", "2 of 2 verified")
    assert (row.verdict, row.reason) == ("same", "every checkpoint was committed and verified")
    assert row.baseline_source is not None


@pytest.mark.parametrize(
    ("left", "right", "verdict", "words"),
    [
        # a damaged one
        ((BOTH, BOTH), (BOTH, {0: True, 5: False}), "regressed", "nnx · c0ffee, step 5: d/0 is 3 bytes short"),
        ((BOTH, {0: False, 5: True}), (BOTH, BOTH), "unknown", "linen · c0ffee, step 0: d/0 is 3 bytes short"),
        (
            (BOTH, {0: False, 5: True}),
            (BOTH, {0: True, 5: False}),
            "unknown",
            "linen · c0ffee, step 0: d/0 is 3 bytes short; nnx · c0ffee, step 5: d/0 is 3 bytes short",
        ),
        # one that was announced and is missing
        ((BOTH, BOTH), (BOTH, {0: True}), "regressed", "nnx · c0ffee, step 5: announced in the log, but not found"),
        # one side has more
        ((BOTH, BOTH), ({0: True}, {0: True}), "regressed", "nnx · c0ffee has no checkpoint of step 5"),
        (({0: True}, {0: True}), (BOTH, BOTH), "unknown", "linen · c0ffee has no checkpoint of step 5"),
        ((BOTH, BOTH), ({}, {}), "regressed", "nnx · c0ffee has no checkpoint of step 0, 5"),
        # found in the folder, but missing in the log (a run that was resumed)
        (({5: True}, BOTH), (BOTH, BOTH), "same", "every checkpoint was committed and verified"),
        # this host does not print commits, but the files were looked at
        (({0: None, 5: None}, BOTH), (BOTH, BOTH), "same", "every checkpoint was committed and verified"),
    ],
)
def test_verification_decides(left: Any, right: Any, verdict: str, words: str, judge: Judge) -> None:
    row = judge(*left, *right)
    assert row.verdict == verdict
    assert row.reason.startswith(words)


@pytest.mark.parametrize(
    ("period", "origin", "verdicts"),
    [
        (4, "this run", ("same", "same")),  # saved because the run was stopped
        (3, "this run", ("unknown", "regressed")),  # a planned save that the other arm lost
        (4, "persistent", ("unknown", "regressed")),
    ],
)
@pytest.mark.parametrize("planned", [True, False])
def test_an_extra_checkpoint_of_a_stopped_run_is_not_a_difference(
    period: int,
    origin: str,
    verdicts: tuple[str, str],
    planned: bool,
    make_run: MakeRun,
    compare: Any,
    row_of: Any,
    announce: Say,
    prove: Say,
) -> None:
    config: dict[str, Any] = {"steps": 6, "checkpoint_period": period}
    given: dict[str, Any] = {"plan": {"config": config}} if planned else {}
    printed = {} if planned else {"config": {key: str(value) for key, value in config.items()}}
    restores = (Restore(step=3, origin=origin, finished=True, line=9, offset=90),)
    stopped, whole = (
        make_run(
            arm,
            reading=announce(steps) | printed | ({"restores": restores} if 3 in steps else {}),
            record=prove(steps),
            **given,
        )
        for arm, steps in (("linen", BOTH | {3: True}), ("nnx", BOTH))
    )
    there = row_of(compare(whole, stopped), "checkpoints").verdict
    back = row_of(compare(stopped, whole), "checkpoints").verdict
    assert (there, back) == verdicts


@pytest.mark.parametrize(
    ("left", "right", "verdict", "texts", "words"),
    [
        (
            BOTH,
            BOTH,
            "same",
            ("2 of 2 committed", "2 of 2 committed"),
            "the checkpoints of linen · c0ffee and nnx · c0ffee could not be verified on this machine",
        ),
        (
            {0: None, 5: None},
            BOTH,
            "unknown",
            ("2 announced, commit not visible from this host", "2 of 2 committed"),
            "the log of linen · c0ffee does not show commits",
        ),
        (BOTH, {0: True, 5: False}, "regressed", ("2 of 2 committed", "1 of 2 committed"), "nnx · c0ffee, step 5: the"),
        ({0: False}, {0: True}, "unknown", ("0 of 1 committed", "1 of 1 committed"), "linen · c0ffee, step 0: the run"),
        ({}, {}, "not judged", ("none", "none"), "neither arm saves any"),
        (BOTH, {}, "regressed", ("2 of 2 committed", "none"), "nnx · c0ffee has no checkpoint of step 0, 5"),
    ],
)
def test_without_files_the_logs_decide(
    left: Any, right: Any, verdict: str, texts: tuple[str, str], words: str, judge: Judge
) -> None:
    row = judge(left, {}, right, {})
    assert (row.baseline_text, row.candidate_text) == texts
    assert row.verdict == verdict
    assert row.reason.startswith(words)


def test_every_repeat_must_have_every_step(
    make_run: MakeRun,
    compare: Callable[..., ComparisonRecord],
    row_of: Callable[[ComparisonRecord, str], MetricDiff],
    announce: Say,
    prove: Say,
) -> None:
    good = [make_run("linen", repeat=n, reading=announce(BOTH), record=prove(BOTH)) for n in range(2)]
    half = make_run("nnx", repeat=1, reading=announce({0: True}), record=prove({0: True}))
    row = row_of(compare(good, [make_run("nnx", reading=announce(BOTH), record=prove(BOTH)), half]), "checkpoints")
    assert (row.baseline_text, row.candidate_text) == ("4 of 4 verified", "3 of 3 verified")
    assert (row.verdict, row.reason) == ("regressed", "nnx · c0ffee has no checkpoint of step 5")


def test_a_broken_one_is_reported_with_its_run_and_the_row_links_to_the_first_announcement(
    make_run: MakeRun,
    compare: Callable[..., ComparisonRecord],
    row_of: Callable[[ComparisonRecord, str], MetricDiff],
    announce: Say,
    prove: Say,
    wording: Wording,
) -> None:
    left = [make_run("linen"), make_run("linen", repeat=1, reading=announce({0: True}), record=prove({0: True}))]
    right = [make_run("nnx", repeat=n, reading=announce({0: True}), record=prove({0: n == 0})) for n in range(2)]
    row = row_of(compare(left, right), "checkpoints")
    assert row.verdict == "regressed"
    assert "run 2, step 0: d/0 " in row.reason
    wording("reasons", row.reason)
    assert row.baseline_source is not None
    assert row.baseline_source.run == 1


def test_a_dead_arm_is_not_blamed_for_missing_saves(
    make_run: MakeRun,
    compare: Callable[..., ComparisonRecord],
    row_of: Callable[[ComparisonRecord, str], MetricDiff],
    announce: Say,
    prove: Say,
) -> None:
    dead = make_run("nnx", reading=announce({0: True}) | {"exit_code": 137}, record=prove({0: True}))
    row = row_of(compare(make_run("linen", reading=announce(BOTH), record=prove(BOTH)), dead), "checkpoints")
    assert (row.candidate_text, row.verdict) == ("1 of 1 verified", "unknown")
    assert row.reason == "nnx · c0ffee died before its last checkpoint"


WHOLE = {"step_lines_seen": 6, "step_lines_parsed": 6, "complete": True}


@pytest.mark.parametrize(
    ("first", "coverage", "saved", "verdict"),
    [
        (0, WHOLE, {0: True}, "regressed"),
        (0, WHOLE | {"complete": False, "truncated": True}, {0: True}, "unknown"),  # the end is missing
        (0, WHOLE | {"gaps": ((3, 4),)}, {0: True}, "unknown"),
        (0, WHOLE | {"gaps": ((3, 4),)}, {0: True, 5: False}, "unknown"),  # its commit may be in the gap
        (0, WHOLE, {0: True, 5: False}, "regressed"),
        (2, WHOLE, {5: True}, "unknown"),  # the beginning is missing
        (0, WHOLE, {5: True}, "regressed"),
    ],
)
def test_a_save_that_a_cut_log_cannot_show_is_unknown(
    first: int,
    coverage: dict[str, Any],
    saved: dict[int, bool],
    verdict: str,
    make_run: MakeRun,
    compare: Callable[..., ComparisonRecord],
    row_of: Callable[[ComparisonRecord, str], MetricDiff],
    announce: Say,
) -> None:
    right = make_run("nnx", first=first, reading=announce(saved) | {"coverage": Coverage(**coverage)})
    row = row_of(compare(make_run("linen", reading=announce(BOTH)), right), "checkpoints")
    assert row.verdict == verdict


STEP_9 = {"step": 9, "path": "/a/9", "other_path": "/b/9"}
PROVED = {
    "stablehlo_sha256": "f00d",
    "initial_state": {"digest": "start"},
    "state": {"arrays": {"params/a": "01"}},
    "cross_restore": {"holds": True, "evidence": "the same bits"},
}


def arrays(differing: int) -> tuple[ArrayDifference, ...]:
    values = ValueDifference(values=4, differing=differing, norm=0.5 * differing, largest=0.5 * differing, where=(1,))
    dtypes = {"dtype": "float32", "other_dtype": "float32"}
    return (
        ArrayDifference(role="parameter", names=("params.w",), other_names=("model.w",), values=values, **dtypes),
        ArrayDifference(role="random numbers", other_names=("model.rngs.key",)),
    )


@pytest.mark.parametrize(
    ("found", "proved", "verdict", "words"),
    [
        ({"arrays": arrays(0)}, True, "same", "verified; step 9 holds the same bits on both sides (1 array)"),
        ({"arrays": arrays(0)}, False, "same", "verified; step 9 holds the same bits on both sides (1 array)"),
        ({"arrays": arrays(1)}, True, "changed", "1 array of step 9 differ, first params.w (largest difference 0.5)"),
        (
            {"arrays": arrays(1)},
            False,
            "same",
            "reported, not judged, as nothing proves that the arms train the same bits",
        ),
        ({"problem": "/b/9: is of another model"}, True, "same", "not compared: /b/9: is of another model"),
    ],
)
def test_checkpoint_contents_are_judged_if_the_arms_provably_train_the_same(
    found: dict[str, Any],
    proved: bool,
    verdict: str,
    words: str,
    make_run: MakeRun,
    compare: Callable[..., ComparisonRecord],
    row_of: Callable[[ComparisonRecord, str], MetricDiff],
    announce: Say,
    prove: Say,
) -> None:
    program = {"program": PROVED} if proved else {}
    # printed losses: losses that are equal bit for bit would prove it too
    left, right = (make_run(arm, exact=proved, reading=announce(BOTH), record=prove(BOTH) | program) for arm in "ab")
    difference = CheckpointDifference(**STEP_9, **found)
    record = compare(left, right, checkpoints=difference)
    row = row_of(record, "checkpoints")
    assert row.verdict == verdict
    assert words in row.reason
    assert record.checkpoints == difference


def test_a_retired_checkpoint_is_not_a_failure(make_run: MakeRun, announce: Say) -> None:
    """The baseline kept all, the candidate its newest: its log reports the deletion, or the verification finds the step
    missing.
    """
    saved = announce(BOTH)["checkpoints"]
    old = saved[0].replace(retired_line=300)
    gone = CheckpointProof(step=0, path="/c/0", ok=False, checks=("commit",), retired=True)
    whole = CheckpointProof(step=5, path="/c/5", ok=True, checks=("commit",))
    kept = make_run("linen", reading=announce(BOTH), record={"proofs": (whole.replace(step=0), whole)})
    for events, proofs in (((old, saved[1]), (whole,)), (saved, (gone, whole))):
        right = make_run("nnx", reading={"checkpoints": events}, record={"proofs": proofs})
        row = checkpoint_row(tuple(ArmRuns(name=run.arm, label=run.label, runs=(run,)) for run in (kept, right)))
        assert (row.candidate_text, row.verdict) == ("1 of 2 verified, 1 retired", "same")
    again = make_run("nnx", reading={"checkpoints": (old, saved[1], saved[0])}, record={"proofs": (whole,)})
    row = checkpoint_row(tuple(ArmRuns(name=run.arm, label=run.label, runs=(run,)) for run in (kept, again)))
    assert row.verdict == "regressed"  # it was saved again, and is missing
    newest = make_run(
        "nnx", reading={"checkpoints": (saved[0], saved[1].replace(retired_line=300))},
        record={"proofs": (whole.replace(step=0),)},
    )  # fmt: skip
    row = checkpoint_row(tuple(ArmRuns(name=run.arm, label=run.label, runs=(run,)) for run in (kept, newest)))
    assert row.verdict == "regressed"  # kept by its loss, not by its age: nothing resumes at its end
