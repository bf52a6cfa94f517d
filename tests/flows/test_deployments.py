"""`maxview up` and its deployments, with a real server and worker: requested flows run, and no process outlives them.

One server and one worker for all of them, with basic authentication. The trainer only prints.
"""

import json
import os
import re
import signal
from contextlib import suppress
from typing import Any

import httpx
import psutil
import pytest

NEWEST = {"limit": 200, "sort": "TIMESTAMP_DESC"}

pytestmark = pytest.mark.long  # a server, a pool and a worker as `maxview up` starts them


def test_the_documented_command_works(stack: Any) -> None:
    words = ["deployment", "run", "compare/main-vs-branch", "--watch", "-p", "branch=feat/x"]
    done = stack.command(*words, "-p", f"repository={stack.repository}", "-p", 'more={"repeats": 1}', module="prefect")
    assert done.returncode == 1, done.stdout + done.stderr  # the branch's losses are higher
    assert "Regressed" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    # --watch prints the headline and the page's address; ignore the line breaks of a narrow terminal
    shown = "".join(done.stdout.split())
    assert re.search(r"regressed.*page:\S*/index\.html.*Flowrunfinishedinstate'Regressed'\.$", shown), done.stdout
    messages = [log["message"] for log in stack.request("POST", "/logs/filter", NEWEST)]  # the finding and its location
    assert any(re.search(r"\bregressed\b", message, re.IGNORECASE) for message in messages)
    assert any(message.startswith("page: ") and message.endswith("/index.html") for message in messages)
    (record,) = (json.loads(path.read_text()) for path in stack.out.rglob("comparison.json"))
    assert (record["baseline"]["branch"], record["candidate"]["branch"]) == ("main", "feat/x")
    rows = {row["metric"]: row for row in record["rows"]}
    assert (rows["final_loss"]["baseline"], rows["final_loss"]["candidate"]) == (0.1, 0.15)  # 2.0 / 20, 3.0 / 20
    assert rows["final_loss"]["verdict"] == "regressed"


def test_the_server_needs_the_password_and_no_file_contains_it(stack: Any) -> None:
    url = f"http://127.0.0.1:{stack.port}/api/flow_runs/filter"
    assert httpx.post(url, json={}, timeout=60).status_code == 401
    for path in (stack.folder / "state").rglob("*"):
        if path.is_file():
            assert stack.password.encode() not in path.read_bytes(), path


def test_an_invalid_ref_ends_the_run_with_a_reason(stack: Any) -> None:
    # many more such names are tried in tests/tasks/resolve/test_refs.py
    state = stack.ended(stack.run("compare/main-vs-branch", branch="$(touch owned) <img src=x>"))
    assert state["type"] == "FAILED"
    assert "'$(touch owned) <img src=x>'" in state["message"]
    assert not list(stack.folder.rglob("owned"))
    before = set(stack.out.glob("runs/*"))
    state = stack.ended(stack.run("compare/main-vs-branch", more={"comment": "the pull request"}))
    assert state["type"] == "FAILED"
    assert "'the pull request' is no pull request" in state["message"]
    assert set(stack.out.glob("runs/*")) == before  # reported before anything is trained


@pytest.mark.parametrize("given", ["again, after the fix", None])
def test_a_name_given_in_the_form_is_kept_and_a_generated_one_is_replaced(stack: Any, given: str | None) -> None:
    run = stack.run("compare/main-vs-branch", named=given, repository="/nowhere")
    generated = stack.request("GET", f"/flow_runs/{run}")["name"]
    assert generated == given or re.fullmatch("[a-z]+-[a-z]+", generated)
    stack.ended(run)
    shown = stack.request("GET", f"/flow_runs/{run}")["name"]
    assert shown == (given or "01_base: main vs working tree on cpu")


@pytest.mark.by_hand
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


def test_a_killed_run_had_no_secret_of_its_worker_and_leaves_no_job(stack: Any) -> None:
    wanted = {"branch": "slow", "repository": str(stack.repository), "more": {"repeats": 1, "overrides": ["steps=22"]}}
    run = stack.run("compare/main-vs-branch", **wanted)
    trainers = stack.wait(lambda: [child for job in stack.jobs() for child in job.children() if is_trainer(child)])
    hers = psutil.Process(stack.pid("worker")).environ()
    assert hers.items() >= stack.secrets.items()
    for reported in (str(process.environ()) for process in [*stack.jobs(), *trainers]):
        assert not [name for name, secret in stack.secrets.items() if name in reported or secret in reported]
    # the process of an earlier run may still be ending
    (flow,) = (child for child in psutil.Process(stack.pid("worker")).children() if flow_run_of(child) == run)
    os.kill(flow.pid, signal.SIGKILL)
    assert stack.ended(run)["type"] == "CRASHED"
    stack.wait(lambda: not stack.jobs())


def is_trainer(process: psutil.Process) -> bool:
    """Return whether a process is a trainer, rather than its guard or a process before its exec."""
    with suppress(psutil.NoSuchProcess):
        words = " ".join(process.cmdline())
        return "branch" in words and "supervise.py" not in words
    return False


def flow_run_of(process: psutil.Process) -> str | None:
    """Return the flow run's id from its process's environment."""
    try:
        return process.environ().get("PREFECT__FLOW_RUN_ID")
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return None
