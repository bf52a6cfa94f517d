"""`maxview compare` with a real MaxText as trainer: the Python of its environment is in $MAXVIEW_MAXTEXT_PYTHON."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.resolve.trainers.maxtext import find_maxtext
from tasks.store.store import Store

PYTHON = os.environ.get("MAXVIEW_MAXTEXT_PYTHON")
pytestmark = [
    pytest.mark.flows,
    pytest.mark.skipif(
        PYTHON is None, reason="MAXVIEW_MAXTEXT_PYTHON does not name the Python of an environment with MaxText"
    ),
]
type Maxview = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.long
@pytest.mark.by_hand  # CI trains MaxText in tests/tasks/resolve/trainers
def test_maxtext_is_trained_verified_read_and_compared(maxview: Maxview, tmp_path: Path) -> None:
    words = "--set", "steps=6", "--interleave", "off"
    done = maxview("compare", "maxview-vs-maxtext", *words, "--out", "o", "--json")
    (comparison,) = json.loads(done.stdout)
    # MaxText divides by the number of tokens + 1e-8: another function, by less than anything that trains
    assert comparison["function"]["answer"] == "another", done.stderr
    assert comparison["function"]["gap"] < 1e-9
    floors = {floor["name"]: floor["holds"] for floor in comparison["floors"]}
    assert floors == {
        "same program": False, "same function": False, "same bits": False, "same checkpoint": None
    }  # fmt: skip
    rows = {row["metric"]: row for row in comparison["rows"]}
    assert rows["parameters"]["verdict"] == "same"
    assert rows["checkpoints"]["verdict"] == "same"
    # values that depend on this checkout and that environment
    here = {"dirty-checkout", "declared-software", "inert"}
    assert {finding["kind"] for finding in comparison["findings"]} - here == {"log-format", "recompiled"}
    records = [directory.read_record() for directory in Store(tmp_path / "o").runs()]
    (record,) = [record for record in records if record is not None and record.arm == "maxtext"]
    assert record.plan is not None
    assert PYTHON is not None
    assert record.plan.versions["maxtext"] == find_maxtext(Path(PYTHON)).versions["maxtext"]
    assert record.reading.environment.jax == record.plan.versions["jax"]  # from the run's own report
    assert record.reading.steps["step"].to_list() == [0, 1, 2, 3, 4, 5]
    assert record.metrics is not None
    assert record.metrics["step"].to_list() == [0, 1, 2, 3, 4, 5]
    assert [(proof.step, proof.ok) for proof in record.proofs] == [(0, True), (5, True)]
    page = next((tmp_path / "o" / "comparisons").rglob("index.html")).read_text()
    (evidence,) = [floor["evidence"] for floor in comparison["floors"] if floor["name"] == "same program"]
    assert evidence in page


@pytest.mark.long
@pytest.mark.by_hand  # three trainings of MaxText
def test_linen_and_nnx_start_from_one_state_and_stay_equal_in_every_digit(maxview: Maxview) -> None:
    done = maxview("compare", "maxtext-linen-vs-nnx", "--set", "steps=6", "--out", "o", "--json",
                   "--with", f"linen:{PYTHON}", "--with", f"nnx:{PYTHON}")  # fmt: skip
    assert done.returncode in (0, 3), done.stderr
    (comparison,) = json.loads(done.stdout)
    rows = {row["metric"]: row for row in comparison["rows"]}
    assert rows["loss_per_step"]["verdict"] == "same"
    assert rows["values_per_step"]["verdict"] == "same"
    floors = {floor["name"]: floor["holds"] for floor in comparison["floors"]}
    assert floors["same checkpoint"] is True
    (start,) = [finding for finding in comparison["findings"] if finding["kind"] == "start"]
    assert "both arms start from the same state" in start["message"]


@pytest.mark.by_hand  # three minutes of a processor
@pytest.mark.long
def test_twins_of_the_release_in_its_own_folder(maxview: Maxview) -> None:
    words = "--twin", "vocabulary-tiling"
    done = maxview("invariants", "--trainer", "maxtext", "--with", str(PYTHON), *words, "--out", "o", "--json")
    assert done.returncode == 1, done.stderr
    results = {one["twin"]: one for one in json.loads(done.stdout)["results"]}
    # its gradient lacks the factor 1 / tokens if the vocabulary is computed in tiles: AI-Hypercomputer/maxtext#4959
    assert results["vocabulary-tiling"]["answer"] == "another"
    assert results["vocabulary-tiling"]["first"].startswith("maxtext/utils/vocabulary_tiling.py:")


@pytest.mark.long
@pytest.mark.by_hand  # four minutes of the processor, most of them MaxText's imports and compiles
def test_linen_and_nnx_of_the_release_are_one_function(maxview: Maxview) -> None:
    words = "--only", "function", "--with", f"linen:{PYTHON}", "--with", f"nnx:{PYTHON}"
    done = maxview("compare", "maxtext-linen-vs-nnx", *words, "--out", "o", "--json")
    assert done.returncode == 0, done.stderr
    (comparison,) = json.loads(done.stdout)
    floors = {floor["name"]: floor["holds"] for floor in comparison["floors"]}
    assert floors["same function"] is True
