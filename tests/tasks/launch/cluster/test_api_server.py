"""Behaviour of real API servers: expired tokens, roles, restarts, overload, deletion, rotated logs."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from access import RUNNER, SECOND  # of the stand-in

from tasks.ingest.run_record import build_record
from tasks.launch import job
from tasks.launch.backend import LaunchedRun, LaunchError, Restarted
from tasks.launch.logs import watch
from tasks.records.plan import RunPlan
from tasks.scrape.read_log import scrape_run
from tasks.store.directories import RunDirectory

from .conftest import wait_for
from .test_cluster import (
    ALONE,
    HANGS,
    ONLY_XPK,
    RESUMES,
    SAY,
    TAKEN,
    THREE,
    error_of,
    exit_codes,
    read_handle,
    run,
    steps_in,
)  # fmt: skip

pytestmark = pytest.mark.flows

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"

type MakePlan = Callable[..., RunPlan]

SLOW = ALONE + SAY + "for n in range(24):\n    say(n); time.sleep(0.25)\n"


def rules_without(verb: str, resource: str) -> list[dict[str, Any]]:
    """All rights of the launcher except one."""
    groups = {"jobsets": "jobset.x-k8s.io", "workloads": "kueue.x-k8s.io"}
    granted = {
        name: [one for one in ("get", "list", "create", "delete") if (one, name) != (verb, resource)]
        for name in ("jobsets", "pods", "pods/log", "workloads", "nodes")
    }
    return [
        {"apiGroups": [groups.get(name, "")], "resources": [name], "verbs": verbs} for name, verbs in granted.items()
    ]


def at(launched: LaunchedRun, text: str, act: Callable[[], Any]) -> Iterator[bytes | Restarted]:
    """The pieces of a run; once the log has `text`, an event happens."""
    seen, done = b"", False
    for piece in job.follow(launched, poll_s=0.05):
        seen += piece if isinstance(piece, bytes) else b""
        if not done and text.encode() in seen:
            done = True
            act()
        yield piece


def finish(launched: LaunchedRun, text: str, act: Callable[[], Any]) -> list[Any]:
    return list(watch(at(launched, text, act)))


def reading_of(plan: RunPlan, directory: RunDirectory) -> Any:
    return build_record(plan, directory, scrape_run(directory.log), []).reading


# ---------------------------------------------------------------- credentials


def test_without_a_token_every_request_is_denied(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, tmp_path: Path
) -> None:
    standin.write_kubeconfig(tmp_path / "kubeconfig", username="nobody")
    denied = r"denies permission to list jobsets.*40[13] .*gke-gcloud-auth-plugin is installed"
    with pytest.raises(LaunchError, match=denied):
        job.launch_or_attach(make_plan(THREE), directory)


def plugin(path: Path, tokens: Path, **status: str) -> dict[str, Any]:
    """A user with a token from a program, like gke-gcloud-auth-plugin's."""
    shown = json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
    path.write_text(
        f"#!{sys.executable}\nimport json\nshown = json.loads({shown!r})\n"
        f"shown['status']['token'] = open({str(tokens)!r}).read()\nprint(json.dumps(shown))\n"
        f"open({str(path) + '.calls'!r}, 'a').write('x')\n"
    )
    path.chmod(0o755)
    words = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}
    return {"exec": words}


@pytest.mark.parametrize("kind", ["plugin", "plugin that tells when", "file"])
def test_an_expired_token_is_read_again(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, tmp_path: Path, kind: str
) -> None:
    token = tmp_path / "token"
    token.write_text(standin.token(RUNNER))
    reported = {"expirationTimestamp": "2020-01-01T00:00:00Z"} if "when" in kind else {}
    user = {"tokenFile": str(token)} if kind == "file" else plugin(tmp_path / "plugin", token, **reported)
    standin.write_kubeconfig(tmp_path / "kubeconfig", **user)

    def expire() -> None:
        token.write_text(standin.token(SECOND))
        standin.order({"kind": "expired", "token": RUNNER})

    launched = job.launch_or_attach(make_plan(SLOW), directory)
    assert exit_codes(finish(launched, "completed step: 2", expire)) == [0]
    assert steps_in(directory.log) == list(range(24))
    if kind == "plugin":  # its token has no expiry: the plugin runs again after a rejection, not at each request
        assert len((tmp_path / "plugin.calls").read_text()) < 10


# ---------------------------------------------------------------- rights


def run_and_stop(plan: RunPlan, directory: RunDirectory) -> None:
    launched = job.launch_or_attach(plan, directory)
    finish(launched, "completed step: 2", lambda: job.stop(launched.handle))


@pytest.mark.parametrize(
    ("verb", "resource"), [("list", "jobsets"), ("list", "pods"), ("delete", "jobsets"), ("get", "pods/log")]
)
def test_a_missing_right_is_named(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, verb: str, resource: str
) -> None:
    standin.order({"kind": "rules", "token": RUNNER, "rules": rules_without(verb, resource)})
    group = ".jobset.x-k8s.io" if resource == "jobsets" else ""
    began = time.monotonic()
    denied = rf"denies permission to {verb} {resource}{group} in the namespace default: 403"
    with pytest.raises(LaunchError, match=denied):
        run_and_stop(make_plan(HANGS), directory)
    assert time.monotonic() - began < 60  # it is not treated as an outage


@pytest.mark.usefixtures("soon_settled")
def test_without_a_right_to_nodes_a_lost_node_is_a_lost_pod(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    rules = [rule for rule in rules_without("", "") if rule["resources"] != ["nodes"]]
    fault = {"kind": "node_gone", "when": "completed step: 2"}
    standin.order({"kind": "rules", "token": RUNNER, "rules": rules}, fault)
    run(make_plan(HANGS, attempts=1), directory)
    assert (error_of(directory).type, error_of(directory).kind) == ("PodGone", "preempted")


def test_a_queue_without_the_right_to_read_it_is_unknown(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    rules = [rule for rule in rules_without("", "") if rule["resources"] != ["workloads"]]
    standin.order({"kind": "rules", "token": RUNNER, "rules": rules}, {"kind": "never_scheduled"})
    assert exit_codes(run(make_plan(THREE, start_limit_s=1), directory)) == [124]
    assert "may not list workloads.kueue.x-k8s.io" in directory.log.read_text()


# ---------------------------------------------------------------- outages

OUTAGE = {"kind": "restart", "away_s": 2, "denied_s": 4}


def test_a_server_that_restarts_and_denies_everything_for_a_while(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    launched = job.launch_or_attach(make_plan(SLOW), directory)
    assert exit_codes(finish(launched, "completed step: 2", lambda: standin.order(OUTAGE))) == [0]
    assert steps_in(directory.log) == list(range(24))


def test_an_outage_before_launch_and_before_attach_is_waited_for(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    standin.order({"kind": "restart", "away_s": 2, "denied_s": 0})
    plan = make_plan(SLOW)
    launched = job.launch_or_attach(plan, directory)
    standin.order(OUTAGE)
    again = job.launch_or_attach(plan, directory)
    assert again.handle == launched.handle
    assert exit_codes(list(watch(job.follow(again, poll_s=0.05)))) == [0]
    assert steps_in(directory.log) == list(range(24))


@pytest.mark.usefixtures("slowly_settled")
def test_an_outage_during_a_restart_of_a_run_is_waited_for(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    standin.order({"kind": "preempted", "when": "completed step: 2"})
    launched = job.launch_or_attach(make_plan(TAKEN), directory)
    watched = threading.Thread(target=lambda: (wait_for(lambda: is_going(standin)), standin.order(OUTAGE)))
    watched.start()
    events = list(watch(job.follow(launched, poll_s=0.05)))
    watched.join()
    assert exit_codes(events) == [143, 0]
    assert steps_in(directory.path / "log.1.txt") + steps_in(directory.log) == [0, 1, 2, 3, 4, 5]


def is_going(standin: Any) -> bool:
    """Whether the first attempt is being deleted or is gone."""
    items = standin.request("GET", JOBSETS).json()["items"]
    return all("deletionTimestamp" in item["metadata"] for item in items)


def test_a_job_past_its_time_limit_is_ended_once_the_server_is_back(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    launched = job.launch_or_attach(make_plan(HANGS, time_limit_s=4), directory)
    outage = {"kind": "restart", "away_s": 5, "denied_s": 2}
    assert exit_codes(finish(launched, "completed step: 2", lambda: standin.order(outage))) == [124]
    assert error_of(directory).type == "TimeLimit"
    assert standin.names("jobsets") == standin.names("pods") == []


def test_a_successful_end_during_an_outage_past_the_time_limit_counts(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    launched = job.launch_or_attach(make_plan(SLOW, time_limit_s=9), directory)
    outage = {"kind": "restart", "away_s": 10, "denied_s": 0}
    assert exit_codes(finish(launched, "completed step: 2", lambda: standin.order(outage))) == [0]


def test_an_overloaded_servers_retry_after_is_respected(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    launched = job.launch_or_attach(make_plan(SLOW), directory)
    message = "storage is (re)initializing"
    fault = {"kind": "error", "path": "/jobsets/", "code": 429, "times": 1000, "retry_after": 2, "message": message}
    counts: list[int] = []

    def count() -> None:
        counts.append(len([line for line in standin.requests() if "/jobsets/" in line]))

    pieces = at(launched, "completed step: 2,", lambda: (standin.order(fault), count()))
    events = []
    for event in watch(pieces):
        if "completed step: 20," in getattr(event, "text", "") and len(counts) == 1:
            count()
            standin.order()
        events.append(event)
    assert exit_codes(events) == [0]
    # 4.5 s, every 2 s, or every second as the real server wants it; polls are due every 0.3 s
    assert counts[1] - counts[0] <= (7 if standin.is_real else 5)
    assert steps_in(directory.log) == list(range(24))


@ONLY_XPK
def test_xpk_runs_again_after_an_outage(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tells = tmp_path / "tells"
    monkeypatch.setenv("XPK_STANDIN_TELLS", str(tells))
    monkeypatch.setenv("XPK_STANDIN_SLEEPS", "1")
    watched = threading.Thread(target=lambda: (wait_for(tells.exists), standin.order(OUTAGE)))
    watched.start()
    assert exit_codes(run(make_plan(THREE), directory)) == [0]
    watched.join()


# ---------------------------------------------------------------- deletion


def test_a_job_in_deletion_is_awaited_and_created_again(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    # it saves slowly: it still runs when the next flow comes
    saves = RESUMES.replace("write(str(n + 1));", "write(str(n + 1)); time.sleep(3);")
    plan = make_plan(saves, grace_s=20)
    launched = job.launch_or_attach(plan, directory)
    for piece in job.follow(launched, poll_s=0.05):
        if isinstance(piece, bytes) and b"completed step: 1" in piece:
            break
    standin.order({"kind": "sticky", "seconds": 3})
    standin.request("DELETE", f"{JOBSETS}/{launched.handle.job_name}", json={"propagationPolicy": "Foreground"})
    assert standin.names("jobsets") == [launched.handle.job_name]  # it exists, and is being deleted
    again = job.launch_or_attach(plan, directory)
    assert standin.names("jobsets") == [f"{read_handle(directory).family}-a2"]
    assert exit_codes(list(watch(job.follow(again, poll_s=0.05)))) == [0]
    # the first attempt kept printing until it was ended; the second continued from there
    assert steps_in(directory.log)[-1] == 5


# ---------------------------------------------------------------- lost lines


def lose_lines(standin: Any, code_waits: Path) -> None:
    """The log is unreachable while steps 3 to 8 are printed, and is rotated before the next read."""
    standin.order({"kind": "log_away", "seconds": 600})
    code_waits.touch()
    wait_for((code_waits.parent / "printed").exists)
    time.sleep(0.5)  # the stand-in has read the printed lines
    standin.order({"kind": "rotate_log"})
    (code_waits.parent / "go").touch()


def losing(folder: Path) -> str:
    wait = f"\nwhile not os.path.exists({str(folder)!r} + '/%s'): time.sleep(0.05)\n"
    return (
        ALONE + SAY + "for n in range(3): say(n)" + wait % "on" + "for n in range(3, 9): say(n)\n"
        f"open({str(folder)!r} + '/printed', 'w').close()"
        + wait % "go"
        + "time.sleep(1.5)\nfor n in range(9, 12): say(n)\n"
    )


def test_rotated_lines_come_from_cloud_logging(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, tmp_path: Path
) -> None:
    launched = job.launch_or_attach(make_plan(losing(tmp_path)), directory)
    events = finish(launched, "completed step: 2", lambda: lose_lines(standin, tmp_path / "on"))
    assert exit_codes(events) == [0]
    assert steps_in(directory.log) == list(range(12))
    assert reading_of(make_plan(""), directory).coverage.lost == ()


def test_rotated_lines_without_another_source_are_reported_missing(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GCLOUD_STANDIN_FAILS", "1")
    launched = job.launch_or_attach(make_plan(losing(tmp_path)), directory)
    events = finish(launched, "completed step: 2", lambda: lose_lines(standin, tmp_path / "on"))
    assert exit_codes(events) == [0]
    assert steps_in(directory.log) == [0, 1, 2, 9, 10, 11]
    (lost,) = reading_of(make_plan(""), directory).coverage.lost
    assert lost.startswith("lines missing from 20")
    assert "the kubelet has rotated the log" in lost


def test_a_flow_after_a_rotation_keeps_the_lines_already_read(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GCLOUD_STANDIN_FAILS", "1")
    launched = job.launch_or_attach(make_plan(losing(tmp_path)), directory)
    for piece in job.follow(launched, poll_s=0.05):
        if isinstance(piece, bytes) and b"completed step: 2" in piece:
            break
    lose_lines(standin, tmp_path / "on")
    again = job.launch_or_attach(launched.plan, directory)
    list(job.follow(again, poll_s=0.05))
    assert steps_in(directory.log) == [0, 1, 2, 9, 10, 11]
    assert "lines missing from the start to 20" in directory.log.read_text()


# ---------------------------------------------------------------- Kueue and validation


@pytest.mark.parametrize("faults", [[{"kind": "no_v1beta1"}], []], ids=["v1beta2", "both"])
def test_kueue_is_read_in_its_newest_version(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, faults: list[dict[str, Any]]
) -> None:
    standin.order(*faults, {"kind": "never_scheduled"})
    assert exit_codes(run(make_plan(THREE, start_limit_s=1), directory)) == [124]
    assert "insufficient unused quota" in directory.log.read_text()


def test_the_longest_names_are_accepted(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, backend: str
) -> None:
    """JobSet's webhook refuses a JobSet whose pods would have names of more than 63 characters."""
    unlimited = {"queue": None} if backend == "jobset" else {}  # the queue has a quota of two slices
    plan = make_plan(HANGS, num_slices=256, **unlimited).replace(case="x" * 60)
    launched = job.launch_or_attach(plan, directory)
    (jobset,) = standin.request("GET", JOBSETS).json()["items"]
    assert len(launched.handle.job_name) + len("-slice-job-255-9999-abcde") <= 63
    assert standin.is_real or jobset["spec"]["network"] == {"enableDNSHostnames": True}  # filled in
    job.stop(launched.handle)


def test_unknown_fields_are_refused_by_the_server(standin: Any) -> None:
    spec = {"replicatedJobs": [{"name": "j", "template": {"spec": {"template": {"spec": {"container": []}}}}}]}
    answer = standin.request("POST", JOBSETS, json={"metadata": {"name": "x"}, "spec": spec})
    assert (answer.status_code, answer.json()["message"]) == (
        400, 'strict decoding error: unknown field "spec.replicatedJobs[0].template.spec.template.spec.container"',
    )  # fmt: skip


def test_an_existing_name_is_not_used(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    """A 409: another machine has just created the workload."""
    plan = make_plan(HANGS)
    first = job.launch_or_attach(plan, directory)
    taken = standin.request("GET", f"{JOBSETS}/{first.handle.job_name}").json()
    answer = standin.request("POST", JOBSETS, json={
        "apiVersion": taken["apiVersion"], "kind": taken["kind"], "metadata": {"name": taken["metadata"]["name"]},
        "spec": taken["spec"],
    })  # fmt: skip
    assert answer.status_code == 409
    other = RunDirectory(directory.path.with_name("other")).create()
    second = job.launch_or_attach(plan, other)
    assert second.handle.job_name == f"{first.handle.family}-a2"
    job.stop(first.handle)
