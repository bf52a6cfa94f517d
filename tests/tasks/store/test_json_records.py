"""Every record is read back from its file exactly, to the last bit."""

import json
import math
import struct
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tasks.records.change import RanLines
from tasks.records.checkpoint_proof import CheckpointProof, Problem
from tasks.records.compared_case import ArmSummary, ComparisonRecord, Curve, MetricDiff
from tasks.records.log_reading import STEP_SCHEMA, Coverage, RunReading
from tasks.records.run import RunRecord
from tasks.records.run_end import LogError
from tasks.store.atomic import StoreError
from tasks.store.json_records import run_record_from_json, run_record_to_json
from tasks.store.store import Store


def record(**changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "plan": None,
        "arm": "linen",
        "label": "linen · 147168c3a",
        "commit": None,
        "log": "log.txt",
    }
    return RunRecord(**{**fields, "reading": RunReading(name="r", format="maxtext"), **changes})


def bits(value: Any) -> Any:
    """`value` with every float as its bits (all NaN alike), so that == means bitwise equality."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, dict):
        return {key: bits(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [bits(entry) for entry in value]
    return value


def assert_same(left: RunRecord, right: RunRecord) -> None:
    hidden = {"reading": {"steps"}, "metrics": True}
    assert bits(left.model_dump(exclude=hidden)) == bits(right.model_dump(exclude=hidden))
    for a, b in ((left.reading.steps, right.reading.steps), (left.metrics, right.metrics)):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert a.schema == b.schema
            assert list(a.schema) == list(b.schema)
            assert bits(a.rows()) == bits(b.rows())


def round_trip(value: RunRecord) -> RunRecord:
    return run_record_from_json(run_record_to_json(value), "record.json")


floats = st.floats(allow_nan=True, allow_infinity=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(["nan", "inf", "-inf", "NaN"])
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | floats | texts
anything = st.recursive(
    scalars, lambda x: st.lists(x, max_size=3) | st.dictionaries(texts, x, max_size=3), max_leaves=8
)

columns = {
    pl.Int64: st.integers(-(2**63), 2**63 - 1),
    pl.UInt64: st.integers(0, 2**64 - 1),
    pl.Int32: st.integers(-(2**31), 2**31 - 1),
    pl.Float64: floats,
    pl.Float32: st.floats(width=32),
    pl.String: texts,
    pl.Boolean: st.booleans(),
    pl.Null: st.none(),
    pl.List(pl.Float64): st.lists(st.none() | floats, max_size=3),
    pl.Struct({"a": pl.Float32, "b": pl.String}): st.fixed_dictionaries({"a": st.floats(width=32), "b": texts}),
}


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    height = draw(st.integers(0, 5))
    names = draw(st.lists(texts, unique=True, max_size=5))
    series = []
    for name in names:
        dtype = draw(st.sampled_from(list(columns)))
        values = draw(st.lists(st.none() | columns[dtype], min_size=height, max_size=height))
        series.append(pl.Series(name, values, dtype=dtype, strict=True))
    return pl.DataFrame(series)


@settings(max_examples=150, deadline=None)
@given(
    frames(),
    st.none() | frames(),
    st.dictionaries(texts, anything, max_size=4),
    st.dictionaries(texts, texts, max_size=4),
)
def test_any_record_is_read_back(steps, metrics, free, config):
    reading = RunReading(name="r", format="maxtext", steps=steps, evals=(free,), config=config, span=(3, 2**40))
    before = record(reading=reading, metrics=metrics, program=free)
    assert_same(before, round_trip(before))


def test_the_text_is_strict_json():
    frame = pl.DataFrame({"loss": [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1]})
    text = run_record_to_json(record(metrics=frame, program={"x": math.nan}))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(text, parse_constant=refuse)
    assert text.isascii()


def test_the_lines_that_a_run_executed_are_read_back():
    ran = RanLines(
        lines={"a.py": frozenset({3, 1})},
        functions={"a.py": frozenset({("f", 1), ("g", 2)})},
        ways={"a.py": ((3, frozenset({True, False})),)},
        opened=frozenset({"b.json", "a.json"}),
    )
    before = record(ran=ran)
    assert round_trip(before).ran == ran


def test_a_step_table_without_rows_keeps_its_types():
    back = round_trip(record())
    assert back.reading.steps.schema == pl.Schema(STEP_SCHEMA)
    assert back.metrics is None


def test_a_whole_record_is_read_back_from_the_store(tmp_path):
    steps = pl.DataFrame({"step": [0, 1], "seconds": [12.5, None], "loss": [math.nan, 10.872], "note": [None, "nan"]})
    proof = CheckpointProof(
        step=0, path="p", ok=False, checks=("commit",), problems=(Problem(check="commit", path=".", message="×"),)
    )
    reading = RunReading(
        name="r",
        format="maxtext",
        steps=steps,
        error=LogError(type="ValueError", message='"quoted"\n\tline', line=3, offset=99),
        coverage=Coverage(gaps=((3, 4), (7, 7)), complete=True),
        evals=({"step": 1, "loss": math.inf, "name": "inf"},),
    )
    before = record(reading=reading, proofs=(proof,), metrics=steps, program={"~/x": [{"a/b": -math.inf}, None]})
    run = Store(tmp_path).run("r")
    run.write_record(before)
    back = run.read_record()
    assert back is not None
    assert back.log == str(run.log)  # the name of its folder, whatever the file contains
    assert_same(before, back.replace(log=before.log))
    assert_frame_equal(before.reading.steps, back.reading.steps)
    assert back.proofs == before.proofs
    assert back.reading.error == before.reading.error
    assert back.reading.coverage == before.reading.coverage


def test_every_truncation_of_a_record_is_one_clear_error(tmp_path):
    text = run_record_to_json(record(metrics=pl.DataFrame({"loss": [1.0, math.nan]})))
    run = Store(tmp_path).run("r").create()
    for end in range(0, len(text) - 2, 7):
        run.record.write_text(text[:end])
        with pytest.raises(StoreError) as caught:
            run.read_record()
        assert str(run.record) in str(caught.value)


def test_an_older_version_and_other_documents_have_different_errors():
    document = json.loads(run_record_to_json(record()))
    for change, message in (
        ({"version": 0}, "version 0, this maxview reads version 1"),
        ({"document": "something"}, "is not a run record"),
        ({"record": {}}, "is damaged"),
        ({"record": {**document["record"], "arm": 3}}, "arm: "),
        ({"frames": {}}, "is damaged"),
        (
            {"frames": {"steps": {"rows": 1, "types": {"a": "Int64"}, "columns": {"a": ["x"]}}, "metrics": None}},
            "is damaged",
        ),
        (
            {"frames": {"steps": {"rows": 2, "types": {"a": "Int64"}, "columns": {"a": [1]}}, "metrics": None}},
            "1 of 2 rows",
        ),
        ({"frames": {"steps": {"rows": 0, "types": {"a": "Date"}, "columns": {"a": []}}, "metrics": None}}, "Date"),
        ({"not_finite": ["/nowhere/at/all"]}, "is damaged"),
        ({"not_finite": [3]}, "is damaged"),
    ):
        with pytest.raises(StoreError, match=message) as caught:
            run_record_from_json(json.dumps({**document, **change}), "some/record.json")
        assert str(caught.value).startswith("some/record.json: ")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_anywhere_is_an_error_or_a_record(data):
    text = run_record_to_json(
        record(metrics=pl.DataFrame({"loss": [1.0, math.nan], "s": ["a", None]}), program={"x": math.inf})
    )
    place = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.text(max_size=6))
    error = ""
    try:
        run_record_from_json(text[:place] + new + text[place + len(new) :], "record.json")
    except StoreError as caught:  # anything else is a traceback for the user
        error = str(caught)
    assert not error or error.startswith("record.json: ")


def test_an_unstorable_column_is_named():
    with pytest.raises(StoreError, match="'day'"):
        run_record_to_json(record(metrics=pl.DataFrame({"day": pl.Series([0], dtype=pl.Int32).cast(pl.Date)})))


def test_a_comparison_keeps_its_nan(tmp_path):
    arm = ArmSummary(
        name="linen",
        label="linen",
        branch=None,
        commit=None,
        jax=None,
        exit_code=None,
        cause_of_death=None,
        started=None,
        runs=(),
        logs=(),
    )
    row = MetricDiff(
        metric="loss",
        title="Loss",
        unit="",
        better="lower",
        rule="last step",
        group="maxview",
        baseline=math.nan,
        candidate=-math.inf,
        baseline_text="nan",
        candidate_text="−∞",
        difference=None,
        difference_text="–",
        threshold=None,
        verdict="unknown",
        reason="…",
    )
    curve = Curve(
        metric="loss", arm="linen", run_name="r", steps=(0, 1), values=(math.nan, None), lines=(1, 2), offsets=(0, 9)
    )
    before = ComparisonRecord(
        id="x",
        comparison="linen-vs-nnx",
        case="01_base",
        target="cpu",
        created="2026-11-21",
        question="?",
        baseline=arm,
        candidate=arm,
        verdict="unknown",
        headline="h",
        findings=(),
        rows=(row,),
        curves=(curve,),
    )
    directory = Store(tmp_path).comparison("linen-vs-nnx", "01_base", "x")
    assert directory.read_comparison() is None
    directory.write_comparison(before)
    back = directory.read_comparison()
    assert back is not None
    assert bits(back.model_dump()) == bits(before.model_dump())
    assert [found.path for found in Store(tmp_path).comparisons()] == [directory.path]
    directory.write_file("chart.svg", "<svg/>")
    assert directory.file("chart.svg").read_text() == "<svg/>"
