"""Damage of any kind: no crash, no hang, and no number that the text does not hold whole."""

import itertools
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tasks.publish.log_lines import display_lines
from tasks.publish.reading_json import to_json
from tasks.scrape import LogFollower, LogFormatError, scrape_text
from tasks.scrape.wrappings import unwrap

pytestmark = pytest.mark.long

TRACEBACK = 'Traceback (most recent call last):\n  File "/x/maxtext/a.py", line 3, in f\n    g()\nValueError: shapes'


@st.composite
def damaged(draw: st.DrawFn, logs: Any) -> bytes:
    """A log from which pieces were cut, doubled, moved or overwritten."""
    save = logs.line("[process=0] [async] Started save checkpoint @ gs://bucket/run/checkpoints/3.")
    data = bytearray(logs.framed(*logs.steps(4), save, *logs.steps(8)[4:], TRACEBACK, code=1))
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 300)))
        piece = bytes(data[begin:end])
        match draw(st.integers(0, 4)):
            case 0:
                del data[begin:end]
            case 1:
                data[begin:begin] = piece
            case 2:
                data[begin:end] = piece.replace(b"\n", b" ")
            case 3:
                data[begin:end] = piece.replace(b" ", b"\n")
            case _:
                data[begin:end] = draw(st.binary(max_size=20)).replace(b"\0", b"")
    return bytes(data)


def unwrapped(text: bytes) -> bytes:
    """The text that offsets refer to: damage can look like the colour codes of a terminal."""
    with unwrap(lambda: iter([text]), "x") as found:
        (chunks,) = found.logs.values()
        return b"".join(chunks())


@settings(max_examples=200, deadline=60_000)
@given(data=st.data())
def test_damage_is_survived_and_never_invents(data: st.DataObject, logs: Any) -> None:
    text = data.draw(damaged(logs))
    try:
        reading = scrape_text(text, name="x")
    except LogFormatError:
        return
    to_json(reading)
    (run,) = reading.runs
    text = unwrapped(text)
    coverage = run.coverage
    assume(not coverage.unwrapped)  # places are those in the text under the escapes that the damage put there
    assert run.steps.height == coverage.step_lines_parsed <= coverage.step_lines_seen
    for row in run.steps.iter_rows(named=True):
        place = text[row["offset"] :]
        assert re.match(rb"completed step: %d\b" % row["step"], place)
        for key, column in (("seconds", "seconds"), ("loss", "loss"), ("TFLOP/s/device", "tflops_per_device")):
            if row[column] is not None:
                # three decimals, then something that cannot belong to the number
                assert re.match(
                    rb"[^\n]*?,[ \t]+%s:[ \t]+%s(?![\d.])" % (key.encode(), f"{row[column]:.3f}".encode()), place
                )
    offsets = [offset for offset, _ in display_lines(text, run.span)]
    assert offsets == sorted(set(offsets))


@settings(max_examples=100, deadline=60_000)
@given(data=st.data())
def test_a_follower_survives_what_a_reading_survives(data: st.DataObject, logs: Any) -> None:
    text = data.draw(damaged(logs))
    whole, pieces = LogFollower(), LogFollower()
    expected = whole.feed(text) + whole.close()
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20))), len(text)]
    events = [event for begin, end in itertools.pairwise(cuts) for event in pieces.feed(text[begin:end])]
    assert events + pieces.close() == expected


def test_a_traceback_without_an_end_is_given_up_in_time(logs: Any) -> None:
    lines = [TRACEBACK.rsplit("\n", 1)[0], *(logs.line(" spaced", second) for second in range(2000)), "No end"]
    assert scrape_text(logs.framed(*lines, code=1), name="x").runs[0].error is None


def test_a_path_ends_where_the_next_record_starts(logs: Any) -> None:
    cut = logs.line("[process=0] [async] Started save checkpoint @ gs://bucket/ru")
    whole = logs.line("[process=0] [async] Started save checkpoint @ gs://bucket/run/checkpoints/9.")
    (event,) = scrape_text(logs.framed(cut, whole).replace(b"\n", b" "), name="x").runs[0].checkpoints
    assert (event.step, event.path) == (9, "gs://bucket/run/checkpoints/9")
