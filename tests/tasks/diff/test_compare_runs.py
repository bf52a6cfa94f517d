"""The overall verdict, its sentence, and the exit status."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.diff.judge.exit_status import exit_status
from tasks.records.checkpoint_proof import Restore
from tasks.records.compared_case import ComparisonRecord
from tasks.records.log_reading import Coverage, Environment, Memory, Parameters, Stall
from tasks.records.run import RunRecord
from tasks.store.store import Store
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]

PROGRAM: dict[str, Any] = {
    "stablehlo_sha256": "f00d" * 16,
    "initial_state": {"digest": "start"},
    "state": {"arrays": {"params/a": "01"}},
    "cross_restore": {"holds": True, "evidence": "the same bits"},
}
PROVED = {"program": PROGRAM}


@pytest.fixture
def repeats(make_run: MakeRun) -> Callable[..., list[RunRecord]]:
    def build(arm: str, median: float, **more: Any) -> list[RunRecord]:
        return [
            make_run(arm, seconds=(3.0, median, median, median), losses=(9.0, 8.0, 7.0, 6.0), repeat=n, **more)
            for n in range(3)
        ]

    return build


def test_no_difference_names_the_floors_that_hold(make_run: MakeRun, compare: Compare) -> None:
    record = compare(
        make_run("linen", exact=True, plan={}, record=PROVED), make_run("nnx", exact=True, plan={}, record=PROVED)
    )
    assert record.verdict == "same"
    assert "no difference: " in record.headline
    assert [floor.holds for floor in record.floors] == [True, True, True]


def test_no_difference_names_a_failed_floor(make_run: MakeRun, compare: Compare) -> None:
    lost = {"program": PROGRAM | {"cross_restore": {"holds": False, "evidence": "lost"}}}
    record = compare(
        make_run("linen", exact=True, plan={}, record=PROVED), make_run("nnx", exact=True, plan={}, record=lost)
    )
    assert record.verdict == "same"
    assert record.headline.endswith('"same checkpoint" failed: lost')


def test_the_worst_row_decides(repeats: Callable[..., list[RunRecord]], compare: Compare) -> None:
    slower = compare(repeats("linen", 1.0), repeats("nnx", 1.2))
    assert slower.verdict == "regressed"
    assert slower.headline.endswith(": Step time, steady +20.0 % regressed")
    alone = compare(repeats("linen", 1.0)[:1], repeats("nnx", 1.2)[:1])
    assert alone.headline == f"{slower.headline} (by one run of each)"
    faster = compare(repeats("linen", 1.0), repeats("nnx", 0.8))
    assert faster.verdict == "improved"
    assert faster.headline.endswith("improved, nothing regressed")
    # faster, but another JAX: changed beats improved; slower beats both, and comes first
    other = {"reading": {"environment": Environment(jax="0.8.1")}}
    assert compare(repeats("linen", 1.0), repeats("nnx", 0.8, **other)).verdict == "changed"
    both = compare(repeats("linen", 1.0), repeats("nnx", 1.2, **other))
    assert both.verdict == "regressed"
    assert "+20.0 % regressed; JAX 0.12.0 → 0.8.1 changed (" in both.headline


def test_results_come_before_costs(
    repeats: Callable[..., list[RunRecord]], make_run: MakeRun, compare: Compare
) -> None:
    times = {"seconds": (3.0, 1.2, 1.2, 1.2), "losses": (9.0, 8.0, 7.0, 5.5)}
    record = compare(repeats("linen", 1.0), [make_run("nnx", repeat=n, **times) for n in range(3)])
    assert record.verdict == "regressed"
    assert re.search("6.000 → 5.500 changed; .* \\+20.0 % regressed$", record.headline)


def test_findings_qualify_the_sentence(
    repeats: Callable[..., list[RunRecord]], compare: Compare, wording: Wording
) -> None:
    coverage = Coverage(step_lines_seen=4, step_lines_parsed=4, gaps=((3, 4),), complete=False)
    record = compare(repeats("linen", 1.0), repeats("nnx", 1.0, reading={"coverage": coverage}))
    assert record.verdict == "same"
    assert ": no difference (" in record.headline
    assert record.headline.endswith(" 2 more of its runs), and 1 more)")
    wording("reasons", record.headline)


def test_an_allowed_change_does_not_decide(make_run: MakeRun, compare: Compare, row_of: Any) -> None:
    grown = Parameters(count=1_200_000_000, printed="1.200 billion")
    sides = make_run("linen", plan={}), make_run("nnx", plan={}, reading={"parameters": grown})
    changed = compare(*sides)
    assert (changed.verdict, exit_status([changed])) == ("changed", 1)
    assert "Parameters 1.10 G → 1.20 G changed" in changed.headline
    allowed = compare(*sides, allowed={"parameters": "a head more, as meant"})
    assert row_of(allowed, "parameters").allowed == "a head more, as meant"
    assert (allowed.verdict, exit_status([allowed])) == ("same", 0)


def test_a_blocking_finding_makes_every_row_unknown(repeats: Callable[..., list[RunRecord]], compare: Compare) -> None:
    record = compare(repeats("main", 1.0), repeats("feat/x", 1.2))  # one commit
    assert record.verdict == "unknown"
    assert record.headline.startswith("not comparable: both sides are commit c0ffee")
    assert [row.verdict for row in record.rows if row.metric == "step_time_s"] == ["regressed"]


def test_one_run_of_each_is_not_enough_on_a_noisy_device(make_run: MakeRun, compare: Compare) -> None:
    loud = {"reading": {"environment": Environment(jax="0.12.0", backend="cpu", device_kind="cpu")}}
    record = compare(make_run("linen", **loud), make_run("nnx", **loud))
    assert record.verdict == "unknown"
    assert "not enough evidence for Step time, steady" in record.headline


def test_a_value_missing_on_both_sides_is_not_missing_evidence(
    repeats: Callable[..., list[RunRecord]], compare: Compare
) -> None:
    """CPUs have no memory statistics."""
    bare = {"reading": {"memory": Memory(unavailable="no such statistics"), "parameters": Parameters()}}
    record = compare(repeats("linen", 1.0, **bare), repeats("nnx", 1.0, **bare))
    assert not {"memory_percent", "program_memory_gb", "parameters"} & {row.metric for row in record.rows}
    assert record.absent == ("Parameters", "Memory %", "Program memory")
    assert record.verdict == "same"


def test_a_value_missing_on_one_side_is_missing_evidence(
    repeats: Callable[..., list[RunRecord]],
    compare: Compare,
    wording: Wording,
) -> None:
    record = compare(repeats("linen", 1.0), repeats("nnx", 1.0, reading={"memory": Memory()}))
    assert record.verdict == "unknown"
    assert record.headline.endswith("Memory % and Program memory")
    wording("reasons", record.headline)


# ---------------------------------------------------------------- deaths


def test_a_dead_candidate_has_regressed(
    make_run: MakeRun, compare: Compare, died: Mapping[str, Any], wording: Wording
) -> None:
    record = compare(make_run("linen"), make_run("nnx", losses=(), reading=died))
    assert record.verdict == "regressed"
    assert "(NotImplementedError, exit code 1, 30 s " in record.headline
    wording("reasons", record.headline)
    assert record.candidate.cause_of_death is not None
    assert record.candidate.cause_of_death.line == 258
    assert exit_status([record]) == 1


def test_a_dead_baseline_leaves_the_verdict_unknown(
    make_run: MakeRun, compare: Compare, died: Mapping[str, Any]
) -> None:
    record = compare(make_run("linen", losses=(), reading=died), make_run("nnx"))
    assert record.verdict == "unknown"
    assert exit_status([record]) == 1  # an arm failed


def test_both_died(make_run: MakeRun, compare: Compare, died: Mapping[str, Any]) -> None:
    record = compare(make_run("linen", losses=(), reading=died), make_run("nnx", losses=(), reading=died))
    assert record.verdict == "unknown"
    assert "linen · c0ffee died" in record.headline
    assert "nnx · c0ffee died" in record.headline
    assert exit_status([record]) == 1


def test_a_survived_exception_is_not_a_cause_of_death(
    make_run: MakeRun, compare: Compare, died: Mapping[str, Any]
) -> None:
    survived = make_run("nnx", reading={"error": died["error"]})
    assert compare(make_run("linen"), survived).candidate.cause_of_death is None


def test_the_class_of_a_death_is_in_the_sentence(make_run: MakeRun, compare: Compare, died: Mapping[str, Any]) -> None:
    error = died["error"].replace(kind="device_oom")
    record = compare(make_run("linen"), make_run("nnx", losses=(), reading={**died, "error": error}))
    assert f"out of memory on the device: {error.message} ({error.type}, " in record.headline


def test_a_run_that_stopped_early_without_an_error_died(
    make_run: MakeRun, compare: Compare, died: Mapping[str, Any]
) -> None:
    # MaxText ends with exit code 0 at SIGTERM
    stopped = died["error"].replace(type="StopTraining", message="SIGTERM", kind="preempted")
    record = compare(make_run("linen"), make_run("nnx", reading={"error": stopped, "fate": "preempted"}))
    assert record.verdict == "regressed"
    assert "preempted or evicted: SIGTERM (StopTraining, " in record.headline


# ---------------------------------------------------------------- exit status


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["same"], 0),
        (["improved"], 0),
        (["same", "improved"], 0),
        (["unknown"], 3),
        (["same", "unknown"], 3),
        (["changed"], 1),
        (["changed", "unknown"], 1),
        (["regressed"], 1),
        (["regressed", "unknown", "same"], 1),
        ([], 0),
    ],
)
def test_the_exit_status(verdicts: Sequence[str], expected: int, make_run: MakeRun, compare: Compare) -> None:
    record = compare(make_run("linen", record=PROVED), make_run("nnx", record=PROVED))
    assert exit_status([record.replace(verdict=verdict) for verdict in verdicts]) == expected


def test_a_blocked_comparison_exits_3(make_run: MakeRun, compare: Compare) -> None:
    assert exit_status([compare(make_run("main"), make_run("feat/x"))]) == 3


# ---------------------------------------------------------------- the record


def test_the_same_runs_keep_their_page(make_run: MakeRun, compare: Compare) -> None:
    left, right = make_run("linen", plan={}), make_run("nnx", plan={})
    record = compare(left, right)
    assert compare(left, right).id == record.id
    again = make_run("nnx", plan={"identity": "another run"}, repeat=1)
    others = [compare(left, again), compare(left, right, case="03_dropout"), compare(right, left)]
    assert len({record.id, *(other.id for other in others)}) == 4


def test_logs_keep_their_page_wherever_the_archive_is(make_run: MakeRun, compare: Compare) -> None:
    def ingested(out: str) -> ComparisonRecord:
        sides = [make_run(arm, record={"log": f"{out}/runs/{arm}-0123/log.txt"}) for arm in ("linen", "nnx")]
        return compare(*sides)

    assert ingested("/here").id == ingested("/there").id


def test_curves_and_stalls_of_every_run_are_kept(
    repeats: Callable[..., list[RunRecord]], make_run: MakeRun, compare: Compare
) -> None:
    stall = Stall(step=2, seconds=9.0, cause="checkpoint", line=102, offset=1020)
    record = compare(repeats("linen", 1.0), repeats("nnx", 1.0, reading={"stalls": (stall,)}))
    assert [(curve.metric, curve.arm) for curve in record.curves] == [
        (metric, arm) for arm in ("linen", "nnx") for _ in range(3) for metric in ("loss", "step_time_s")
    ]
    loss = record.curves[0]
    assert (loss.steps, loss.values) == ((0, 1, 2, 3), (9.0, 8.0, 7.0, 6.0))
    assert (loss.lines, loss.offsets) == ((100, 101, 102, 103), (1000, 1010, 1020, 1030))
    assert {arm: len(stalls) for arm, stalls in record.stalls.items()} == {"linen": 3, "nnx": 3}


def test_a_resumed_run_has_its_whole_curve(make_run: MakeRun, compare: Compare) -> None:
    resumed = make_run("nnx", losses=(8.0, 7.5), first=2, exact=(9.0, 8.5, 8.0, 7.5))
    record = compare(make_run("linen", losses=(9.0, 8.5, 8.0, 7.5), exact=(9.0, 8.5, 8.0, 7.5)), resumed)
    (curve,) = [curve for curve in record.curves if (curve.metric, curve.arm) == ("loss", "nnx")]
    assert curve.values == (9.0, 8.5, 8.0, 7.5)
    assert curve.lines == (0, 0, 100, 101)  # the earlier steps are in the log of the previous attempt
    (row,) = [row for row in record.rows if row.metric == "loss_per_step"]
    assert row.verdict == "same"


def test_the_record_survives_the_store(make_run: MakeRun, compare: Compare, tmp_path: Path) -> None:
    nan = float("nan")
    record = compare(make_run("linen", losses=(9.0, nan)), make_run("nnx", losses=(9.0, 8.0)))
    directory = Store(tmp_path).comparison("linen-vs-nnx", "01_base", record.id)
    directory.write_comparison(record)
    back = directory.read_comparison()
    assert back is not None
    assert repr(back) == repr(record)  # NaN is not equal to itself, but reads the same


def test_an_arm_shows_its_restored_checkpoint(make_run: MakeRun, compare: Compare) -> None:
    before = Restore(step=3, line=5, offset=50)
    proof = Restore(step=0, path="/other/checkpoints/0", line=900, offset=90000)  # read after the last step
    record = compare(make_run("linen"), make_run("nnx", reading={"restores": (before, proof)}))
    assert (record.baseline.restores, record.candidate.restores) == ((), (before,))
