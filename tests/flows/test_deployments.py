"""`maxview up` and its deployments, with a real server and worker: what is asked for runs, and nothing outlives it.

One server and one worker for all of them, with basic authentication. The trainer only prints.
"""

import json
import os
import re
import signal
import sqlite3
from contextlib import closing, suppress
from typing import Any

import httpx
import psutil
import pytest

from tasks.publish.index import parse_index
from tasks.publish.nightly import CHANGED_EVENT

pytestmark = pytest.mark.long  # a server, a pool and a worker as `maxview up` starts them


def test_the_command_works_as_it_is_written(stack: Any) -> None:
    words = ["deployment", "run", "compare/main-vs-branch", "--watch", "-p", "branch=feat/x"]
    done = stack.command(*words, "-p", f"repository={stack.repository}", "-p", "repeats=1", module="prefect")
    assert done.returncode == 1, done.stdout + done.stderr  # the branch's losses are higher
    assert "Regressed" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    # whoever watches reads on, without the line breaks of a narrow terminal: what was found, and where it is
    shown = "".join(done.stdout.split())
    assert re.search(r"regressed.*page:\S*/index\.html.*Flowrunfinishedinstate'Regressed'\.$", shown), done.stdout
    messages = [log["message"] for log in stack.request("POST", "/logs/filter", {})]  # what was found, and where it is
    assert any(re.search(r"\bregressed\b", message, re.IGNORECASE) for message in messages)
    assert any(message.startswith("page: ") and message.endswith("/index.html") for message in messages)
    (record,) = (json.loads(path.read_text()) for path in stack.out.rglob("comparison.json"))
    assert (record["baseline"]["branch"], record["candidate"]["branch"]) == ("main", "feat/x")
    rows = {row["metric"]: row for row in record["rows"]}
    assert (rows["final_loss"]["baseline"], rows["final_loss"]["candidate"]) == (0.1, 0.15)  # 2.0 / 20, 3.0 / 20
    assert rows["final_loss"]["verdict"] == "regressed"


def test_up_again_changes_nothing_that_is_right(stack: Any) -> None:
    before = (stack.pid("server"), stack.pid("worker"))
    said = stack.up().stderr
    assert "server: runs already" in said
    assert "worker: runs already" in said
    assert (stack.pid("server"), stack.pid("worker")) == before
    names = [item["name"] for item in stack.request("POST", "/automations/filter", {})]
    assert len(names) == len(set(names)) == 3
    limits = stack.request("POST", "/v2/concurrency_limits/filter", {})
    ours = {item["name"]: item["limit"] for item in limits if item["name"].startswith("maxview")}
    assert ours["maxview-slices-cpu"] == 1


def test_nothing_is_told_without_the_password_and_it_is_kept_nowhere(stack: Any) -> None:
    url = f"http://127.0.0.1:{stack.port}/api/flow_runs/filter"
    assert httpx.post(url, json={}, timeout=60).status_code == 401
    for path in (stack.folder / "state").rglob("*"):
        if path.is_file():
            assert stack.password.encode() not in path.read_bytes(), path


def test_a_name_that_is_none_ends_the_run_with_a_reason(stack: Any) -> None:
    # many more such names are tried in tests/tasks/resolve/test_refs.py
    state = stack.ended(stack.run("compare/main-vs-branch", branch="$(touch owned) <img src=x>"))
    assert state["type"] == "FAILED"
    assert "is not a name that git allows" in state["message"]
    assert not list(stack.folder.rglob("owned"))
    before = set(stack.out.glob("runs/*"))
    state = stack.ended(stack.run("compare/main-vs-branch", comment="the pull request"))
    assert state["type"] == "FAILED"
    assert "'the pull request' is no pull request" in state["message"]
    assert set(stack.out.glob("runs/*")) == before  # told before anything is trained


def test_a_number_as_a_branch_needs_quotes(stack: Any) -> None:
    words = ["deployment", "run", "compare/main-vs-branch", "-p"]
    refused = stack.command(*words, "branch=1234567", module="prefect")
    assert refused.returncode == 1
    assert "branch" in refused.stdout
    taken = stack.command(*words, 'branch="1234567"', "-p", "repository=/nowhere", module="prefect")
    assert taken.returncode == 0, taken.stdout + taken.stderr
    run = re.search(r"UUID: (\S+)", taken.stdout)
    assert run is not None
    assert stack.request("GET", f"/flow_runs/{run[1]}")["parameters"]["branch"] == "1234567"
    assert "/nowhere" in stack.ended(run[1])["message"]


@pytest.mark.parametrize("how", ["cancelled", "killed"])
def test_a_run_has_no_secret_of_its_worker_and_leaves_no_job(stack: Any, how: str) -> None:
    steps = {"cancelled": "steps=21", "killed": "steps=22"}[how]  # runs of their own
    wanted = {"branch": "slow", "repository": str(stack.repository), "repeats": 1, "overrides": [steps]}
    run = stack.run("compare/main-vs-branch", **wanted)
    trainers = stack.wait(lambda: [child for job in stack.jobs() for child in job.children() if is_trainer(child)])
    hers = psutil.Process(stack.pid("worker")).environ()
    assert hers.items() >= stack.secrets.items()
    for told in (str(process.environ()) for process in [*stack.jobs(), *trainers]):
        assert not [name for name, secret in stack.secrets.items() if name in told or secret in told]
    if how == "cancelled":
        stack.request("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})
    else:
        # the process of a run before it may still be ending
        children = psutil.Process(stack.pid("worker")).children()
        (flow,) = (child for child in children if flow_run_of(child) == run)
        os.kill(flow.pid, signal.SIGKILL)
    assert stack.ended(run)["type"] == {"cancelled": "CANCELLED", "killed": "CRASHED"}[how]
    stack.wait(lambda: not stack.jobs())


def is_trainer(process: psutil.Process) -> bool:
    """Whether it is one, and not what guards it or is about to become it."""
    with suppress(psutil.NoSuchProcess):
        words = " ".join(process.cmdline())
        return "branch" in words and "supervise.py" not in words
    return False


def flow_run_of(process: psutil.Process) -> str | None:
    """Of a flow's process: the id of its run."""
    try:
        return process.environ().get("PREFECT__FLOW_RUN_ID")
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return None


def test_a_night_outlives_its_server_and_tells_what_changed_once(stack: Any) -> None:
    config = stack.folder / "night.yml"
    config.write_text(
        "target: cpu\ncomparisons:\n"
        f"  - {{name: main-vs-branch, repository: {stack.repository}, branch: feat/x, baseline: main, repeats: 1}}\n"
        "quarantine: [{case: 16_f32_exact, why: known, until: 2099-12-31}]\nowners: {01_base: alice}\n"
    )
    wanted = {"config": str(config), "cases": ["01_base", "16_f32_exact"], "overrides": ["steps=9"]}
    run = stack.run("nightly/all-cases", **wanted)
    stack.wait(
        lambda: list(stack.out.glob("runs/*01_base*baseline*/record.json")) and stack.state(run)["type"] == "RUNNING"
    )
    os.kill(stack.pid("server"), signal.SIGKILL)
    stack.up()  # takes seconds, in which the night has no server
    state = stack.ended(run)
    assert (state["type"], state["name"]) == ("FAILED", "Regressed")
    assert "1 of 2 comparisons need a look" in state["message"]
    (record,) = (json.loads(path.read_text()) for path in stack.out.glob("nightly/*/record.json"))
    assert [result["outcome"] for result in record["results"]] == ["regressed"] * 2
    artifacts = stack.request("POST", "/artifacts/latest/filter", {"artifacts": {"key": {"any_": ["nightly"]}}})
    (summary,) = artifacts
    assert "(✗ regressed)" in summary["data"]  # in brackets: in quarantine
    comment = next(stack.out.glob("nightly/*/comment.md")).read_text()
    assert comment.startswith("<!-- maxview:nightly -->\n")
    index = parse_index((stack.out / "index.html").read_text())
    assert index is not None
    (night,) = index.nights
    assert [(cell.outcome, cell.quarantine) for cell in night.cells] == [
        ("regressed", ""),
        ("regressed", "known (until 2099-12-31)"),
    ]
    assert {cell.page for cell in night.cells} <= {item.page for item in index.comparisons}
    stack.wait(lambda: stack.messages)
    ((content_type, message),) = stack.messages
    assert content_type == "application/json"
    assert set(message) == {"text"}
    assert "01_base (alice): regressed" in message["text"]
    assert "16_f32_exact" not in message["text"]

    again = stack.ended(stack.run("nightly/all-cases", **wanted))
    assert again["name"] == "Regressed"
    assert len(list(stack.out.glob("nightly/*/record.json"))) == 2
    # the same state of things is no news; a flow's process ends when the server has its events
    stack.wait(lambda: not psutil.Process(stack.pid("worker")).children())
    named = {"filter": {"event": {"name": [CHANGED_EVENT]}}}
    assert len(stack.request("POST", "/events/filter", named)["events"]) == 1
    assert len(stack.messages) == 1


def test_down_in_mid_run_ends_every_job_and_says_so(stack: Any, pods: Any) -> None:
    """Of two runs, one has its job on this machine and one on a cluster."""
    wanted = {"branch": "slow", "repository": str(stack.repository), "repeats": 1, "overrides": ["steps=23"]}
    there = stack.run("compare/linen-vs-nnx", target="v6e-32", cases=["01_base"], repeats=1)
    stack.wait(lambda: any("completed step: 3" in log.read_text() for log in stack.out.glob("runs/*linen*/log.txt")))
    here = stack.run("compare/main-vs-branch", **wanted)
    stack.wait(lambda: any("branch" in " ".join(job.cmdline()) for job in stack.jobs()))
    (workload,), processes = pods()
    assert processes
    (name,) = (path.name for path in (stack.out / "flows" / here).iterdir() if "-branch-" in path.name)
    done = stack.command("down", "--state", "state")
    worker, *told, server = done.stderr.splitlines()
    assert (done.returncode, worker, server) == (0, "worker: ended", "server: ended")
    assert {line.partition(";")[0] for line in told} == {
        f"01_base: main vs slow on cpu (flow run {here}): ended, and its job {name}",
        f"01_base: linen vs nnx on v6e-32 (flow run {there}): ended, and its job {workload}",
    }
    assert not stack.jobs()
    assert pods() == ([], [])
    for run in (here, there):
        assert not list((stack.out / "flows" / run).iterdir())  # nothing to look for when a server is there again
        with closing(sqlite3.connect(stack.folder / "home" / "prefect.db")) as database:
            found = database.execute("select state_type from flow_run where id = ?", (run,)).fetchall()
        assert found == [("CANCELLED",)]
