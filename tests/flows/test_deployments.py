"""`maxview up` and its deployments, with a real server and worker: what is asked for runs, and nothing outlives it.

One server and one worker for the whole module, with basic authentication. The trainer only prints.
"""

import http.server
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tasks.publish.nightly import CHANGED_EVENT

ROOT = Path(__file__).parent.parent.parent
PASSWORD = "maxview:a-secret-of-the-test"
TRAINER = """\
import time

for step in range(20):
    time.sleep({pause})
    print(
        f"completed step: {{step}}, seconds: 0.500, TFLOP/s/device: 1.000, Tokens/s/device: 30.000, "
        f"total_weights: 8, loss: {{{loss} / (step + 1):.3f}}",
        flush=True,
    )
"""
BRANCHES = {"main": (0.0, 2.0), "feat/x": (0.0, 3.0), "slow": (1.0, 2.0), "1234567": (0.0, 2.0)}
OVER = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}


@dataclass
class Stack:
    """A running `maxview up`."""

    folder: Path
    port: int
    environment: dict[str, str]
    messages: list[Any] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    def command(self, *words: str, module: str = "flows.cli") -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-m", module, *words]
        return subprocess.run(
            argv, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=300
        )

    def up(self) -> "subprocess.CompletedProcess[str]":
        done = self.command("up", "--state", "state", "--out", "out", "--port", str(self.port))
        assert done.returncode == 0, done.stderr
        return done

    def pid(self, name: str) -> int:
        return int(json.loads((self.folder / "state" / f"{name}.json").read_text())["pid"])

    def request(self, method: str, path: str, body: Any = None) -> Any:
        user, password = PASSWORD.split(":")
        url = f"http://127.0.0.1:{self.port}/api{path}"
        answer = httpx.request(method, url, json=body, auth=(user, password), timeout=60)
        while answer.status_code == 503:  # a busy SQLite; Prefect's own client tries again too
            time.sleep(1)
            answer = httpx.request(method, url, json=body, auth=(user, password), timeout=60)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def run(self, deployment: str, **parameters: Any) -> str:
        """Start a deployment; the flow run's id."""
        found = self.request("GET", f"/deployments/name/{deployment}")
        wanted = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        return str(self.request("POST", f"/deployments/{found['id']}/create_flow_run", wanted)["id"])

    def state(self, run: str) -> dict[str, Any]:
        return dict(self.request("GET", f"/flow_runs/{run}")["state"])

    def wait(self, condition: Callable[[], Any], seconds: float = 120) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, (self.folder / "state" / "worker.log").read_text()[-3000:]
            time.sleep(0.2)
        return found

    def ended(self, run: str, seconds: float = 120) -> dict[str, Any]:
        """The run's final state."""

        def look() -> dict[str, Any] | None:
            try:
                state = self.state(run)
            except httpx.HTTPError:  # the server is away
                return None
            return state if state["type"] in OVER else None

        return dict(self.wait(look, seconds))

    def jobs(self) -> list[psutil.Process]:
        """The supervisors of jobs that write into this stack's store."""
        found = []
        for process in psutil.process_iter():
            try:
                words = " ".join(process.cmdline())
                if "supervise.py" in words and str(self.out) in words and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, clean_environment: dict[str, str]) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    make_repository(folder / "repository")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Webhook() as (address, messages):
        environment = clean_environment | {
            "PYTHONPATH": str(ROOT),
            "MAXVIEW_CACHE": str(folder / "cache"),
            "PREFECT_WORKER_QUERY_SECONDS": "1",  # else a run waits up to ten for the worker to look
            "MAXVIEW_WEBHOOK_URL": address,
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_API_AUTH_STRING": PASSWORD,
            "PREFECT_SERVER_API_AUTH_STRING": PASSWORD,
        }
        running = Stack(folder, port, environment, messages)
        try:
            running.up()
            yield running
        finally:
            ended = running.command("down", "--state", "state")
            assert ended.stderr.splitlines() in (["worker: ended", "server: ended"], ["nothing is up"])
            assert not running.jobs()


def make_repository(folder: Path) -> None:
    (folder / "model").mkdir(parents=True)
    (folder / "configs").mkdir()
    (folder / "configs" / "base.yml").write_bytes((ROOT / "configs" / "base.yml").read_bytes())
    (folder / "model" / "__init__.py").write_text('"""A trainer."""\n')

    def git(*words: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for branch, (pause, loss) in BRANCHES.items():
        git("checkout", "-q", "-B", branch)
        (folder / "model" / "train.py").write_text(TRAINER.format(pause=pause, loss=loss) + f"# {branch}\n")
        git("add", "-A")
        git("commit", "-q", "-m", branch)


class Webhook:
    """A place that messages are sent to."""

    def __enter__(self) -> tuple[str, list[Any]]:
        messages: list[Any] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                messages.append((self.headers["content-type"], json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook", messages

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_the_command_works_as_it_is_written(stack: Stack) -> None:
    words = ["deployment", "run", "compare/main-vs-branch", "--watch", "-p", "branch=feat/x"]
    done = stack.command(*words, "-p", f"repository={stack.repository}", "-p", "repeats=1", module="prefect")
    assert done.returncode == 1, done.stdout + done.stderr  # the branch's losses are higher
    assert "Regressed" in done.stdout
    (record,) = (json.loads(path.read_text()) for path in stack.out.rglob("comparison.json"))
    assert (record["baseline"]["branch"], record["candidate"]["branch"]) == ("main", "feat/x")
    rows = {row["metric"]: row for row in record["rows"]}
    assert (rows["final_loss"]["baseline"], rows["final_loss"]["candidate"]) == (0.1, 0.15)  # 2.0 / 20, 3.0 / 20
    assert rows["final_loss"]["verdict"] == "regressed"


def test_up_again_changes_nothing_that_is_right(stack: Stack) -> None:
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


def test_nothing_is_told_without_the_password_and_it_is_kept_nowhere(stack: Stack) -> None:
    url = f"http://127.0.0.1:{stack.port}/api/flow_runs/filter"
    assert httpx.post(url, json={}, timeout=60).status_code == 401
    for path in (stack.folder / "state").rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path


def test_a_name_that_is_none_ends_the_run_with_a_reason(stack: Stack) -> None:
    # many more such names are tried in tests/tasks/test_refs.py
    state = stack.ended(stack.run("compare/main-vs-branch", branch="$(touch owned) <img src=x>"))
    assert state["type"] == "FAILED"
    assert "is not a name that git allows" in state["message"]
    assert not list(stack.folder.rglob("owned"))


def test_a_number_as_a_branch_needs_quotes(stack: Stack) -> None:
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
def test_a_run_that_is_ended_leaves_no_job(stack: Stack, how: str) -> None:
    steps = {"cancelled": "steps=21", "killed": "steps=22"}[how]  # runs of their own
    wanted = {"branch": "slow", "repository": str(stack.repository), "repeats": 1, "overrides": [steps]}
    run = stack.run("compare/main-vs-branch", **wanted)
    stack.wait(lambda: any("branch" in " ".join(job.cmdline()) for job in stack.jobs()))
    if how == "cancelled":
        stack.request("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})
    else:
        (flow,) = psutil.Process(stack.pid("worker")).children()
        os.kill(flow.pid, signal.SIGKILL)
    assert stack.ended(run)["type"] == {"cancelled": "CANCELLED", "killed": "CRASHED"}[how]
    stack.wait(lambda: not stack.jobs(), 20)


def test_a_night_outlives_its_server_and_tells_what_changed_once(stack: Stack) -> None:
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


def test_down_in_mid_run_ends_the_job_and_says_so(stack: Stack) -> None:
    # the last test of the module: what it takes down stays down
    wanted = {"branch": "slow", "repository": str(stack.repository), "repeats": 1, "overrides": ["steps=23"]}
    run = stack.run("compare/main-vs-branch", **wanted)
    stack.wait(lambda: any("branch" in " ".join(job.cmdline()) for job in stack.jobs()))
    of_run = stack.out / "flows" / run
    (name,) = (path.name for path in of_run.iterdir() if "-branch-" in path.name)
    done = stack.command("down", "--state", "state")
    worker, told, server = done.stderr.splitlines()
    assert (done.returncode, worker, server) == (0, "worker: ended", "server: ended")
    assert told.startswith(f"01_base: main vs slow on cpu (flow run {run}): ended, and its job {name};")
    assert not stack.jobs()
    assert not list(of_run.iterdir())  # there is nothing to look for when a server is there again
    with closing(sqlite3.connect(stack.folder / "state" / "prefect" / "prefect.db")) as database:
        found = database.execute("select state_type from flow_run where id = ?", (run,)).fetchall()
    assert found == [("CANCELLED",)]
