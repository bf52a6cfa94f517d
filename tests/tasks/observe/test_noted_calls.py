"""Runs whose log has no step: the noted calls of their step become rows."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.observe.noted_calls import NOTE, add_calls
from tasks.records.plan import RunPlan
from tasks.scrape.read_log import scrape_run

type MakePlan = Callable[..., RunPlan]
LOG = """\
XPK Start: Sun Nov 29 06:33:32 UTC 2026
epoch 0
XPK End: Sun Nov 29 06:33:35 UTC 2026
EXIT_CODE=0
"""
ROWS = [{"step": n, "step_time_s": 0.05, "loss": loss, "norm": 2.0} for n, loss in enumerate((2.5, 1.75, 1.125))]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a run whose three calls were noted; its process was killed in the fourth."""
    (tmp_path / "start").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "start" / "calls.jsonl").write_text(lines + '{"step": 3, "ste')
    (tmp_path / "log.txt").write_text(LOG)
    return tmp_path / "log.txt"


def test_a_log_without_steps_gets_the_noted_calls(log: Path, make_plan: MakePlan) -> None:
    plan = make_plan("")
    assert scrape_run(log).steps.is_empty()
    assert add_calls(plan, log.parent, log)
    run = scrape_run(log)
    columns = run.steps.select("step", "loss", "seconds").rows()
    assert columns == [(row["step"], row["loss"], row["step_time_s"]) for row in ROWS]
    assert run.exit_code == 0
    assert NOTE in log.read_text()
    assert [json.loads(line) for line in (log.parent / plan.files.metrics).read_text().splitlines()] == ROWS


def test_metrics_that_the_program_wrote_are_kept(log: Path, make_plan: MakePlan) -> None:
    plan = make_plan("")
    (log.parent / plan.files.metrics).write_text("its own\n")
    assert add_calls(plan, log.parent, log)
    assert (log.parent / plan.files.metrics).read_text() == "its own\n"


def test_a_run_without_noted_calls_keeps_its_log(log: Path, make_plan: MakePlan) -> None:
    (log.parent / "start" / "calls.jsonl").unlink()
    assert not add_calls(make_plan(""), log.parent, log)
    assert log.read_text() == LOG
