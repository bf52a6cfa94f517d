"""Two arms that were not trained: rows of their programs' time and memory, and one program of two compilers."""

import sys
from typing import Any

import pytest

from tasks.diff.examine.examine_steps import RecordedSteps, examine_steps
from tasks.diff.judge.judge_case import judge
from tasks.publish.content.brief import make_brief, tell_certainty
from tasks.publish.markdown.artifacts import summary_markdown
from tasks.publish.terminal.report import render_brief
from tasks.records.change import ChangeCoverage
from tasks.records.compared_case import ComparisonRecord
from tasks.records.data import DataComparison, DataKind
from tasks.records.explanation import ProgramExplanation
from tasks.records.host_times import HostTimes, Span
from tasks.records.later_steps import LaterSteps
from tasks.records.loop_times import LoopCompile, LoopTimes
from tasks.records.measurement import Measurements
from tasks.records.observation import LoopRecord, Observation, ObservedArray
from tasks.records.plan import RunPlan, SharedStart
from tasks.records.program_times import ProgramTimes, TimeRatio
from tests.wording.sentences import Wording

RATIO = TimeRatio(effect=0.001, low=-0.004, high=0.006)
TURNS = ProgramTimes(
    wall=RATIO, cpu=RATIO, step_s=(0.1, 0.1), draws=8, rounds=80, steps=(80, 80), limit_s=60.0,
    peak_bytes=(2**30, 3 * 2**29),
)  # fmt: skip


def compare(
    jaxlib: str,
    *,
    given: tuple[dict[str, str], ...] = ({}, {}),
    start: SharedStart | None = None,
    recorded: tuple[LoopRecord | None, ...] = (None, None),
    front_ends: tuple[tuple[float, ...], ...] = ((), ()),
    **found: Any,
) -> ComparisonRecord:
    """given: meaning → digest of the batch's arrays, per arm."""
    plans = [
        RunPlan(
            comparison="linen-vs-nnx", start=start, case="01_base", arm=arm, repeat=0, trainer="maxview", target="cpu",
            backend="local", config={"steps": 6}, origins={}, commit=None, dirty=False, versions={},
            environment={"JAX_PLATFORMS": "cpu"}, argv=(sys.executable,), time_limit_s=60, run_name=arm,
            directory=f"/out/runs/{arm}", identity=arm,
        )
        for arm in ("linen", "nnx")
    ]  # fmt: skip
    observations = [
        Observation(
            arm=plan.arm, step="train_step", loop=loop, platform="cpu", devices=1, software={"jaxlib": version},
            front_end=front_end,
            arguments=tuple(
                ObservedArray(name=name, role="data", meaning=name, shape=(8,), dtype="int32", digest=digest)
                for name, digest in its.items()
            ),
        )
        for plan, version, its, loop, front_end in zip(
            plans, ("0.12.0", jaxlib), given, recorded, front_ends, strict=True
        )
    ]  # fmt: skip
    evidence = Measurements(**{name: found.pop(name) for name in Measurements.model_fields if name in found})
    both = RecordedSteps(
        plans=(plans[0], plans[1]), observations=(observations[0], observations[1]), logs=("a/log", "b/log"),
        batches=evidence.data.steps if evidence.data else None,
        loops=evidence.loops is not None and not evidence.loops.problem, **found,
    )  # fmt: skip
    return judge(examine_steps(both), evidence)


def test_a_loop_that_jits_a_new_function_in_each_step_is_slower_though_the_program_is_one() -> None:
    jits = ("/clone/train.py", 25, "<module>", "train.py", 3)
    records = (LoopRecord(calls=12), LoopRecord(calls=4, jits=(jits,)))
    record = compare("0.12.0", program=ONE_TEXT, asked=("time",), recorded=records)
    (row,) = [row for row in record.rows if row.metric == "compiled_programs"]
    assert (row.verdict, row.candidate, record.verdict) == ("regressed", 3, "regressed")
    assert "train.py:25" in row.reason
    assert compare("0.12.0", program=ONE_TEXT, asked=("time",), recorded=records[::-1]).verdict == "improved"
    assert compare("0.12.0", program=ONE_TEXT, asked=("time",), recorded=(records[1],) * 2).verdict == "same"


def turned(low: float, high: float, *compiles: LoopCompile) -> LoopTimes:
    """Two loops of 40 ms whose difference lies between `low` and `high`; the candidate's compiles."""
    one = TimeRatio(effect=(low + high) / 2, low=low, high=high)
    return LoopTimes(
        wall=one, cpu=one, step_s=(0.04, 0.04), cpu_s=(0.04, 0.04), rounds=24, steps=120, limit_s=60.0,
        compiles=((), compiles),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(-0.02, 0.03, "same"), (0.03, 0.08, "regressed"), (-0.02, 0.09, "unknown")]
)
def test_loops_in_turns_are_judged_also_where_the_program_is_one(low: float, high: float, verdict: str) -> None:
    record = compare("0.12.0", program=ONE_TEXT, asked=("time",), loops=turned(low, high))
    rows = {row.title: row for row in record.rows}
    assert (rows["Step time"].verdict, record.verdict) == (verdict, verdict)
    assert rows["Step time of the program"].verdict == "same"
    assert rows["Step time of the host"].verdict == "not judged"
    assert "the host loop" not in record.headline
    assert "of the runs" not in make_brief(record).sentence


def test_hosts_of_one_program_decide_what_the_loops_leave_open() -> None:
    span = Span(effect=0.0, low=-0.001, high=0.001)
    host = HostTimes(wall_s=(0.001, 0.001), cpu_s=(0.001, 0.001), wall=span, cpu=span, pairs=2, steps=99)
    record = compare("0.12.0", program=ONE_TEXT, asked=("time",), loops=turned(-0.02, 0.09), host=host)
    assert record.verdict == "same"
    for low, high in ((0.005, 0.08), (-0.08, -0.005)):  # not by chance: a host's work may depend on the results
        record = compare("0.12.0", program=ONE_TEXT, asked=("time",), loops=turned(low, high), host=host)
        assert record.verdict == "unknown"
    longer = host.replace(wall_s=(0.003, 0.003))  # of which the device may hide another share
    for low, high, verdict in ((0.005, 0.08, "unknown"), (0.03, 0.09, "regressed")):  # less and more than ±5 %
        record = compare("0.12.0", program=ONE_TEXT, asked=("time",), loops=turned(low, high), host=longer)
        assert record.verdict == verdict
    slower = longer.replace(wall=Span(effect=0.001, low=0.0005, high=0.0015))
    record = compare("0.12.0", program=ONE_TEXT, asked=("time",), loops=turned(0.005, 0.08), host=slower)
    assert record.verdict == "regressed"
    two = compare("0.12.0", turns=TURNS, loops=turned(-0.02, 0.09), host=host)
    assert [row.verdict for row in two.rows if row.title == "Step time"] == ["unknown"]


@pytest.mark.parametrize(
    ("compiled", "said"),
    [
        (
            LoopCompile(function="train_step", place="train.py:9", why="[0][1] int32[8] → int32[7]", count=3),
            "train.py:9 compiles `train_step` again, now with [0][1] int32[8] → int32[7]; 0 compiles and 3 compiles",
        ),
        (LoopCompile(function="slice", place="train.py:9", count=2), "train.py:9 compiles `slice` again"),
    ],
)
def test_a_compile_after_the_warm_up_is_judged_exactly(compiled: LoopCompile, said: str) -> None:
    record = compare("0.12.0", program=ONE_TEXT, asked=("time",), loops=turned(-0.02, 0.03, compiled))
    (row,) = [row for row in record.rows if row.metric == "compiled_programs"]
    assert (row.verdict, row.baseline, row.candidate) == ("regressed", 0, compiled.count)
    assert row.reason.startswith(said)
    assert record.verdict == "regressed"


def test_a_problem_of_the_loops_is_told_and_the_rest_judged() -> None:
    loops = LoopTimes(problem="nnx died in its turn with exit code 1")
    record = compare("0.12.0", program=ONE_TEXT, asked=("time",), loops=loops)
    (row,) = [row for row in record.rows if row.title == "Step time"]
    assert (row.verdict, row.reason, record.verdict) == ("not judged", loops.problem, "same")
    assert "the host loop" in record.headline


def test_a_step_that_is_compiled_again_for_another_type_is_slower_and_the_argument_is_named() -> None:
    """A number of Python in the state (mujoco#2306), a smaller last batch (transformers#17863)."""
    again = LoopRecord(calls=12, programs=2, changed_at=(4,), retyped=((4, 0, "float32[16,8]", "float32[8,8]"),))
    records, given = (LoopRecord(calls=12), again), ({"inputs": "a"}, {"inputs": "a"})
    record = compare("0.12.0", program=ONE_TEXT, asked=("time",), recorded=records, given=given)
    (row,) = [row for row in record.rows if row.metric == "compiled_programs"]
    assert (row.verdict, row.baseline, row.candidate, record.verdict) == ("regressed", 1, 2, "regressed")
    assert "call 4" in row.reason
    assert "inputs is float32[8,8], no longer float32[16,8]" in row.reason
    short = compare("0.12.0", program=ONE_TEXT, asked=("time",), recorded=(LoopRecord(calls=4), again))
    assert "compiled_programs" not in {row.metric for row in short.rows}  # one arm was not watched as long


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        ((2.0, 2.1), (2.7, 2.6), "regressed"),
        ((2.6, 2.7), (2.1, 2.0), "improved"),
        ((2.0, 2.1), (2.4, 2.5), "same"),  # within a quarter
        ((0.10, 0.11), (0.19, 0.19), "same"),  # a tenth of a second
        ((2.0,), (2.8,), "same"),  # one sample of each
        ((2.0,), (3.2,), "regressed"),
        ((), (2.0,), None),  # one arm compiles ahead of time
    ],
)
def test_the_front_end_is_judged_also_where_the_program_is_one(
    left: tuple[float, ...], right: tuple[float, ...], verdict: str | None
) -> None:
    record = compare("0.12.0", program=ONE_TEXT, asked=("time",), front_ends=(left, right))
    assert [row.verdict for row in record.rows if row.metric == "front_end_s"] == ([verdict] if verdict else [])
    assert record.verdict == (verdict or "same")
    asked = compare("0.12.0", program=ONE_TEXT, asked=("function",), front_ends=(left, right))
    assert "front_end_s" not in {row.metric for row in asked.rows}


@pytest.mark.parametrize(("first", "verdict"), [(None, "same"), (202, "changed")])
def test_a_later_step_of_the_host_that_differs_is_a_change(first: int | None, verdict: str) -> None:
    later = LaterSteps(step="train_step", steps=2000, first=first, difference="`ema` is given 0.9 → 0.8")
    coverage = ChangeCoverage(lines=1, files=1, ran=1, on_host=True, doubts=("rates.py:9 runs",), later=later)
    record = compare("0.12.0", program=ONE_TEXT, asked=("function",), coverage=coverage)
    (row,) = [row for row in record.rows if row.metric == "later_steps"]
    assert (row.verdict, record.verdict) == (verdict, verdict)
    assert ("call 202" in row.reason) == (first is not None)
    assert make_brief(record).sure.startswith("Likely" if first is None else "Sure")


ONE_TEXT = ProgramExplanation(answer="same text", sentence="both arms lower the same StableHLO text", hashes=("a", "a"))


@pytest.mark.parametrize(("jaxlib", "words"), [("0.12.0", ["same"]), ("0.11.2", [])])
def test_one_text_is_one_program_for_one_compiler_only(jaxlib: str, words: list[str]) -> None:
    record = compare(jaxlib, program=ONE_TEXT)
    assert [row.verdict for row in record.rows if row.metric == "program_step_s"] == words


@pytest.mark.parametrize(
    ("start", "targets", "words"),
    [
        (None, "a", ["same"]),
        (None, "b", ["changed"]),
        (SharedStart(taken_from="linen"), "b", []),
    ],
)
def test_another_first_batch_is_a_change_that_one_program_does_not_show(
    start: SharedStart | None, targets: str, words: list[str]
) -> None:
    given = {"inputs": "a", "targets": "a"}, {"inputs": "a", "targets": targets}
    record = compare("0.12.0", given=given, start=start, program=ONE_TEXT)
    rows = [row for row in record.rows if row.metric == "first_call"]
    assert [row.verdict for row in rows] == words
    assert record.verdict == ("changed" if words == ["changed"] else "same")
    if record.verdict == "changed":
        assert make_brief(record).why.endswith("the first step is given other targets, 1 of 2 arrays")


def test_memory_of_the_turns_is_a_row() -> None:
    record = compare("0.12.0", turns=TURNS)
    rows = {row.metric: row for row in record.rows}
    assert rows["program_step_s"].verdict == "same"
    assert (rows["program_memory_gb"].baseline, rows["program_memory_gb"].candidate) == (1.0, 1.5)
    assert rows["program_memory_gb"].verdict == "regressed"
    assert "nothing was trained" in record.headline


def test_turns_that_failed_name_their_problem_in_the_brief() -> None:
    differs = ProgramExplanation(answer="differs", sentence="the programs differ at 3 places", hashes=("a", "b"))
    record = compare("0.12.0", program=differs, turns=ProgramTimes(problem="nnx: its step failed after 6 rounds"))
    assert make_brief(record).why == "nnx: its step failed after 6 rounds"


@pytest.mark.parametrize(
    ("asked", "word", "titles", "untried"),
    [
        (("time", "function"), "SAME FUNCTION AND TIME", ["Step time of the program", "Function of the step"], ""),
        (("function",), "SAME FUNCTION", ["Function of the step"], "step times"),
        (("time",), "SAME TIME", ["Step time of the program"], "the function of the steps"),
    ],
)
def test_the_headline_says_what_was_asked_and_the_second_line_what_was_not_tried(
    asked: tuple[str, ...], word: str, titles: list[str], untried: str
) -> None:
    record = compare("0.12.0", asked=asked, program=ONE_TEXT)
    assert [row.title for row in record.rows] == titles
    lines = [line.plain for line in render_brief(record, 200, bars=False)]
    assert lines[0].startswith(f"= {word}   01_base")
    assert "logs" not in lines[1]
    assert lines[2].strip().startswith("Nothing was trained: ")
    assert (untried or "checkpoints") in lines[2]
    assert lines[2].strip().endswith("later batches and the host loop were not tried.")
    assert f"# = {word.lower()}: 01\\_base" in summary_markdown(record)


def test_nothing_stands_in_logs_that_do_not_exist() -> None:
    """Every row that is the same or another is certain for its own reason."""
    given = {"inputs": "a"}, {"inputs": "b"}
    for record in (compare("0.12.0", program=ONE_TEXT), compare("0.12.0", given=given), compare("0.12.0", turns=TURNS)):
        for row in record.rows:
            assert "logs" not in tell_certainty(record, row), row.title


@pytest.mark.parametrize(
    ("kind", "equal", "word"), [("equal", None, "same"), ("reordered", True, "same"), ("other", False, "changed")]
)
def test_later_batches_of_the_recordings_are_a_row(kind: DataKind, equal: bool | None, word: str) -> None:
    first = None if kind == "equal" else 2
    data = DataComparison(steps=20, kind=kind, first=first, are_equal=equal, gap=None if equal is None else 0.5)
    record = compare("0.12.0", asked=("function",), program=ONE_TEXT, data=data)
    (row,) = [row for row in record.rows if row.metric == "data"]
    assert (row.verdict, record.verdict) == (word, word)
    assert "batches after the first 20" in record.not_tried


@pytest.mark.parametrize(
    ("again", "targets", "words"),
    [
        ({"inputs": "c", "targets": "a"}, "a", ("not judged", "not judged", "same")),
        # of two arrays that differ the baseline draws one anew
        ({"inputs": "c", "targets": "a"}, "b", ("changed", "not judged", "changed")),
        ({"inputs": "a", "targets": "a"}, "a", ("changed", "changed", "changed")),
    ],
)
def test_arrays_that_each_run_draws_anew_are_not_compared(
    again: dict[str, str], targets: str, words: tuple[str, str, str], wording: Wording
) -> None:
    arguments = tuple(
        ObservedArray(name=name, role="data", meaning=name, shape=(8,), dtype="int32", digest=digest)
        for name, digest in again.items()
    )
    record = compare(
        "0.12.0", given=({"inputs": "a", "targets": "a"}, {"inputs": "b", "targets": targets}), program=ONE_TEXT,
        asked=("function",), again=Observation(arm="linen", step="train_step", arguments=arguments),
        data=DataComparison(steps=20, kind="other", first=0, are_equal=False, gap=0.5),
    )  # fmt: skip
    rows = {row.metric: row for row in record.rows}
    assert (rows["first_call"].verdict, rows["data"].verdict, record.verdict) == words
    assert ("the arrays that each run draws anew" in record.not_tried) == ("not judged" in words)
    wording("reasons", rows["first_call"].reason)
