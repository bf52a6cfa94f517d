"""`maxview compare` as a user runs it: real trainers, a real Prefect server, real checkpoints."""

import json
import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tasks.records.run import RunRecord
from tasks.store.store import Store
from tasks.verify.verification import verify_checkpoints

pytestmark = pytest.mark.flows

type Maxview = Callable[..., subprocess.CompletedProcess[str]]
type Start = Callable[..., subprocess.Popen[str]]
type ProcessesOf = Callable[[Path], list[psutil.Process]]

SMALL = ("--set", "steps=6", "--set", "max_target_length=32")
STEPS, PERIOD = 120, 40
LONG = ("--set", f"steps={STEPS}", "--set", "max_target_length=64", "--set", f"checkpoint_period={PERIOD}")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def ask(server: str, what: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the server's answer."""
    answer = httpx.post(f"{server}/{what}/filter", json=wanted, timeout=60)
    while answer.status_code == 503:  # a busy SQLite; Prefect's own client also retries
        time.sleep(1)
        answer = httpx.post(f"{server}/{what}/filter", json=wanted, timeout=60)
    return list(answer.raise_for_status().json())


def read_records(out: Path) -> dict[str, RunRecord]:
    records = [directory.read_record() for directory in Store(out).runs()]
    return {record.arm: record for record in records if record is not None}


def step_count(log: Path) -> int:
    return log.read_text().count("completed step:") if log.exists() else 0


@pytest.mark.long
def test_linen_and_nnx_are_the_same_and_a_rerun_trains_nothing(
    maxview: Maxview, tmp_path: Path, prefect_server: str, user_environment: dict[str, str]
) -> None:
    # the README's first command times both loops in turns
    request = ("compare", "linen-vs-nnx", *SMALL, "--interleave", "off", "--out", "o", "--json")
    first = maxview(*request, environment=user_environment)  # each arm compiles for itself
    (comparison,) = json.loads(first.stdout)
    differ = {row["metric"] for row in comparison["rows"] if row["verdict"] not in ("same", "not judged")}
    # one run of each leaves the time open
    assert differ <= {"step_time_s", "step_cpu_time_s"}, comparison["headline"]
    status = {"same": 0, "unknown": 3, "regressed": 1, "improved": 0}[comparison["verdict"]]
    assert first.returncode == status, first.stderr
    assert {floor["name"]: floor["holds"] for floor in comparison["floors"]} == {
        "same program": True,
        "same bits": True,
        "same checkpoint": True,
    }
    records = read_records(tmp_path / "o")
    assert set(records) == {"linen", "nnx"}
    for record in records.values():
        assert record.reading.exit_code == 0
        assert record.reading.coverage.complete
        assert record.reading.steps["step"].to_list() == [0, 1, 2, 3, 4, 5]
        assert record.metrics is not None
        # the log prints three decimals of the value in the metrics file
        printed = record.reading.steps["loss"].to_list()
        assert [f"{loss:.3f}" for loss in record.metrics["loss"]] == [f"{loss:.3f}" for loss in printed]
        assert [(proof.step, proof.ok) for proof in record.proofs] == [(0, True), (5, True)]
        # the manifests were recorded during training; nothing has changed since
        run = Path(record.log).parent
        assert all(proof.ok for proof in verify_checkpoints(run / "checkpoints", mode="check"))
    page = next((tmp_path / "o" / "comparisons").rglob("index.html"))
    assert "linen" in page.read_text()
    assert json.loads((page.parent / "comparison.json").read_text())["id"] == comparison["id"]

    before = {record.log: os.stat(record.log).st_mtime_ns for record in records.values()}
    second = maxview(*request)
    assert second.returncode == status, second.stderr
    assert "finished before" in second.stderr
    assert {log: os.stat(log).st_mtime_ns for log in before} == before
    again = json.loads(second.stdout)[0]
    assert again["id"] == comparison["id"]
    assert again["rows"] == comparison["rows"]

    runs = ask(prefect_server, "flow_runs", {"flows": {"name": {"any_": ["compare"]}}})
    ours = [run for run in runs if run["parameters"]["out"] == str(tmp_path / "o")]
    names = [run["name"] for run in ours if run["state"]["name"] == comparison["verdict"].title()]
    assert len(names) == 2
    assert {name.rpartition(" · ")[0] for name in names} == {"01_base: linen vs nnx on cpu"}
    only_ours = {"flow_runs": {"id": {"any_": [run["id"] for run in ours]}}}

    def states() -> set[str]:
        return {task["state"]["type"] for task in ask(prefect_server, "task_runs", only_ours)}

    wait_for(lambda: states() == {"COMPLETED"})  # the server stores them a little later
    artifacts = ask(prefect_server, "artifacts", only_ours)
    assert {artifact["key"]: artifact["type"] for artifact in artifacts} == {
        "linen-vs-nnx-01-base": "markdown",
        "progress-01-base-linen-r0": "progress",
        "progress-01-base-nnx-r0": "progress",
    }
    assert all(float(a["data"]) == 100.0 for a in artifacts if a["type"] == "progress")
    for verdict in (one for one in artifacts if one["type"] == "markdown"):
        assert verdict["task_run_id"] is None  # it is an artifact of the flow run
        assert comparison["verdict"] in verdict["data"].splitlines()[0]
        assert str(page) in verdict["data"]


@pytest.mark.long
def test_killed_flows_and_trainers_resume(
    start: Start, maxview: Maxview, tmp_path: Path, processes_of: ProcessesOf, holding: Any
) -> None:
    words = ("compare", "linen-vs-nnx", *LONG, "--interleave", "off", "--out", "o")
    runs = tmp_path / "o" / "runs"

    def kill_at(arm: str, step: int) -> Path:
        """Kill the flow when an arm's trainer is at a step; return the arm's run."""
        flow = start(*words, **holding.at(arm, step))
        wait_for(lambda: any(step_count(log) >= step for log in runs.glob(f"*{arm}*/log.txt")))
        os.killpg(flow.pid, signal.SIGKILL)
        flow.wait()
        return next(runs.glob(f"*{arm}*"))

    # a trainer that is killed with its flow resumes from its last checkpoint
    linen = kill_at("-linen-", 91)
    for process in processes_of(runs):
        with suppress(psutil.NoSuchProcess):  # one arm dies with its flow
            process.kill()
    wait_for(lambda: not processes_of(runs))
    assert not (linen / "record.json").exists()

    # the flow is killed alone: its job continues
    nnx = kill_at("-nnx-", 51)
    finished = {path: path.stat().st_mtime_ns for path in (linen / "log.txt", linen / "record.json")}
    assert not (nnx / "record.json").exists()
    supervisor = json.loads((nnx / "handle.json").read_text())["pid"]
    assert psutil.pid_exists(supervisor)

    holding.go.touch()
    again = maxview(*words, "--json", **holding.at("-nnx-", 51))
    (comparison,) = json.loads(again.stdout)
    # one run of each cannot tell whether two host loops take equal time on a processor
    assert again.returncode == {"same": 0, "improved": 0, "regressed": 1, "unknown": 3}[comparison["verdict"]]
    differ = {row["metric"] for row in comparison["rows"] if row["verdict"] not in ("same", "not judged")}
    assert differ <= {"step_time_s", "step_cpu_time_s"}, again.stderr
    # the interrupted and the uninterrupted arm end with the same bits
    assert {floor["name"]: floor["holds"] for floor in comparison["floors"]}["same bits"] is True
    # linen continued from a checkpoint once, and its log is the log of the whole run
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert (linen / "log.txt").read_text().count("XPK Start:") == 2
    assert (linen / "log.txt").read_text().count("completed step: 0,") == 1
    # the flow attached to nnx, without a second start
    assert json.loads((nnx / "handle.json").read_text())["pid"] == supervisor
    assert (nnx / "log.txt").read_text().count("XPK Start:") == 1
    records = read_records(tmp_path / "o")
    for record in records.values():
        assert record.reading.steps["step"].unique().to_list() == list(range(STEPS))
    assert all(proof.ok for proof in records["nnx"].proofs)
    assert [proof.step for proof in records["nnx"].proofs] == [*range(0, STEPS, PERIOD), STEPS - 1]
    assert records["nnx"].reading.steps.height == STEPS
    assert not processes_of(runs)


@pytest.mark.long
@pytest.mark.by_hand
def test_control_c_leaves_nothing_running_and_the_same_command_continues(
    start: Start, tmp_path: Path, processes_of: ProcessesOf, holding: Any
) -> None:
    runs = tmp_path / "o" / "runs"

    def interrupt_once(arm: str, step: int, condition: Callable[[], object]) -> None:
        flow = start("compare", "linen-vs-nnx", *LONG, "--out", "o", **holding.at(arm, step))
        wait_for(condition)
        os.killpg(flow.pid, signal.SIGINT)
        _, errors = flow.communicate(timeout=300)
        # a shell shows 130 in both cases: if the signal arrives in the exec() of a text (the import of dataclasses),
        # CPython ends itself by the same signal after the command has ended
        assert flow.returncode in (130, -signal.SIGINT), errors
        assert "interrupted" in errors
        assert "Traceback" not in errors
        wait_for(lambda: not processes_of(tmp_path / "o"))
        for directory in Store(tmp_path / "o").runs():
            directory.read_record()  # readable or absent, never half-written

    def is_starting() -> bool:
        if (tmp_path / "prefect-home").exists():  # Prefect is being imported, which takes a second or more
            time.sleep(0.5)
            return True
        return False

    interrupt_once("-linen-", 6, is_starting)
    interrupt_once("-linen-", 6, lambda: any(step_count(log) > 5 for log in runs.glob("*-linen-*/log.txt")))
    assert read_records(tmp_path / "o") == {}
    interrupt_once("-nnx-", 0, lambda: any(log.stat().st_size for log in runs.glob("*-nnx-*/log.txt")))
    assert set(read_records(tmp_path / "o")) == {"linen"}


@pytest.mark.long
def test_a_dead_arm_is_a_result_with_its_cause(maxview: Maxview, prefect_server: str) -> None:
    """Runs on eight devices, which each arm's log confirms."""
    # an absurd learning rate makes the loss infinite or NaN, in both arms
    words = ("--set", "learning_rate=1e30", "--set", "warmup_steps_fraction=0.0")
    result = maxview("compare", "linen-vs-nnx", *SMALL, *words, "--target", "cpu-8", "--out", "o", "--json")
    assert result.returncode == 1, result.stderr
    (comparison,) = json.loads(result.stdout)
    for side in ("baseline", "candidate"):
        assert comparison[side]["environment"]["num_devices"] == 8
        assert comparison[side]["exit_code"] == 1
        assert comparison[side]["cause_of_death"]["line"] > 1
    assert "died" in comparison["headline"]
    wanted = {"logs": {"level": {"ge_": logging.ERROR}}}
    errors = [line["message"] for line in httpx.post(f"{prefect_server}/logs/filter", json=wanted, timeout=60).json()]
    died = {arm for message in errors for arm in re.findall(r"^01_base-(\w+)-\S+: died: StopTraining: step ", message)}
    assert died == {"linen", "nnx"}, errors


DIFFERENT = """# Is another epsilon seen?
trainer: maxview
target: cpu
cases: [01_base]
repeats: 1
tolerances: default
explain: {explain}
arms:
  - name: linen
    set: {{pure_nnx: false}}
  - name: nnx
    set: {{pure_nnx: true, normalization_layer_epsilon: 0.001}}
set: {{steps: 6, max_target_length: 32}}
"""


@pytest.mark.long
@pytest.mark.by_hand  # two comparisons and an explanation: a minute of the processor
def test_an_explanation_changes_no_time_and_no_loss(
    maxview: Maxview, custom_trainer: Callable[..., Path], tmp_path: Path
) -> None:
    custom_trainer()  # its configs are a copy
    file = tmp_path / "configs" / "comparisons" / "epsilon.yml"

    def compare(explain: str, out: str) -> dict[str, Any]:
        file.write_text(DIFFERENT.format(explain=explain))
        done = maxview("compare", "epsilon", "--interleave", "off", "--out", out, "--json")
        assert done.returncode in (1, 3), done.stderr  # the time of so few steps may be unknown
        (record,) = json.loads(done.stdout)
        return dict(record)

    plain = compare("off", "o")
    assert plain.pop("explanation") is None
    logs = {record.log: Path(record.log).read_bytes() for record in read_records(tmp_path / "o").values()}

    explained = compare("auto", "o")  # of the same runs
    explanation = explained.pop("explanation")
    assert explained["function"]["answer"] == "another"
    first = explanation["tensors"]["first"]
    assert (first["kind"], first["baseline"], first["candidate"]) == ("constant", "1e-05", "0.001")
    # the values of all rows, times too; the verdict of the losses comes from both steps in float64.
    # Without it the lines that ran have a row of their own: whether the programs compute one function is not known
    values = [
        {row["metric"]: (row["baseline_text"], row["candidate_text"]) for row in one["rows"]}
        for one in (plain, explained)
    ]
    assert values[0].pop("change_coverage") == ("–", "–")
    assert values[0].items() <= values[1].items()
    assert {log: Path(log).read_bytes() for log in logs} == logs
