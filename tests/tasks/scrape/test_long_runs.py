"""Long runs of one character or word between readable rows: every dialect still reads its row.

With an unbounded repetition in a pattern, each of these would take minutes.
"""

import pytest

from tasks.scrape.read_log import scrape_text

pytestmark = pytest.mark.flows

ROWS = {
    "megatron": b"------------------------ arguments ------------------------\n  accumulate ...... False\n"
    b"%s\n iteration        1/      20 | consumed samples:           16 | elapsed time per iteration (ms): 4493.2 | "
    b"learning rate: 0.000E+00 | global batch size:    16 | lm loss: 1.000000E+01 | loss scale: 1.0 | "
    b"number of skipped iterations:   0 | number of nan iterations:   0 |\n",
    "maxtext": b"XPK Start: Sat Apr 18 00:54:24 UTC 2026\n%s\n"
    b"completed step: 0, seconds: 1.500, TFLOP/s/device: 1.000, Tokens/s/device: 1.000, total_weights: 8, loss: 3.000\n"
    b"EXIT_CODE=0\n",
    "torchtitan": b"[titan] 2025-01-01 00:00:00,000 - root - INFO - Starting job: llama\n%s\n"
    b"[titan] 2025-01-01 00:00:00,000 - root - INFO - step:  1  loss:  8.1309  memory:  1.42GiB(1.49%%)  "
    b"tps: 3,454  tflops: 2.31  mfu: 0.23%%\n",
}
RUNS = {
    "spaces": b" " * 150_000,
    "words": b"word " * 30_000,
    "dots": b"a . " * 40_000,
    "dashes": b"-" * 150_000,
    "names": b"aaaa .....\n" * 15_000,
    "one name": b"a" * 150_000,
    "empty lines": b"\n" * 150_000,
    "pipes": b" | a" * 40_000,
    "digits": b"1" * 150_000,
    "ranks": b"rank 1 " * 20_000,
    "steps": b"step: 1 " * 20_000,
    "tracebacks": b"Traceback (most recent call last):\n" * 4_000,
    "exceptions": b'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: a\n' * 2_000,
}


@pytest.mark.parametrize("wrapping", ["lines", "one line"])
@pytest.mark.parametrize("body", RUNS)
@pytest.mark.parametrize("dialect", ROWS)
def test_a_row_behind_a_long_run_is_read(dialect: str, body: str, wrapping: str) -> None:
    text = ROWS[dialect] % RUNS[body]
    if wrapping == "one line":
        text = text.replace(b"\n", b" ")
    (run,) = scrape_text(text, name="x.log").runs
    assert run.format == dialect
    assert run.steps.height == 1
