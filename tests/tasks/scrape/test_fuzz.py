"""Damaged logs, growing and complete."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.scrape import LogFollower, scrape_text

pytestmark = pytest.mark.long

TRACEBACK = 'Traceback (most recent call last):\n  File "/x/maxtext/a.py", line 3, in f\n    g()\nValueError: shapes'


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


def test_a_traceback_without_an_end_is_given_up_quickly(logs: Any) -> None:
    lines = [TRACEBACK.rsplit("\n", 1)[0], *(logs.line(" spaced", second) for second in range(2000)), "No end"]
    assert scrape_text(logs.framed(*lines, code=1), name="x").runs[0].error is None


def test_a_path_ends_where_the_next_record_starts(logs: Any) -> None:
    cut = logs.line("[process=0] [async] Started save checkpoint @ gs://bucket/ru")
    whole = logs.line("[process=0] [async] Started save checkpoint @ gs://bucket/run/checkpoints/9.")
    (event,) = scrape_text(logs.framed(cut, whole).replace(b"\n", b" "), name="x").runs[0].checkpoints
    assert (event.step, event.path) == (9, "gs://bucket/run/checkpoints/9")
