"""`maxview up` again, a night that outlives its server, and `maxview down`, with a real server and worker.

These tests run last on the shared server and worker, because they end them.
"""

import json
import os
import signal
import sqlite3
from contextlib import closing
from typing import Any

import psutil
import pytest

from tasks.publish.markdown.night import CHANGED_EVENT
from tasks.publish.site.index import parse_index

pytestmark = pytest.mark.long


def test_a_second_up_changes_nothing(one_stack: Any) -> None:
    one_stack.bring_up()
    before = (one_stack.pid("server"), one_stack.pid("worker"))
    said = one_stack.up().stderr
    assert "server: runs already" in said
    assert "worker: runs already" in said
    assert (one_stack.pid("server"), one_stack.pid("worker")) == before
    names = [item["name"] for item in one_stack.request("POST", "/automations/filter", {})]
    assert len(names) == len(set(names)) == 3
    limits = one_stack.request("POST", "/v2/concurrency_limits/filter", {})
    ours = {item["name"]: item["limit"] for item in limits if item["name"].startswith("maxview")}
    assert ours["maxview-slices-cpu"] == 1


@pytest.mark.by_hand
def test_a_night_outlives_its_server_and_reports_a_change_once(stack: Any) -> None:
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
    stack.up()  # takes seconds, during which the night has no server
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
    # an unchanged outcome sends no message; a flow's process ends when the server has its events
    stack.wait(lambda: not psutil.Process(stack.pid("worker")).children())
    named = {"filter": {"event": {"name": [CHANGED_EVENT]}}}
    assert len(stack.request("POST", "/events/filter", named)["events"]) == 1
    assert len(stack.messages) == 1


def test_down_in_mid_run_ends_and_reports_every_job(stack: Any, pods: Any) -> None:
    """Of two runs, one has its job on this machine and one on a cluster."""
    wanted = {"branch": "slow", "repository": str(stack.repository), "more": {"repeats": 1, "overrides": ["steps=23"]}}
    there = stack.run("compare/linen-vs-nnx", target="v6e-32", cases=["01_base"], more={"repeats": 1})

    def logs() -> list[Any]:
        runs = (stack.out / "runs" / path.name / "log.txt" for path in (stack.out / "flows" / there).glob("*"))
        return [log for log in runs if log.is_file()]

    stack.wait(lambda: any("completed step: 3" in log.read_text() for log in logs()))
    here = stack.run("compare/main-vs-branch", **wanted)
    stack.wait(lambda: any("branch" in " ".join(job.cmdline()) for job in stack.jobs()))
    (workload,), processes = pods()
    assert processes
    (name,) = (path.name for path in (stack.out / "flows" / here).iterdir() if "-branch-" in path.name)
    done = stack.command("down", "--state", "state")
    worker, *reported, server = done.stderr.splitlines()
    assert (done.returncode, worker, server) == (0, "worker: ended", "server: ended")
    expected = {here: ("01_base: main vs slow on cpu ", name), there: ("01_base: linen vs nnx on v6e-32 ", workload)}
    assert len(reported) == len(expected)
    for run, (cell, job) in expected.items():
        (line,) = [line.partition(";")[0] for line in reported if f"(flow run {run}): ended, " in line]
        assert line.startswith(cell)
        assert line.endswith(f" {job}")
    assert not stack.jobs()
    assert pods() == ([], [])
    for run in (here, there):
        assert not list((stack.out / "flows" / run).iterdir())  # nothing to repair once a server is there again
        with closing(sqlite3.connect(stack.folder / "home" / "prefect.db")) as database:
            found = database.execute("select state_type from flow_run where id = ?", (run,)).fetchall()
        assert found == [("CANCELLED",)]
