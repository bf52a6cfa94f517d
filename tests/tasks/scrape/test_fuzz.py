"""Damaged logs of every dialect: no reader crashes, growing logs read like complete ones, every number was written."""

import itertools
import random
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.scrape.follow import LogFollower
from tasks.scrape.read_log import scrape_text

TRACEBACK = 'Traceback (most recent call last):\n  File "/x/maxtext/a.py", line 3, in f\n    g()\nValueError: shapes'


@pytest.mark.long
@settings(max_examples=100, deadline=60_000)
@given(data=st.data(), draw=st.randoms(use_true_random=False))
def test_a_follower_does_not_depend_on_the_pieces(
    data: st.DataObject, draw: random.Random, logs: Any, fuzzing: Any
) -> None:
    save = logs.line("[process=0] [async] Started save checkpoint @ gs://bucket/run/checkpoints/3.")
    text = fuzzing.damage(logs.framed(*logs.steps(4), save, *logs.steps(8)[4:], TRACEBACK, code=1), draw)
    whole, pieces = LogFollower(), LogFollower()
    expected = whole.feed(text) + whole.close()
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20))), len(text)]
    events = [event for begin, end in itertools.pairwise(cuts) for event in pieces.feed(text[begin:end])]
    assert events + pieces.close() == expected


@pytest.mark.long
def test_a_traceback_without_an_end_is_given_up_quickly(logs: Any) -> None:
    lines = [TRACEBACK.rsplit("\n", 1)[0], *(logs.line(" spaced", second) for second in range(2000)), "No end"]
    assert scrape_text(logs.framed(*lines, code=1), name="x").runs[0].error is None


@pytest.mark.long
def test_a_path_ends_where_the_next_record_starts(logs: Any) -> None:
    cut = logs.line("[process=0] [async] Started save checkpoint @ gs://bucket/ru")
    whole = logs.line("[process=0] [async] Started save checkpoint @ gs://bucket/run/checkpoints/9.")
    (event,) = scrape_text(logs.framed(cut, whole).replace(b"\n", b" "), name="x").runs[0].checkpoints
    assert (event.step, event.path) == (9, "gs://bucket/run/checkpoints/9")


# a log needs many choices
UNHURRIED = (HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.too_slow)


# the same examples every time; `python -m tests.soak.fuzz_scrape` searches for new ones, and in longer logs;
# hypothesis makes every choice of `draw`, so that a failure shrinks to a short log with little damage
@pytest.mark.long
@pytest.mark.parametrize("dialect", range(5))
@settings(max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=UNHURRIED)
@given(draw=st.randoms(use_true_random=False))
def test_damaged_logs_are_read_without_crashes_or_invented_numbers(
    dialect: int, draw: random.Random, fuzzing: Any
) -> None:
    example = fuzzing.draw_example(fuzzing.SPECS[dialect], draw, (1, 2, 5, 8))
    _, wrong = fuzzing.try_example(example)
    assert not wrong, f"{fuzzing.SPECS[dialect].name}: {wrong[0]}\n{example.data!r}"


@pytest.mark.long
@pytest.mark.parametrize("dialect", range(5))
def test_longer_logs(dialect: int, fuzzing: Any) -> None:
    for seed in range(200):
        _, wrong = fuzzing.try_example(fuzzing.make_example(fuzzing.SPECS[dialect], seed))
        assert not wrong, f"{fuzzing.SPECS[dialect].name}, seed {seed}: {wrong[0]}"


@pytest.mark.parametrize("dialect", range(5))
def test_an_undamaged_log_is_read_completely(dialect: int, fuzzing: Any) -> None:
    for seed in range(20):
        written = fuzzing.write_log(fuzzing.SPECS[dialect], random.Random(seed), 30)
        (run,) = scrape_text(written.text, name="x").runs
        assert run.steps["step"].to_list() == [step for step, _, _ in written.rows]
        assert run.coverage.complete
        for row, (_, numbers, _) in zip(run.steps.iter_rows(named=True), written.rows, strict=True):
            # compared as text, since NaN equals nothing
            assert {key: repr(float(row[key])) for key in numbers} == {
                key: repr(value) for key, value in numbers.items()
            }


def test_the_judge_detects_a_wrong_number(fuzzing: Any) -> None:
    written = fuzzing.write_log(fuzzing.SPECS[2], random.Random(3), 8)
    reading = scrape_text(written.text, name="x")
    assert list(fuzzing.judge(written, written.text, reading)) == []
    run = reading.runs[0]
    other = run.replace(steps=run.steps.with_columns(loss=run.steps["loss"] + 1))
    assert len(list(fuzzing.judge(written, written.text, reading.replace(runs=(other,))))) > 0


def test_the_judge_accepts_only_undetectable_damage(fuzzing: Any) -> None:
    written = fuzzing.write_log(fuzzing.SPECS[0], random.Random(3), 2)
    first, second = (match.start() for match in re.finditer(rb", seconds: ", written.text))
    data = written.text[:first] + written.text[second:] + b"Config param steps:  7\n"
    reading = scrape_text(data, name="x")  # the numbers of the second row behind the head of the first
    (run,) = reading.runs
    assert (run.steps["step"].to_list(), run.config) == ([0], {"steps": "7"})
    assert list(fuzzing.judge(written, data, reading)) == []
    lost = run.replace(steps=run.steps.with_columns(loss=run.steps["loss"] + 1), config={"steps": "8"})
    wrong = list(fuzzing.judge(written, data, reading.replace(runs=(lost,))))
    assert {"'Config param steps: 8' stands nowhere"} <= set(wrong)
    assert any(text.startswith("row 1 is in the text, was not read") for text in wrong)


@pytest.mark.parametrize(("added", "excused"), [(b"0", True), (b"7", False)])
def test_the_judge_accepts_zeros_behind_the_decimals(added: bytes, excused: bool, fuzzing: Any) -> None:
    """In a row whose step was damaged too: only the text shows the written number."""
    written = fuzzing.write_log(fuzzing.SPECS[2], random.Random(3), 1)
    data = re.sub(rb"(iteration +)\d/", rb"\g<1>7/", written.text)
    data = re.sub(rb"(\(ms\): +[\d.]+)", lambda found: found[1] + added, data)
    reading = scrape_text(data, name="x")
    assert reading.runs[0].steps["step"].to_list() == [7]
    assert (list(fuzzing.judge(written, data, reading)) == []) is excused


def test_invalid_utf8_bytes_in_a_prefix(fuzzing: Any) -> None:
    written = fuzzing.write_log(fuzzing.SPECS[0], random.Random(3), 130)
    data = written.text.replace(b"I0418 00:01:", b"I0418 0\xe3:01:", 1)
    (run,) = scrape_text(data, name="x").runs
    assert run.steps.height + len(run.coverage.unread) >= 130
