"""Every mark that claims a proof needs its evidence: records with every field empty in turn make none.

A mark is a sign of success on a page, in the terminal, or in Prefect: a floor that holds, a checkpoint that is proved,
a row that is the same, a night in which nothing regressed.
"""

from collections.abc import Callable, Iterable
from io import StringIO
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from configs.verdict_rules import load_verdict_rules
from tasks.metrics.compute_facts import with_facts
from tasks.publish.content.checkpoints import STATES, list_checkpoints
from tasks.publish.content.marks import KINDS, LETTERS, NONE, mark_comparison
from tasks.publish.markdown.artifacts import summary_markdown
from tasks.publish.markdown.night import night_headline
from tasks.publish.markdown.proofs import proof_rows, proofs_markdown
from tasks.publish.terminal.checkpoint_report import print_difference, show_proofs
from tasks.publish.terminal.floors_table import render_floors
from tasks.publish.terminal.report import render_brief, render_details
from tasks.records.checkpoint_proof import CheckpointEvent, CheckpointProof
from tasks.records.compared_case import ComparisonRecord
from tasks.records.compared_checkpoints import ArrayDifference, CheckpointDifference, ValueDifference
from tasks.records.log_reading import STEP_SCHEMA, Coverage, RunReading
from tasks.records.night import NightPlan, NightRecord
from tasks.records.run import RunRecord
from tests.sides import compare_sides

STEPS = 8
ARRAYS = {"arrays": {"params/w": "d1g357"}}
PROOF = CheckpointProof(
    step=7, path="c/7", ok=True, checks=("commit", "metadata", "ranges", "manifest"), arrays=1, files=1,
    levels=("committed", "content recorded"),
)  # fmt: skip
EVENT = CheckpointEvent(step=7, committed=True, line=9, offset=90)
EQUAL = CheckpointDifference(
    step=7, path="c/7", other_path="d/7",
    arrays=(
        ArrayDifference(
            role="parameter", names=("w",), other_names=("w",), shape=(1,), other_shape=(1,), dtype="float32",
            other_dtype="float32", values=ValueDifference(values=1, differing=0, largest=0.0),
        ),
    ),
)  # fmt: skip


def make_run(arm: str) -> RunRecord:
    """A run of which everything is known and proved."""
    seconds = [3.0] + [0.1 + 0.001 * step + 0.0001 * len(arm) for step in range(1, STEPS)]
    losses = [9.0 - 0.5 * step for step in range(STEPS)]
    columns: dict[str, Any] = {
        "step": range(STEPS), "seconds": seconds, "tflops_per_device": [1.0] * STEPS,
        "tokens_per_s_per_device": [9.0] * STEPS, "total_weights": [4096] * STEPS, "loss": losses,
        "time": [None] * STEPS, "line": range(STEPS), "offset": range(STEPS),
    }  # fmt: skip
    steps = pl.DataFrame(columns, schema_overrides=STEP_SCHEMA)
    norms = dict.fromkeys(("loss", "grad_norm", "param_norm"), losses)
    reading = RunReading(
        name=arm, format="maxview", exit_code=0, steps=steps, checkpoints=(EVENT,), commit="c0ffee",
        started="2026-11-18T10:00:00+00:00", ended="2026-11-18T10:00:30+00:00",
        coverage=Coverage(step_lines_seen=STEPS, step_lines_parsed=STEPS, complete=True),
    )  # fmt: skip
    program = {
        "stablehlo_sha256": "f00d" * 16, "initial_state": ARRAYS, "state": ARRAYS,
        "cross_restore": {"holds": True, "evidence": "the checkpoint of step 0 gives the same bits"},
    }  # fmt: skip
    return RunRecord(
        plan=None, arm=arm, label=arm, commit="c0ffee", log=f"/o/runs/{arm}/log.txt", reading=reading,
        metrics=pl.DataFrame({"step": range(STEPS), "step_time_s": seconds, **norms}), proofs=(PROOF,), program=program,
    )  # fmt: skip


def compare(change: Callable[[RunRecord], RunRecord] = lambda run: run, **more: Any) -> ComparisonRecord:
    given = {"checkpoints": EQUAL} | more
    runs = [with_facts(change(make_run(arm))) for arm in ("linen", "nnx")]
    rules = load_verdict_rules("linen-vs-nnx", "cpu")
    return compare_sides([runs[0]], [runs[1]], rules=rules, **given)


def marks_of(record: ComparisonRecord) -> set[str]:
    """Return what a record claims to be proved or the same."""
    marks = {floor.name for floor in record.floors if floor.holds}
    marks |= {row.metric for row in record.rows if row.verdict == "same"}
    for arm in (record.baseline, record.candidate):
        marks |= {"a proved checkpoint" for line in list_checkpoints(arm) if STATES[line.state][0] == "improved"}
    marks |= {"equal checkpoints"} if record.checkpoints and record.checkpoints.equal else set()
    return marks | ({"same"} if record.verdict == "same" else set())


def without(name: str) -> Callable[[RunRecord], RunRecord]:
    """Return a function that empties a field of a run, of its reading, or of its program."""

    def change(run: RunRecord) -> RunRecord:
        if name.startswith("program."):
            program = {key: value for key, value in run.program.items() if key != name.removeprefix("program.")}
            return run.replace(program=program)
        part, _, field = name.rpartition(".")
        holder = run.reading if part else run
        blank = type(holder).model_fields[field].get_default(call_default_factory=True)
        if part:
            return run.replace(reading=run.reading.replace(**{field: blank}))
        return run.replace(**{field: blank})

    return change


FIELDS = {
    "metrics": {"same bits"},
    "program": {"same program", "same bits", "same checkpoint", "final_state"},
    "program.stablehlo_sha256": {"same program"},
    "program.initial_state": {"same bits"},
    "program.state": {"same bits", "final_state"},
    "program.cross_restore": {"same checkpoint"},
    "proofs": {"a proved checkpoint"},
    "reading.steps": {"final_loss"},
    "reading.checkpoints": set(),  # the proofs show the checkpoints
}  # an emptied field → the marks that need it


def test_the_complete_record_has_every_mark() -> None:
    assert marks_of(compare()) >= set().union(*FIELDS.values()) | {"equal checkpoints", "loss_per_step", "checkpoints"}


@pytest.mark.parametrize("name", FIELDS)
def test_a_mark_disappears_with_its_evidence(name: str) -> None:
    assert not marks_of(compare(without(name))) & FIELDS[name]


@pytest.mark.parametrize("field", sorted({*RunRecord.model_fields, *(f"reading.{f}" for f in RunReading.model_fields)}))
def test_no_field_that_is_empty_adds_a_mark(field: str) -> None:
    """Also fields that this test does not know: whatever is empty proves nothing that the complete record does not."""
    part, _, name = field.rpartition(".")
    if (RunReading if part else RunRecord).model_fields[name].is_required() or name == "fate":
        return
    assert marks_of(compare(without(field))) <= marks_of(compare())


def test_a_dead_run_proves_nothing_about_the_steps_that_it_lacks() -> None:
    """The candidate died at step 4 of 8, with equal losses so far."""
    living, dead = (make_run(arm) for arm in ("linen", "nnx"))
    assert dead.metrics is not None
    reading = dead.reading.replace(steps=dead.reading.steps.head(4), exit_code=1)
    dead = dead.replace(metrics=dead.metrics.head(4), program={}, reading=reading)
    rules = load_verdict_rules("linen-vs-nnx", "cpu")
    record = compare_sides([living], [dead], rules=rules)
    assert record.candidate.has_died
    # the living run restored a checkpoint of the other; both have proved checkpoints; the losses of common steps agree
    assert marks_of(record) == {"same checkpoint", "a proved checkpoint", "loss_per_step", "values_per_step"}
    (loss,) = [row for row in record.rows if row.metric == "loss_per_step"]
    assert loss.reason.endswith("at all 4 common steps")


@pytest.mark.parametrize("empty", [{}, {"arrays": {}}, {"arrays": None}])
def test_an_empty_digest_proves_no_bits(empty: dict[str, Any]) -> None:
    for name in ("initial_state", "state"):
        record = compare(lambda run, name=name: run.replace(program=run.program | {name: empty}))
        assert "same bits" not in marks_of(record), name


def test_an_empty_hash_proves_no_program() -> None:
    record = compare(lambda run: run.replace(program=run.program | {"stablehlo_sha256": ""}))
    assert "same program" not in marks_of(record)


def test_metrics_without_values_prove_no_bits() -> None:
    record = compare(lambda run: run.replace(metrics=pl.DataFrame({"step": range(STEPS)})))
    assert "same bits" not in marks_of(record)
    record = compare(lambda run: run.replace(metrics=run.metrics.head(0)))
    assert "same bits" not in marks_of(record)


def test_a_checkpoint_without_checks_is_not_proved(capsys: pytest.CaptureFixture[str]) -> None:
    blank = PROOF.replace(checks=(), levels=(), arrays=0, files=0)
    record = compare(lambda run: run.replace(proofs=(blank,)), checkpoints=None)
    assert "a proved checkpoint" not in marks_of(record)
    assert "✓" not in proofs_markdown([blank])
    assert "✓" not in proof_rows([blank])[0]["state"]
    show_proofs([blank], as_json=False)
    assert "✓" not in capsys.readouterr().out


def test_a_comparison_of_no_array_is_not_equal(capsys: pytest.CaptureFixture[str]) -> None:
    for blank in (EQUAL.replace(arrays=()), None):
        record = compare(checkpoints=blank)
        assert "equal checkpoints" not in marks_of(record)
    print_difference(EQUAL.replace(arrays=()), as_json=False)
    assert "✓" not in capsys.readouterr().out


def test_nothing_is_not_sound() -> None:
    for proofs in ([], [PROOF.replace(ok=False, retired=True)]):
        assert "✓" not in proofs_markdown(proofs)
        assert "all sound" not in proofs_markdown(proofs)


def test_a_night_without_results_is_no_success() -> None:
    plan = NightPlan(id="n", created="", target="cpu", slices=1, request="")
    assert "✓" not in night_headline(NightRecord(plan=plan, results=(), ended="", changes=()))


def show(*parts: Any) -> str:
    console = Console(width=200, record=True, file=StringIO())
    for part in parts:
        console.print(part)
    return console.export_text()


def texts_of(record: ComparisonRecord) -> Iterable[str]:
    yield show(*render_brief(record, 80, bars=False), render_details(record))
    yield show(render_floors([record], {}))
    yield summary_markdown(record)


def test_blank_records_have_no_sign_of_success() -> None:
    def blank(run: RunRecord) -> RunRecord:
        reading = RunReading(name=run.arm, format="maxview")
        return RunRecord(plan=None, arm=run.arm, label=run.arm, commit=None, log=run.log, reading=reading)

    record = compare(blank, checkpoints=None)
    assert record.verdict == "unknown"
    for text in texts_of(record):
        assert "✓" not in text
        assert "= same" not in text
    assert any("✓" in text for text in texts_of(compare()))


def test_a_line_of_the_front_page_has_only_the_marks_of_its_evidence() -> None:
    def marks(record: ComparisonRecord) -> dict[str, str]:
        return dict(zip(KINDS, mark_comparison(record), strict=True))

    complete = marks(compare())
    assert (complete["program"], complete["loss"]) == (LETTERS["same"], LETTERS["same"])
    assert marks(compare(without("program.stablehlo_sha256")))["program"] != LETTERS["same"]
    living, dead = (with_facts(make_run(arm)) for arm in ("linen", "nnx"))
    assert dead.metrics is not None
    other = dead.replace(
        metrics=dead.metrics.with_columns(loss=pl.col("loss") + 1),
        program=dead.program | {"stablehlo_sha256": "beef" * 16},
    )
    record = compare_sides([living], [other], rules=load_verdict_rules("linen-vs-nnx", "cpu"))
    assert marks(record)["program"] == LETTERS["changed"]
    assert len(set(LETTERS.values()) | {NONE}) == len(LETTERS) + 1  # every letter is one verdict
