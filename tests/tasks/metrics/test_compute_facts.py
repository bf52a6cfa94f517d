"""The facts of a run: computed once, stored with its record, and computed again after a change of the code."""

from pathlib import Path

import pytest

from tasks.diff.compare_logs import archive
from tasks.ingest.given_logs import read_pair
from tasks.metrics import compute_facts as module
from tasks.metrics.compute_facts import compute_facts, digest_package, facts_of_run
from tasks.metrics.merged_steps import step_table
from tasks.records.run import RunRecord
from tasks.store.store import open_store

SAMPLES = Path(__file__).parents[2] / "samples" / "maxview"
LOGS = [SAMPLES / "13_eval-linen.txt", SAMPLES / "13_eval-nnx.txt"]


@pytest.fixture
def recorded(tmp_path: Path) -> RunRecord:
    """The record of a newly recorded run."""
    return archive(read_pair(LOGS), open_store(str(tmp_path)))[0]


@pytest.fixture
def stored(recorded: RunRecord, tmp_path: Path) -> RunRecord:
    """The same record, read from its store."""
    read = open_store(str(tmp_path)).run_of_log(recorded.log).read_record()
    assert read is not None
    return read


def refuse(run: RunRecord) -> None:
    raise AssertionError("computed again")


def test_the_facts_of_a_recorded_run_agree_with_its_log_and_are_never_computed_again(
    recorded: RunRecord, stored: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = compute_facts(stored.replace(facts=None))
    assert fresh.values["parameters"].text == stored.reading.parameters.printed
    monkeypatch.setattr(module, "compute_facts", refuse)
    assert facts_of_run(recorded) == facts_of_run(stored) == fresh


def test_the_facts_of_an_older_record_are_computed_once(stored: RunRecord) -> None:
    old = stored.replace(facts=None)
    assert facts_of_run(old) is facts_of_run(old)
    assert facts_of_run(old) == stored.facts


def test_facts_from_other_code_are_not_used(stored: RunRecord) -> None:
    assert stored.facts is not None
    values = {name: one.replace(value=7.0) for name, one in stored.facts.values.items()}
    other = stored.replace(facts=stored.facts.replace(code="0" * 16, values=values))
    assert facts_of_run(other) == stored.facts
    assert stored.facts.code == digest_package()


def test_a_copy_with_another_reading_has_its_own_values(stored: RunRecord) -> None:
    old = stored.replace(facts=None)
    whole = step_table(old)
    assert step_table(old) is whole
    half = old.reading.replace(steps=old.reading.steps[: whole.height // 2])
    assert step_table(old.replace(reading=half)).height == whole.height // 2
    assert step_table(old).height == whole.height
    assert facts_of_run(old.replace(reading=half)).values["final_loss"] != facts_of_run(old).values["final_loss"]
