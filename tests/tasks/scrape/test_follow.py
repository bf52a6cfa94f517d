"""A follower reports the same as a reader of the whole log, in any pieces, and never before it is certain."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.records.log_reading import CheckpointCommitted, CheckpointStarted, LogEvent, RunEnded, StepCompleted
from tasks.scrape.follow import LogFollower
from tasks.scrape.read_log import scrape_text
from tasks.scrape.wrappings import unwrap
from tasks.scrape.wrappings.lines import Cleaner

pytestmark = pytest.mark.flows

SAVE = (
    "[process=0] Saving checkpoint at step 0",
    "[process=0] [async] Started save checkpoint @ /runs/my run/checkpoints/0.",
    "Started an asynchronous checkpoint save for step 0",
)
COMMIT = (
    "[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `/runs/my run/checkpoints/0`."
)
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/deps/src/maxtext/train.py", line 217, in setup\n'
    '    raise ValueError("inner")\n'
    "ValueError: inner\n\nDuring handling of the above exception, another exception occurred:\n\n"
    "Traceback (most recent call last):\n"
    '  File "/deps/src/maxtext/train.py", line 744, in <module>\n'
    "    except ValueError: raise\n"
    "NotImplementedError: Pure NNX support has not been implemented yet."
)


@pytest.fixture(scope="module")
def log(logs: Any) -> bytes:
    lines = [logs.line(text) for text in SAVE] + logs.steps(4)
    data: bytes = logs.framed(*lines, logs.line(COMMIT), *logs.steps(6)[4:], TRACEBACK, code=1)
    return data


def follow(data: bytes, cuts: list[int]) -> list[LogEvent]:
    follower = LogFollower()
    events: list[LogEvent] = []
    edges = [0, *sorted(cuts), len(data)]
    for begin, end in itertools.pairwise(edges):
        events += follower.feed(data[begin:end])
    return events + follower.close()


def test_events_come_in_order(log: bytes) -> None:
    events = follow(log, [])
    kinds = [type(event).__name__ for event in events]
    assert kinds == [
        "CheckpointStarted",
        *["StepCompleted"] * 4,
        "CheckpointCommitted",
        *["StepCompleted"] * 2,
        "RunEnded",
    ]
    started, committed = events[0], events[5]
    assert isinstance(started, CheckpointStarted)
    assert isinstance(committed, CheckpointCommitted)
    assert (started.step, started.path) == (0, "/runs/my run/checkpoints/0")
    assert (committed.step, committed.path) == (0, "/runs/my run/checkpoints/0")
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.error is not None
    assert ended.error.type == "NotImplementedError"
    assert f"NotImplementedError: {ended.error.message}\n".encode() in log
    assert (ended.exit_code, ended.fate, ended.has_died) == (1, "not_implemented", True)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_pieces_give_the_same(data: st.DataObject, log: bytes) -> None:
    text = data.draw(st.sampled_from([log, log.replace(b"\n", b" "), log.replace(b"\n", b"\r\n")]))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=40))
    assert follow(text, cuts) == follow(text, [])


def test_byte_by_byte(log: bytes) -> None:
    assert follow(log, list(range(len(log)))) == follow(log, [])


def agrees(data: bytes) -> None:
    events = follow(data, list(range(0, len(data), 997)))
    run = scrape_text(data, name="x").runs[0]
    steps = [event for event in events if isinstance(event, StepCompleted)]
    assert [(s.step, s.seconds, s.loss, s.line, s.offset) for s in steps] == list(
        run.steps.select("step", "seconds", "loss", "line", "offset").iter_rows()
    )
    committed = [event.step for event in events if isinstance(event, CheckpointCommitted)]
    assert committed == [event.step for event in run.checkpoints if event.committed]
    assert [e.step for e in events if isinstance(e, CheckpointStarted)] == [e.step for e in run.checkpoints]
    ends = [(event.exit_code, event.error, event.fate) for event in events if isinstance(event, RunEnded)]
    assert ends == [(run.exit_code, run.error, run.fate)]


def test_agrees_with_the_whole_reading(log: bytes) -> None:
    agrees(log)


def test_agrees_with_the_founding_documents(seeds: Path) -> None:
    agrees((seeds / "001_684b1c9e3a214010.txt").read_bytes())
    page = seeds / "000_1ada0a1f0c04a8c8.txt"
    for run in scrape_text(page.read_bytes(), name="page").runs:
        agrees(page.read_bytes()[run.span[0] : run.span[1]])


def test_incomplete_rows_are_not_reported(logs: Any) -> None:
    follower = LogFollower()
    line = logs.step(0).encode()
    assert follower.feed(line) == []
    assert len(follower.feed(b"\n")) == 1
    assert follower.feed(b"EXIT_CODE=1") == []  # it may become 137
    ended = follower.feed(b"37\n")
    assert [event.exit_code for event in ended if isinstance(event, RunEnded)] == [137]


def test_a_log_that_stops_without_an_end(logs: Any) -> None:
    follower = LogFollower()
    follower.feed("\n".join([*logs.steps(3), TRACEBACK]).encode())
    events = follower.close()
    assert [type(event) for event in events] == [RunEnded]
    cut = LogFollower()
    cut.feed("\n".join([*logs.steps(3), logs.step(3)[:-2]]).encode())
    assert cut.close() == []


def test_a_long_log_is_not_kept_in_memory(logs: Any) -> None:
    follower = LogFollower()
    for step in range(3000):
        follower.feed(logs.step(step).encode() + b"\n")
    held = sum(len(value) for value in vars(follower).values() if isinstance(value, bytes))
    assert held < 100_000


def wrapped(data: bytes) -> bytes:
    """As a terminal shows it: coloured, with a progress bar."""
    data = data.replace(b"completed step", b"\x1b[32mcompleted step\x1b[0m")
    return data.replace(b"Traceback", b" 10%|#  |\r100%|###|\r\nTraceback")


def inside(data: bytes) -> bytes:
    with unwrap(lambda: iter([data]), "x") as found:
        (chunks,) = found.logs.values()
        return b"".join(chunks())


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(0, 4000), max_size=30))
def test_wrappings_of_a_growing_log_are_removed(log: bytes, cuts: list[int]) -> None:
    for data in (wrapped(log), log, log.replace(b"\n", b" "), b"", b"\x1b[3", b"a\r"):
        live, pieces = Cleaner(), []
        edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        pieces = [live.feed(data[begin:end]) for begin, end in itertools.pairwise(edges)]
        assert b"".join(pieces) + live.feed(b"", last=True) == inside(data)
    data = wrapped(log)
    expected = follow(inside(data), [])
    assert follow(data, [min(cut, len(data)) for cut in cuts]) == expected
    assert sum(isinstance(event, StepCompleted) for event in expected) == 6


MEGATRON = "".join(
    f" [2024-01-01 00:00:{n:02d}] iteration {n:8d}/      20 | consumed samples: {n * 8:12d} | elapsed time per "
    f"iteration (ms): {200 + n}.5 | learning rate: 1.000000E-04 | global batch size:     8 | lm loss: {9 - n / 10:.6E} "
    "| loss scale: 1.0 | grad norm: 1.500 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    for n in range(1, 12)
).encode()
TORCHTITAN = "".join(
    f"[rank0]:[titan] 2025-06-01 10:00:{n:02d},123 - root - INFO - step: {n:2d}  loss: {8 - n / 10:8.5f}  grad_norm: "
    f" 1.2500  memory:  1.95GiB(2.05%)  tps: 1,234  tflops: 5.00  mfu: 0.50%\n"
    for n in range(1, 12)
).encode()


@pytest.mark.parametrize("data", [MEGATRON, TORCHTITAN], ids=["Megatron", "torchtitan"])
@pytest.mark.parametrize("size", [1, 97, 400, 10_000])
def test_steps_of_other_dialects(data: bytes, size: int) -> None:
    (run,) = scrape_text(data, name="x").runs
    assert run.steps.height == 11
    events = follow(data, list(range(size, len(data), size)))
    steps = [event for event in events if isinstance(event, StepCompleted)]
    expected = run.steps.select("step", "seconds", "loss", "line", "offset").rows()
    assert [(step.step, step.seconds, step.loss, step.line, step.offset) for step in steps] == expected
    assert all(data[step.offset :].startswith(step.text.encode()) for step in steps)
