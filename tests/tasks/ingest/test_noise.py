"""Logs of a named target: earlier ingests give the noise of equal runs, or the message names the command to type."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.cli.app import call_command
from questions.history.history_table import append_comparison, load_history, read_runs, rebuild_history
from questions.history.prior import group_equal_runs, past_of_history
from questions.history.record_rows import alike_hash
from tasks.diff.compare_logs import archive, case_runs, compare_pair
from tasks.ingest.given_logs import read_pair
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.store.store import Store, open_store
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

STEP = "completed step: {}, seconds: {:.3f}, TFLOP/s/device: 91.900, Tokens/s/device: 13852.158, total_weights: 65536, loss: 8.000\n"  # fmt: skip # noqa: E501
NOISE = 0.004  # of a run, as the logarithm of its time

type Ingest = Callable[..., ComparisonRecord]


def log_text(seconds: float, *, begin: str, jax: str = "0.9.2", seed: int = 0) -> str:
    """A run of 30 steps, each off by up to 0.2 %, and a first one that compiles."""
    rng = random.Random(seed)
    steps = [20.0, *(seconds * (1 + rng.uniform(-0.002, 0.002)) for _ in range(29))]
    head = f"XPK Start: {begin}\nSystem Information: Jax Version: {jax}\n"
    end = "XPK End: Sat Apr 18 23:57:29 UTC 2026\nEXIT_CODE=0\n"
    return head + "".join(STEP.format(step, took) for step, took in enumerate(steps)) + end


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "out")


@pytest.fixture
def ingest(store: Store, tmp_path: Path) -> Ingest:
    """ingest(seconds of one, of the other, …): two logs of a target, compared and added to the history."""
    made: list[Path] = []

    def run(*seconds: float, target: str | None = "lab", aa: bool = False, **changes: Any) -> ComparisonRecord:
        paths = []
        for took in seconds:
            number = len(made)
            path = tmp_path / f"run-{number}.txt"
            begin = f"Sat Apr 18 {number // 60:02}:{number % 60:02}:24 UTC 2026"
            path.write_text(log_text(took, begin=begin, seed=number, **changes))
            made.append(path)
            paths.append(path)
        records = archive(read_pair(paths), store)
        past = past_of_history(case_runs(records, case="logs", target=target), store) if target else {}
        record = compare_pair(records, case="logs", aa=aa, target=target, past=past)
        store.comparison(record.comparison, record.case, record.id).write_comparison(record)
        append_comparison(record, store)
        return record

    return run


def controls(ingest: Ingest, count: int, **changes: Any) -> None:
    """Pairs of logs of one commit, whose runs differ by NOISE."""
    rng = random.Random(5)
    for _ in range(count):
        ingest(*(1.0 + rng.gauss(0, NOISE) for _ in range(2)), aa=True, **changes)


def step_time(record: ComparisonRecord) -> MetricDiff:
    return next(row for row in record.rows if row.metric == "step_time_s")


def test_without_a_target_the_message_gives_the_reason_and_a_command(ingest: Ingest) -> None:
    record = ingest(1.0, 1.02, target=None)
    row = step_time(record)  # one run of each decides little: Student's t with one degree of freedom
    assert (row.verdict, row.evidence) == ("unknown", "one run of each")
    assert row.runs_wanted is not None
    assert f"run each arm {row.runs_wanted - 1} more time" in row.reason
    assert "give maxview ingest the logs of further runs" in row.reason
    assert "--target NAME" in row.reason
    assert "--repeats" not in row.reason  # a command cannot repeat the runs of given logs


def test_a_target_without_equal_runs_says_how_to_add_some(ingest: Ingest, wording: Wording) -> None:
    ingest(1.0, 1.0)  # possibly two settings
    row = step_time(ingest(1.0, 1.02))
    assert row.verdict == "unknown"
    assert re.search(r"\(or add 8 pairs .*: --aa --target lab\)", row.reason)
    wording("reasons", row.reason)


def test_earlier_controls_of_the_target_supply_the_noise(ingest: Ingest, store: Store) -> None:
    controls(ingest, 12)
    row = step_time(ingest(1.0, 1.002))
    # two runs with errors of 0.4 % each differ by √2 times that: 0.2 % surely lies inside ±3 %
    assert row.verdict == "same"
    assert "12 pairs of the history of logs on lab" in row.reason
    assert row.effect == pytest.approx(0.002, abs=0.002)
    slower = step_time(ingest(1.0, 1.3))
    assert (slower.verdict, slower.evidence) == ("regressed", "one run of each")  # 50 times the noise of equal runs


def test_other_targets_and_other_runs_do_not_count(ingest: Ingest) -> None:
    for target in ("attic", None):
        controls(ingest, 8, target=target)
        row = step_time(ingest(1.0, 1.002))
        assert row.effect is not None
        assert row.effect_high is not None
        # as stated for an unknown device: 0.123 %; Student's t with 1 degree is 63.7 at 99 %
        assert np.log1p(row.effect_high) - np.log1p(row.effect) == pytest.approx(63.66 * 0.00123, rel=0.1)


def test_equal_runs_have_one_commit_and_equal_reports(ingest: Ingest, store: Store) -> None:
    controls(ingest, 3)
    ingest(1.0, 1.0)
    found = group_equal_runs(load_history(store.files).filter(target="lab", metric="step_time_s"))
    assert [len(group) for group in found] == [2, 2, 2]  # without a commit: only the two runs of a control are equal


def test_runs_that_count_as_equal(ingest: Ingest, store: Store) -> None:
    record = ingest(1.0, 1.0)
    plain, _ = read_runs(record, store)
    assert alike_hash(plain, record, "baseline") is None  # its log names no commit: it could be any
    run = plain.replace(commit="c0ffee1")
    control, word = record.replace(aa=True), alike_hash(run, record, "baseline")
    assert word is not None
    assert alike_hash(run.replace(arm="x", label="x"), record, "baseline") == word
    assert alike_hash(run, record.replace(id="another"), "baseline") == word
    # logs may omit the setting in which the candidate differs, unless the comparison is a control
    assert alike_hash(run, record, "candidate") != word
    assert alike_hash(run, control, "candidate") == alike_hash(run, control, "baseline")
    other_commit = run.replace(commit="c0ffee2")
    assert alike_hash(other_commit, record, "baseline") != word
    for changes, same in (
        ({"environment": run.reading.environment.replace(process_index=7)}, True),
        ({"environment": run.reading.environment.replace(jax="0.8.1")}, False),
        ({"parameters": run.reading.parameters.replace(count=7)}, False),
        ({"config": {"run_name": "x", "base_output_directory": "/y"}}, True),
        ({"config": {"remat_policy": "full"}}, False),
    ):
        other = run.replace(reading=run.reading.replace(**changes))
        assert (alike_hash(other, record, "baseline") == word) is same, changes
    assert alike_hash(plain, control, "baseline") != alike_hash(plain, control.replace(id="z"), "baseline")


def test_the_history_is_rebuilt_from_the_folders(ingest: Ingest, store: Store) -> None:
    controls(ingest, 4)
    before = load_history(store.files)
    for entry in list(store.files.entries("history")):
        store.files.delete(entry.name)
    assert rebuild_history(store) == 4
    assert load_history(store.files).equals(before)


@pytest.mark.parametrize("name", ["as logged", "../x", "", "-x", "a/b"])
def test_a_target_needs_a_plain_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for log in ("a.txt", "b.txt"):
        Path(log).write_text(log_text(1.0, begin="Sat Apr 18 00:54:24 UTC 2026"))
    assert call_command(["ingest", "a.txt", "b.txt", f"--target={name}"]) == 2
    assert "target" in capsys.readouterr().err
    assert not Path("maxview-out").exists()
