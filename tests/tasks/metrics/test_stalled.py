"""The row of stalls links to the log of the run that stalled."""

from typing import Any

from tasks.metrics.compute_facts import with_facts
from tasks.metrics.time_metrics import stalled
from tasks.records.run import RunRecord
from tasks.scrape.read_log import scrape_text

type Logs = Any


def run_of(logs: Logs, seconds: list[float]) -> RunRecord:
    lines = [logs.line(logs.step_text(n, seconds=one), second=100 + n) for n, one in enumerate(seconds)]
    (reading,) = scrape_text(logs.framed(*lines), name="log").runs
    return with_facts(RunRecord(plan=None, arm="a", label="a", commit=None, log="log.txt", reading=reading))


def test_the_stalled_run_is_named_after_a_run_with_few_steps(logs: Logs) -> None:
    runs = [run_of(logs, [1.0, 0.1]), run_of(logs, [1.0, *[0.1] * 10, 5.0, *[0.1] * 10])]
    facts = [run.facts for run in runs if run.facts is not None]
    measured = stalled(runs, facts)
    assert measured.source is not None
    assert measured.source.run == 1
