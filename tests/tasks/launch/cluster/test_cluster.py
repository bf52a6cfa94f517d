"""Workloads from creation to end, with all known faults: state and cause are right, no line is lost or doubled, and no
process is left.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from configs.environment import PASSED_ON
from tasks.ingest.log_causes import with_cause
from tasks.ingest.run_record import build_record
from tasks.launch import job, known_backends
from tasks.launch.backend import LaunchError, Restarted
from tasks.launch.cluster.handle import ClusterHandle
from tasks.launch.job import find_checkpoint
from tasks.launch.logs import JobEvent, watch
from tasks.records.log_reading import RunEnded, RunReading
from tasks.records.plan import RunPlan
from tasks.records.run_end import LogError
from tasks.scrape.read_log import scrape_run
from tasks.store.directories import RunDirectory
from tasks.store.files import LocalFiles
from tasks.store.mirror import Mirror

from .conftest import wait_for

pytestmark = pytest.mark.flows

type MakePlan = Callable[..., RunPlan]

ONLY_XPK = pytest.mark.parametrize("backend", [pytest.param("xpk", marks=pytest.mark.long)], indirect=True)

SAY = """
import os, signal, sys, time
def say(n):
    print(f"I0418 00:55:{n:02d}.221671 1 metric_logger.py:196] completed step: {n}, seconds: 0.500, "
          f"TFLOP/s/device: 1.000, Tokens/s/device: 8.000, total_weights: 8, loss: 3.{n:03d}", flush=True)
"""
THREE = SAY + "for n in range(3): say(n)\n"
HANGS = THREE + "time.sleep(600)\n"
# both hosts reach step 2; then the first one waits for the other, which continues behind this
BOTH = (
    THREE
    + """
said = os.path.join(sys.argv[1], "said")
if os.environ["JOB_COMPLETION_INDEX"] == "0":
    open(said, "w").close()
    time.sleep(600)
while not os.path.exists(said):
    time.sleep(0.05)
"""
)
ALONE = "import os, sys\nif os.environ['JOB_COMPLETION_INDEX'] != '0': sys.exit()\n"  # other hosts end at once
# saves its step at SIGTERM and resumes from it, like the trainer
RESUMES = (
    ALONE
    + SAY
    + """
place = os.path.join(sys.argv[1], "place")
first = int(open(place).read()) if os.path.exists(place) else 0
def stop(*_):
    open(place, "w").write(str(n + 1)); sys.exit(143)
signal.signal(signal.SIGTERM, stop)
for n in range(first, 6):
    say(n); time.sleep(0.3)
"""
)
TAKEN = RESUMES.replace("sleep(0.3)", "sleep(0.3 if first or n < 2 else 600)")  # at its first start by step 2


def run(plan: RunPlan, directory: RunDirectory) -> list[JobEvent]:
    """Return all events of a run as a flow gets them."""
    launched = job.launch_or_attach(plan, directory)
    return list(watch(job.follow(launched, poll_s=0.05)))


def steps_in(log: Path) -> list[int]:
    return [int(found) for found in re.findall(r"completed step: (\d+)", log.read_text())]


def exit_codes(events: list[JobEvent]) -> list[int]:
    return [event.exit_code for event in events if isinstance(event, RunEnded) and event.exit_code is not None]


def error_of(directory: RunDirectory) -> LogError:
    error = with_cause(scrape_run(directory.log), directory.log, supervised=True).error
    assert error is not None
    return error


def test_a_run_succeeds(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    code = THREE + "print(repr(os.environ['GREETING'])); print(open('/tmp/maxview/config.yml').read())"
    plan = make_plan(code)
    events = run(plan, directory)
    assert exit_codes(events) == [0]
    log = directory.log.read_text()
    assert steps_in(directory.log) == [0, 1, 2]
    assert log.startswith("XPK Start:")
    assert repr(plan.environment["GREETING"]) in log  # through YAML and two shells
    assert f"# {plan.run_name}: every value" in log  # the config arrived
    handle = known_backends.read_handle(directory)
    assert isinstance(handle, ClusterHandle)
    assert job.has_ended(handle)
    assert with_cause(scrape_run(directory.log), directory.log, supervised=True).error is None


def test_the_callers_variables_reach_no_pod(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in was started before: its pods have the workload's variables, but none of this process."""
    for name in ("GITHUB_TOKEN", "MAXVIEW_GITHUB_TOKEN", "MAXVIEW_WEBHOOK_URL", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "a-secret")
    dump = "import os; print(*(f'{name}={value}' for name, value in os.environ.items()), sep='\\n')"
    plan = make_plan(ALONE + dump).replace(passed_on=(*PASSED_ON, "HF_TOKEN"))
    assert exit_codes(run(plan, directory)) == [0]
    log = directory.log.read_text()
    assert f"\nGREETING={plan.environment['GREETING']}" in log
    assert "a-secret" not in log


def test_the_trainers_own_exit_code_and_exception(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    events = run(make_plan(THREE + "raise ValueError('the mesh has no axis fsdp')"), directory)
    assert exit_codes(events) == [1]
    assert (error_of(directory).type, error_of(directory).message) == ("ValueError", "the mesh has no axis fsdp")
    assert not any(isinstance(event, Restarted) for event in events)  # a user's error is not retried
    assert len(standin.names("jobsets")) == 1


def test_a_custom_exit_code(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    assert exit_codes(run(make_plan(THREE + "os._exit(37)"), directory)) == [37]
    assert error_of(directory).type == "ExitCode"


@pytest.mark.usefixtures("soon_settled")
def test_the_failed_pods_log_gives_the_cause_if_the_first_pods_does_not(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    glued = "print('completed step: 3, seconds: 0.500, TFLOP/s/device: 1.000, loss: 3.003', end='', flush=True)\n"
    events = run(make_plan(BOTH + glued + "raise MemoryError('host 1 is full')"), directory)
    assert exit_codes(events) == [1]
    assert error_of(directory).type == "MemoryError"
    assert steps_in(directory.log) == [0, 1, 2]  # the other pod's are identical
    assert standin.names("jobsets") == []  # the other pod waited for its neighbour


@pytest.mark.usefixtures("soon_settled")
def test_the_steps_of_another_pod_that_is_evicted_are_not_a_second_start(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    standin.order({"kind": "preempted", "when": "host 1 is at step 2"})
    code = """
print("eval metrics after step: 2, loss=3.000, total_weights=8")
print("host 1 is at step 2", flush=True)
time.sleep(600)
"""
    run(make_plan(BOTH + code, attempts=1), directory)
    assert error_of(directory).type == "Preempted"
    log = directory.log.read_text()
    assert re.search(r"(?m)^maxview: the pod \S+-0-1-\w+ .* 143;", log)
    assert "\nhost 1 is at step 2\n" in log
    assert "eval metrics" not in log
    assert steps_in(directory.log) == [0, 1, 2]
    coverage = scrape_run(directory.log).coverage
    assert (coverage.step_lines_parsed, coverage.rewinds) == (3, 0)


@pytest.mark.usefixtures("slowly_settled")
@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("preempted", "Preempted"),
        ("evicted", "Evicted"),
        ("node_shutdown", "NodeShutdown"),
        pytest.param("kueue_evicted", "Evicted (Preempted)", marks=pytest.mark.long),
    ],
)
def test_a_preempted_run_is_resumed(
    kind: str, cause: str, standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    standin.order({"kind": kind, "when": "completed step: 2"})
    events = run(make_plan(TAKEN), directory)
    (restarted,) = [event for event in events if isinstance(event, Restarted)]
    assert (restarted.attempt, restarted.cause.type) == (2, cause)
    assert exit_codes(events) == [143, 0]
    first, second = steps_in(directory.path / "log.1.txt"), steps_in(directory.log)
    assert first[:3] == [0, 1, 2]
    assert first + second == [0, 1, 2, 3, 4, 5]  # nothing lost, nothing trained twice
    aside = directory.path / "log.1.txt"
    error = with_cause(scrape_run(aside), aside, supervised=True).error
    assert error is not None
    assert (error.type, error.kind) == (cause, "preempted")
    handle = known_backends.read_handle(directory)
    assert isinstance(handle, ClusterHandle)
    assert (handle.job_name, handle.tries) == (f"{handle.family}-a2", 2)


@pytest.mark.usefixtures("soon_settled")
def test_a_lost_node_loses_its_pod_and_log(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    standin.order({"kind": "node_gone", "when": "completed step: 2"})
    read = directory.path / "read"  # the trainer waits until the pod and its node were seen
    wait = f"say(0); say(1)\nwhile not os.path.exists({str(read)!r}): time.sleep(0.05)\nsay(2); time.sleep(600)"
    plan = make_plan(SAY + wait, attempts=1)
    launched = job.launch_or_attach(plan, directory)

    def pieces() -> Iterator[bytes | Restarted]:
        for piece in job.follow(launched, poll_s=0.05):
            if isinstance(piece, bytes) and b"completed step: 1," in piece:
                read.touch()
            yield piece

    events = list(watch(pieces()))
    assert error_of(directory).type == "NodeGone"
    assert error_of(directory).kind == "preempted"
    assert steps_in(directory.log) == [0, 1, 2]
    assert exit_codes(events) == []
    assert RunEnded() in events


@pytest.mark.usefixtures("soon_settled")
@pytest.mark.long
def test_a_node_that_is_not_ready_loses_its_pod_at_the_eviction(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod stays: no kubelet confirms its end."""
    monkeypatch.setattr("tasks.launch.cluster.poll_job.LAST_LINES_S", 2.0)
    standin.order({"kind": "node_not_ready", "when": "completed step: 2", "evict_s": 3})
    place = SAY + "first = int(os.path.exists(sys.argv[1] + '/began')); open(sys.argv[1] + '/began', 'w').close()\n"
    plan = make_plan(ALONE + place + "for n in range(3 + 3 * first): say(n)\nif not first: time.sleep(600)\n")
    events = run(plan, directory)
    assert [event.cause.type for event in events if isinstance(event, Restarted)] == ["DeletionByTaintManager"]
    assert exit_codes(events) == [0]
    assert steps_in(directory.log) == [0, 1, 2, 3, 4, 5]
    assert len(standin.names("pods")) == 3


@pytest.mark.usefixtures("soon_settled")
@pytest.mark.parametrize("lost", [True, False])
def test_a_failure_of_a_lost_nodes_neighbour_is_not_the_trainers(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, *, lost: bool
) -> None:
    """JAX ends the other processes long before the node controller evicts the pod."""
    monkeypatch.setattr("tasks.launch.cluster.poll_job.LAST_LINES_S", 2.0)
    if lost:
        standin.order({"kind": "node_not_ready", "when": "the second host", "evict_s": 600})
    dies = "else:\n    time.sleep(3); sys.exit(134)\n"
    code = SAY + "say(0)\nif os.environ['JOB_COMPLETION_INDEX'] == '1': print('the second host'); time.sleep(600)\n"
    run(make_plan(code + dies, attempts=1), directory)
    error = error_of(directory)
    assert (error.type, error.kind) == (("NodeLost", "preempted") if lost else ("SIGABRT", "other"))
    assert ("node-0-1" in error.message) is lost


def test_the_record_of_a_run_names_its_cluster_and_nodes(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    plan = make_plan(THREE)
    assert exit_codes(run(plan, directory)) == [0]
    record = build_record(plan, directory, scrape_run(directory.log), [])
    assert record.reading.environment.place == "cluster loopback: node-0-0, node-0-1"
    assert directory.log.read_text().splitlines()[-3].startswith("maxview: the job ran on ")
    assert directory.log.read_text().splitlines()[-1] == "EXIT_CODE=0"


@pytest.mark.parametrize("ttl_s", [None, 1])
def test_an_ended_job_is_kept_for_its_time_to_live(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, backend: str, ttl_s: int | None
) -> None:
    if backend == "xpk" and ttl_s is not None:
        pytest.skip("only the backend jobset has the setting")
    chosen = {} if ttl_s is None else {"ttl_s": ttl_s}
    assert exit_codes(run(make_plan(THREE + "sys.exit(3)", **chosen), directory)) == [3]
    if ttl_s is None:  # 12 hours: its pods can be examined
        assert len(standin.names("pods")) == 2
        assert job.has_ended(read_handle(directory))
    else:
        wait_for(lambda: not standin.names("jobsets") and not standin.names("pods"))


def test_a_run_is_not_restarted_more_often_than_allowed(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    standin.order({"kind": "preempted", "when": "completed step: 2"}, {"kind": "evicted", "when": "completed step: 2"})
    events = run(make_plan(THREE + "time.sleep(600)", attempts=2), directory)
    assert [event.cause.type for event in events if isinstance(event, Restarted)] == ["Preempted"]
    assert error_of(directory).type == "Evicted"


def test_out_of_memory_is_not_retried(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    standin.order({"kind": "oom_killed", "when": "completed step: 2"})
    events = run(make_plan(HANGS), directory)
    assert exit_codes(events) == [137]
    assert (error_of(directory).type, error_of(directory).kind) == ("OOMKilled", "host_oom")
    assert not any(isinstance(event, Restarted) for event in events)


def test_a_job_that_never_gets_machines(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    standin.order({"kind": "never_scheduled"})
    plan = make_plan(THREE, start_limit_s=1)
    launched = job.launch_or_attach(plan, directory)
    assert not job.has_ended(launched.handle)
    events = list(watch(job.follow(launched, poll_s=0.05)))
    assert exit_codes(events) == [124]
    error = with_cause(scrape_or_empty(directory.log), directory.log, supervised=True).error
    assert error is not None
    assert (error.type, error.kind) == ("StartLimit", "timeout")
    assert "insufficient unused quota" in error.message
    assert standin.names("jobsets") == []


def scrape_or_empty(log: Path) -> Any:
    return RunReading(name="r", format="maxtext", exit_code=124, span=(0, log.stat().st_size))


def test_an_image_that_cannot_be_pulled(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    standin.order({"kind": "pull_error"})
    plan = make_plan(THREE)
    launched = job.launch_or_attach(plan, directory)
    list(job.follow(launched, poll_s=0.05))
    log = directory.log.read_text()
    assert "maxview: the job was ended: ErrImagePull: " in log
    assert "; set `image` of the target" in log
    assert error_of(directory).type == "ErrImagePull"
    assert standin.names("jobsets") == []


def test_the_time_limit_lets_the_trainer_save(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(RESUMES.replace("range(first, 6)", "range(first, 6000)"), time_limit_s=3600, grace_s=60)
    launched = job.launch_or_attach(plan, directory)
    # an hour has passed, although the clock was set back
    later = SimpleNamespace(
        time=lambda: time.time() - 3600, monotonic=lambda: time.monotonic() + 3600, sleep=time.sleep
    )

    def pieces() -> Iterator[bytes | Restarted]:
        for piece in job.follow(launched, poll_s=0.05):
            if isinstance(piece, bytes) and b"completed step: 0," in piece:  # from here on it can save
                monkeypatch.setattr("tasks.launch.cluster.attempt.time", later)
            yield piece

    events = list(watch(pieces()))
    assert exit_codes(events) == [124]
    assert error_of(directory).type == "TimeLimit"
    assert (directory.path / "place").exists()
    assert standin.names("jobsets") == []


def test_a_broken_log_stream_loses_and_doubles_nothing(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    code = SAY + "for n in range(60):\n    say(n); time.sleep(0.05)\n    print('x' * 3000, flush=True)\n"
    standin.order({"kind": "cut_log", "bytes": 20_000, "times": 12})
    assert exit_codes(run(make_plan(code), directory)) == [0]
    assert steps_in(directory.log) == list(range(60))
    assert directory.log.read_text().count("x" * 3000 + "\n") == 60


def test_an_api_server_that_fails_for_a_while(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    plan = make_plan(RESUMES)
    launched = job.launch_or_attach(plan, directory)
    standin.order({"kind": "error", "path": "/", "code": 500, "times": 12})
    events = list(watch(job.follow(launched, poll_s=0.05)))
    assert exit_codes(events) == [0]
    assert steps_in(directory.log) == [0, 1, 2, 3, 4, 5]


def test_a_slow_api_server(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    standin.order({"kind": "slow", "path": "/", "seconds": 0.5, "times": 20})
    assert exit_codes(run(make_plan(THREE), directory)) == [0]
    assert steps_in(directory.log) == [0, 1, 2]


def test_an_api_server_that_stays_down(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(HANGS)
    launched = job.launch_or_attach(plan, directory)
    monkeypatch.setattr("tasks.launch.patience.PATIENCE_S", 1.0)
    standin.order({"kind": "error", "path": "/", "code": 500, "times": 1000})
    with pytest.raises(LaunchError, match=r": 500 |does not answer"):
        list(job.follow(launched, poll_s=0.05))
    standin.order()
    job.stop(launched.handle)
    assert standin.names("pods") == []


def test_cancellation_deletes_the_job(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    plan = make_plan(HANGS)
    launched = job.launch_or_attach(plan, directory)
    for piece in job.follow(launched, poll_s=0.05):
        if isinstance(piece, bytes) and b"completed step: 2" in piece:
            break
    job.stop(launched.handle)
    assert standin.names("jobsets") == []
    assert standin.names("pods") == []
    assert standin.processes() == []


@ONLY_XPK
def test_cancellation_while_xpk_creates_the_job_leaves_none(
    standin: Any,
    make_plan: MakePlan,
    directory: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    sleeps = tmp_path / "xpk sleeps"
    monkeypatch.setenv("XPK_STANDIN_SLEEPS", "600")
    monkeypatch.setenv("XPK_STANDIN_TELLS", str(sleeps))
    # tests started in the background inherit an ignored signal
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupt() -> None:
        while not sleeps.exists():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        job.launch_or_attach(make_plan(HANGS), directory)
    time.sleep(0.5)
    assert standin.names("jobsets") == []


@pytest.mark.usefixtures("slowly_settled")
def test_a_job_deleted_by_hand(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    plan = make_plan(HANGS)
    launched = job.launch_or_attach(plan, directory)
    for piece in job.follow(launched, poll_s=0.05):
        if isinstance(piece, bytes) and b"completed step: 2" in piece:
            standin.delete_all()
    assert (error_of(directory).type, error_of(directory).kind) == ("Deleted", "killed")
    assert steps_in(directory.log) == [0, 1, 2]


FLOW = """
import os, sys
from pathlib import Path
from tasks.launch import job
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
plan = RunPlan.model_validate_json(sys.stdin.read())
directory = RunDirectory(Path(plan.directory))
launched = job.launch_or_attach(plan, directory)
for piece in job.follow(launched, poll_s=0.05):
    if b"completed step: 2" in piece:
        os.kill(os.getpid(), 9)
"""


def test_after_kill_9_of_the_flow_the_next_one_attaches(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    plan = make_plan(SAY + "for n in range(9):\n    say(n); time.sleep(0.5)\n")
    killed = subprocess.run([sys.executable, "-c", FLOW], input=plan.model_dump_json(), text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert exit_codes(run(plan, directory)) == [0]
    assert steps_in(directory.log) == list(range(9))
    assert standin.names("jobsets") == [f"{read_handle(directory).family}"]  # one job, started once
    assert exit_codes(run(plan, directory)) == [0]  # it succeeded: a later flow reads its log again
    assert standin.names("jobsets") == [f"{read_handle(directory).family}"]


def read_handle(directory: RunDirectory) -> ClusterHandle:
    handle = known_backends.read_handle(directory)
    assert isinstance(handle, ClusterHandle)
    return handle


def test_the_log_of_a_deleted_pod_comes_from_cloud_logging(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    plan = make_plan(THREE)
    handle = job.launch_or_attach(plan, directory).handle
    deadline = time.monotonic() + 120
    while not job.has_ended(handle):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for name in standin.names("pods"):
        standin.request("DELETE", f"/api/v1/namespaces/default/pods/{name}")
    assert exit_codes(run(plan, directory)) == [0]
    assert steps_in(directory.log) == [0, 1, 2]


def test_missing_lines_are_reported(
    standin: Any,
    make_plan: MakePlan,
    directory: RunDirectory,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if backend == "xpk":
        plan = make_plan(THREE, argv=("no-such-xpk",))
        with pytest.raises(LaunchError, match=r"^no-such-xpk .*`uv tool install xpk==1\.16\.0`"):
            job.launch_or_attach(plan, directory)
        monkeypatch.setenv("XPK_STANDIN_FAILS", "1")
        with pytest.raises(LaunchError, match="log in with `gcloud auth login`"):
            job.launch_or_attach(make_plan(THREE), directory)
        assert standin.names("jobsets") == []
    with pytest.raises(LaunchError, match=r"choose --out gs://BUCKET/FOLDER"):
        job.launch_or_attach(make_plan(THREE, shared_out=False), directory)
    nowhere = make_plan(THREE, context="nowhere")
    with pytest.raises(LaunchError, match="the kubeconfig cannot be used for nowhere"):
        job.launch_or_attach(nowhere, directory)
    settings = make_plan(THREE).launch
    assert settings is not None
    unnamed = nowhere.replace(launch=settings.replace(context=None))
    with pytest.raises(LaunchError, match="gcloud container clusters get-credentials loopback --location us-east5 "):
        job.launch_or_attach(unnamed, directory)


def test_pods_write_to_the_bucket_of_a_store(standin: Any, make_plan: MakePlan, tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "copy", LocalFiles(tmp_path / "bucket"))  # a folder keeps the same interface as a bucket
    there = tmp_path / "copy" / "runs" / "a-run"
    directory = RunDirectory(there, mirror)
    code = (
        THREE + "os.makedirs(sys.argv[1] + '/checkpoints/2', exist_ok=True)\n"
        "open(sys.argv[1] + '/metrics.jsonl', 'w').write('{}\\n')\n"
        "print(sys.argv[1:], open('/tmp/maxview/config.yml').read())"
    )
    plan = make_plan(code, shared_out=False)
    config = {"base_output_directory": str(there.parent), "steps": 3}
    changes = {"argv": (*plan.argv[:3], str(there)), "config": config, "directory": str(there), "run_name": "a-run"}
    plan = plan.replace(**changes)
    launched = job.launch_or_attach(plan, directory, continue_from=there.parent / "other")
    assert exit_codes(list(watch(job.follow(launched, poll_s=0.05)))) == [0]
    bucket = tmp_path / "bucket" / "runs"
    log = directory.log.read_text()
    assert f"['{bucket}/a-run', '--continue-from', '{bucket}/other']" in log
    assert f'base_output_directory: "{bucket}"' in log
    assert str(tmp_path / "copy") not in log
    assert directory.metrics.read_text() == "{}\n"  # copied to this machine
    assert not directory.checkpoints.exists()  # not copied
    found = find_checkpoint(launched, 2)
    assert (found.exists(), str(found)) == (True, f"{bucket}/a-run/checkpoints/2")
