"""Commands with a store in a bucket behave as with a folder, and every machine finds the results in the bucket."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.store.store import open_store
from tasks.verify.verification import verify_checkpoints

pytestmark = [pytest.mark.long, pytest.mark.by_hand]


def test_a_comparison_in_a_bucket_is_found_by_every_machine(
    maxview: Callable[..., subprocess.CompletedProcess[str]],
    user_environment: dict[str, str],
    gcs_environment: dict[str, str],
    gcs_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = user_environment | gcs_environment
    words = ("compare", "linen-vs-nnx", "--set", "steps=3", "--interleave", "off", "--out", gcs_url)
    done = maxview(*words, environment=environment | {"XDG_CACHE_HOME": str(tmp_path / "one machine")})
    assert done.returncode != 2, done.stderr
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a third machine"))
    store = open_store(gcs_url)
    entries = {entry.name: entry.version for entry in store.files.entries()}
    (page,) = (name for name in entries if name.endswith("/index.html"))
    assert sum(name.endswith("/comparison.json") for name in entries) == 1
    assert sum(name.endswith("/curves/0.js") for name in entries) == 1
    assert sum(name.startswith("history/") and name.endswith(".parquet") for name in entries) == 1
    assert not any(name.endswith("/writer.json") for name in entries)
    reported = "".join(done.stdout.split())  # without the line breaks of a narrow terminal
    assert f"page:{gcs_url}/{page}link:https://storage.cloud.google.com/{gcs_url[5:]}/{page}" in reported
    assert gcs_url in reported.partition("next:")[2]

    # every byte of the checkpoints is in the bucket, as verified by the run
    runs = {run.run_name: run.read_record() for run in store.runs()}
    assert len(runs) == 2
    for name, record in runs.items():
        assert record is not None
        assert record.reading.steps["step"].to_list() == [0, 1, 2]
        proofs = tuple(verify_checkpoints(f"{gcs_url}/runs/{name}", mode="check"))
        assert [(proof.step, proof.ok) for proof in proofs] == [(0, True), (2, True)]
        assert "manifest" in proofs[0].checks

    # a machine without a working copy trains nothing again
    again = maxview(*words, environment=environment | {"XDG_CACHE_HOME": str(tmp_path / "another machine")})
    assert again.returncode == done.returncode, again.stderr
    assert again.stderr.count("finished before") == 2
    now = {entry.name: entry.version for entry in store.files.entries()}
    assert {n: v for n, v in now.items() if n.startswith("runs/")} == {
        n: v for n, v in entries.items() if n.startswith("runs/")
    }
    assert now.keys() == entries.keys()

    # if two machines need one run, the second names the first and starts nothing
    run = store.run(next(iter(runs)))
    store.files.delete(f"runs/{run.run_name}/record.json")
    assert run.read_record() is None
    claim = {"host": "elsewhere", "folder": "/x", "pid": 7, "since": "2026-11-21T06:00:00+00:00", "replaces": None}
    store.files.write(f"runs/{run.run_name}/writer.json", json.dumps(claim).encode(), create=True)
    there = environment | {"XDG_CACHE_HOME": str(tmp_path / "a third machine")}
    third = maxview(*words, environment=there)
    assert third.returncode == 2
    reported = " ".join(third.stderr.split())
    assert " on elsewhere since 2026-11-21T06:00:00+00:00" in reported
    assert "--take-over" in reported
    assert not (store.path / "runs" / run.run_name / "log.txt").exists()
    taken_over = maxview(*words, "--take-over", environment=there)
    assert taken_over.returncode in (0, 3), taken_over.stderr  # three steps: the verdict on time may be unknown
    assert taken_over.stderr.count("finished before") == 1  # the other machine
    assert run.read_record() is not None
