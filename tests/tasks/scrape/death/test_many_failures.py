"""Logs with endlessly repeated failures: the cause of the end is found in constant memory."""

from collections.abc import Iterator

import pytest

from tasks.records.log_reading import RunReading
from tasks.scrape.death.death_log import MAX_FINDINGS
from tasks.scrape.dialects import megatron
from tasks.scrape.read_log import RunBuilder, scrape_text
from tasks.scrape.window import windows

pytestmark = pytest.mark.flows

ROW = (
    b" iteration        %d/      20 | consumed samples:           16 | elapsed time per iteration (ms): 4493.2 | "
    b"learning rate: 0.000E+00 | global batch size:    16 | lm loss: 1.000000E+01 | loss scale: 1.0 | "
    b"number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
RANKS = 64
FAILURES = {
    "traceback": b'Traceback (most recent call last):\n  File "train.py", line %d, in main\nValueError: %d\n',
    "of a rank": b"[rank%d]: Traceback (most recent call last):\n"
    b'[rank%d]:   File "train.py", line 1, in main\n[rank%d]: ValueError: no\n',
    "task": b"srun: error: n%d: task %d: Exited with exit code 1\n",
    "child": b"  exitcode  : -9 (pid: %d)\n",
    "watchdog": b"[Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d) ran\n",
    "C++": b"terminate called after throwing an instance of 'c10::Error'\n  what():  number %d\n",
    "eviction": b"pod %d: OOMKilled\n",
    "logged": b"ERROR: attempt %d\nTraceback (most recent call last):\n"
    b'  File "train.py", line 1, in main\nValueError: no\n',
}


def fail(kind: str, times: int) -> Iterator[bytes]:
    text = FAILURES[kind]
    for number in range(times):
        yield text % ((number % RANKS,) * text.count(b"%d"))


def read(text: bytes) -> RunReading:
    (run,) = scrape_text(text, name="x.log").runs
    return run


def kept(text: bytes) -> Iterator[int]:
    """The number of stored failures after each window."""
    builder = RunBuilder(megatron.DIALECT)
    for window in windows(text[begin : begin + (1 << 20)] for begin in range(0, len(text), 1 << 20)):
        for _ in builder.take(window):
            pass
        yield len(builder.collector.death.findings)


@pytest.mark.parametrize("kind", FAILURES)
def test_the_first_is_the_cause_and_only_some_are_stored(kind: str) -> None:
    text = ROW % 1 + b"".join(fail(kind, MAX_FINDINGS + 200))
    error = read(text).error
    assert error is not None
    assert 2 <= error.line <= 5  # in the first of them
    assert max(kept(text)) <= MAX_FINDINGS


@pytest.mark.parametrize("kind", FAILURES)
def test_findings_followed_by_rows_are_dropped(kind: str) -> None:
    text = b"".join(row for n, each in enumerate(fail(kind, 3_000)) for row in (ROW % (n + 1), each)) + ROW % 3_001
    assert read(text).error is None
    assert max(kept(text)) < 1500  # in the part of a window in which a traceback may continue behind a row


def test_the_row_of_another_rank_stands_between_the_lines_of_a_traceback() -> None:
    head = b'[rank3]: Traceback (most recent call last):\n[rank3]:   File "train.py", line 1, in main\n'
    error = read(ROW % 1 + head + ROW % 2 + b"[rank3]: ValueError: no\n").error
    assert error is not None
    assert (error.type, error.line) == ("ValueError", 5)
    assert read(ROW % 1 + head + b"[rank3]: ValueError: no\n" + ROW % 2).error is None


def test_the_last_exception_of_a_chain_interrupted_by_a_row_counts() -> None:
    def raised(name: bytes) -> bytes:
        return (
            b'[rank3]: Traceback (most recent call last):\n[rank3]:   File "a.py", line 1, in f\n[rank3]: %s: no\n'
            % name
        )

    joint = b"[rank3]: \n[rank3]: During handling of the above exception, another exception occurred:\n[rank3]: \n"
    error = read(ROW % 1 + raised(b"KeyError") + joint + raised(b"RuntimeError")).error
    assert error is not None
    assert error.type == "RuntimeError"
