"""The output of `maxview scrape` for a run: states of checkpoints, restores, and the cause of the end."""

import pytest

from tasks.publish.terminal.reading import show_reading
from tasks.scrape import scrape_text

LOG = """\
I0418 00:00:01.000000 1351 pyconfig.py:584] Config param steps: 12
I0418 00:00:02.000000 1351 checkpointing.py:525] restoring from this run's directory step 7
I0418 00:00:03.000000 1351 metric_logger.py:230] completed step: 8, seconds: 0.148, TFLOP/s/device: 91.892, loss: 8.125
I0418 00:00:03.000000 1351 metric_logger.py:230] completed step: 9, seconds: 0.149, TFLOP/s/device: 91.892, loss: 8.120
I0418 00:00:03.000000 1351 checkpoint_manager.py:1526] [process=4] Saving checkpoint at step 9
I0418 00:00:03.000000 1351 async_checkpointer.py:164] [process=4][thread=async_save] Background save thread done.
"""
DEATH = """\
Traceback (most recent call last):
  File "/x/a.py", line 3, in f
    g()
jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 33G of 31G hbm.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/a.py", line 9, in h
    f()
RuntimeError: step 10 went wrong
"""


def test_a_resumed_run_that_died(capsys: pytest.CaptureFixture[str]) -> None:
    show_reading(scrape_text((LOG + DEATH).encode(), name="x"), "table", None)
    reported = " ".join(capsys.readouterr().out.split())
    assert "checkpoint 9: commit not visible from this host, line 5" in reported
    assert "restored step 7, line 2" in reported
    assert "died: out of memory on the device: RuntimeError: step 10 went wrong (line 17)" in reported
    assert "its class is that of jax.errors.JaxRuntimeError in line 10" in reported


def test_a_log_that_ends_too_early(capsys: pytest.CaptureFixture[str]) -> None:
    show_reading(scrape_text(LOG.encode(), name="x"), "table", None)
    assert "read 2 of 2 step lines; cut off; exit code None" in " ".join(capsys.readouterr().out.split())
