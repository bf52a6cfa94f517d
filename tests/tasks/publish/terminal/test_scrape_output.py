"""The output of `maxview scrape`: JSON keys, replacements for values without a JSON form, and a run's text: states of
checkpoints, restores, and the cause of the end.
"""

import json
import re
from typing import Any

import pytest

from tasks.publish.terminal.scrape_output import json_text, show_reading
from tasks.scrape.read_log import scrape_text
from tests.wording.sentences import Wording

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


def test_keys_and_missing_values(logs: Any) -> None:
    lines = [
        logs.step(0),
        "completed step: 1, seconds: 0.200, loss: nan",
        "completed step: 2, seconds: 0.200, loss: nan",
        logs.step(3).replace("loss: 8.125", "loss: inf", 1),
    ]
    document = json.loads("".join(json_text(scrape_text(logs.framed(*lines), name="x"))), parse_constant=pytest.fail)
    assert document["format"] == "maxtext"
    (run,) = document["runs"]
    keys = (
        "name exit_code started ended error steps evals environment memory parameters flops checkpoints stalls config"
    )
    assert list(run)[:17] == [*keys.split(), "ranks", "schedule", "coverage"]
    first, second, _, third = run["steps"]
    columns = (
        "step seconds tflops_per_device tokens_per_s_per_device total_weights loss lm_loss perplexity time line offset"
    )
    assert list(first) == columns.split()
    assert (second["loss"], second["tflops_per_device"], second["total_weights"]) == ("nan", None, None)
    assert third["loss"] == "inf"
    assert run["error"] is None
    assert (run["exit_code"], run["memory"]["total_gb"], run["environment"]["mesh"]) == (0, None, None)
    receipt = "step_lines_seen step_lines_parsed gaps rewinds glued_lines truncated unknown_keys complete"
    assert set(run["coverage"]) >= set(receipt.split())
    assert run["coverage"]["complete"]


def test_the_error_of_a_run_that_died(logs: Any) -> None:
    data = logs.framed(
        "Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "ValueError: no", code=1
    )
    (run,) = json.loads("".join(json_text(scrape_text(data, name="x"))))["runs"]
    place = {"line": 4, "offset": data.index(b"ValueError")}
    assert run["error"] == {
        "type": "ValueError", "message": "no", **place, "kind": "other", "why": "", "detail": "", "place": ""
    }  # fmt: skip
    assert run["fate"] == "other"


@pytest.mark.flows
def test_a_long_table_is_printed_in_pieces(logs: Any) -> None:
    """A piece holds at most a part of the rows, and a NaN among thousands of numbers stays a NaN."""
    steps = logs.steps(50_000)
    steps[30_000] = steps[30_000].replace("loss: ", "loss: nan, was: ", 1)
    steps[30_002] = steps[30_002].replace("loss: ", "loss: -inf, phase: a\u2028b, was: ", 1)
    reading = scrape_text(logs.framed(*steps), name="x")
    pieces = list(json_text(reading))
    assert max(map(len, pieces)) < sum(map(len, pieces)) / 2
    (run,) = json.loads("".join(pieces), parse_constant=pytest.fail)["runs"]
    rows = reading.runs[0].steps.to_dicts()
    assert run["steps"][30_000]["loss"] == "nan"
    assert (run["steps"][30_002]["loss"], run["steps"][30_002]["phase"]) == ("-inf", "a\u2028b")
    for step in (0, 19_999, 20_000, 29_999, 30_001, 49_999):
        assert run["steps"][step] == rows[step]
    assert len(run["steps"]) == 50_000


def test_a_resumed_run_that_died(capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    show_reading(scrape_text((LOG + DEATH).encode(), name="x"), "table", None)
    reported = " ".join(capsys.readouterr().out.split())
    assert re.search(r"checkpoint 9: [^:]*, line 5 ", reported)
    assert "restored step 7, line 2" in reported
    assert re.search(r"died: [^:]*: RuntimeError: step 10 went wrong \(line 17\)", reported)
    assert "jax.errors.JaxRuntimeError in line 10" in reported
    wording("parts", reported)


def test_a_log_that_ends_too_early(capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    show_reading(scrape_text(LOG.encode(), name="x"), "table", None)
    reported = " ".join(capsys.readouterr().out.split())
    assert "2 of 2 step lines" in reported
    assert "exit code None" in reported
    wording("parts", reported)
