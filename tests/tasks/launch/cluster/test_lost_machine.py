"""A flow that is lost with its machine's disk: the bucket suffices to continue or to clean up."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.launch import job
from tasks.launch.cluster.handle import ClusterHandle
from tasks.launch.known_backends import read_handle
from tasks.launch.logs import rejoin_attempts, watch
from tasks.launch.owners import is_owned, own, turn_of, unforgotten
from tasks.records.log_reading import RunEnded
from tasks.records.plan import RunPlan
from tasks.services.flow_runs import stop_jobs
from tasks.store.store import Store, open_store

pytestmark = pytest.mark.long

type MakePlan = Callable[..., RunPlan]

SAY = """
import os, sys, time
if os.environ["JOB_COMPLETION_INDEX"] != "0":
    sys.exit()  # the other hosts end well at once
def say(n):
    print(f"I0418 00:55:{n:02d}.221671 1 metric_logger.py:196] completed step: {n}, seconds: 0.500, "
          f"TFLOP/s/device: 1.000, Tokens/s/device: 8.000, total_weights: 8, loss: 3.{n:03d}", flush=True)
"""
NINE = SAY + "for n in range(9):\n    say(n); time.sleep(0.5)\n"
HANGS = SAY + "say(0); say(1); say(2); time.sleep(600)\n"
# its first attempt reaches step 2 once its log is being read: an evicted pod takes its log along. The second attempt
# continues from there, slowly
TWICE = (
    SAY
    + """
attempt = 2 if os.path.exists(sys.argv[2]) else 1
open(sys.argv[2], "w").write("x")
for n in range(0, 3) if attempt == 1 else range(3, 9):
    while n == 2 and not os.path.exists(sys.argv[3]):
        time.sleep(0.1)
    say(n); time.sleep(0.5)
time.sleep(600 if attempt == 1 else 0)
"""
)

FLOW = """
import os, sys
from tasks.launch import job
from tasks.launch import patience
from tasks.launch.owners import own
from tasks.records.plan import RunPlan
from tasks.store.store import open_store
from tasks.launch.owners import turn_of
patience.LOOK_EVERY_S = 0.3
plan = RunPlan.model_validate_json(sys.stdin.read())
store = open_store(sys.argv[1])
directory = store.run(plan.run_name)
with turn_of(plan, directory, ("lost",), life_of=lambda flow_run: "unknown", wait=print):
    own(plan.run_name, ("lost",), store)
    launched = job.launch_or_attach(plan, directory)
    for piece in job.follow(launched, poll_s=0.05):
        if isinstance(piece, bytes) and b"completed step: 1," in piece:
            open(sys.argv[3], "w").close()
        if isinstance(piece, bytes) and sys.argv[2].encode() in piece:
            os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def _no_descriptor_stays_open() -> None:
    """Disabled here: the client keeps its connections to the bucket."""


@pytest.fixture
def lose_a_flow(gcs_url: str, make_plan: MakePlan, tmp_path: Path) -> Callable[[str, str], RunPlan]:
    """lose_a_flow(code, last): a flow on a machine that is lost, with its disk, once the log contains `last`."""

    def lose(code: str, last: str) -> RunPlan:
        cache = tmp_path / "the lost machine"
        place = cache / "maxview" / gcs_url.removeprefix("gs://").replace("/", "-") / "runs"
        plan = make_plan(code, shared_out=False)
        reading = str(tmp_path / "its log is being read")
        words = (*plan.argv, str(tmp_path / "attempts"), reading)
        plan = plan.replace(directory=str(place / plan.run_name), argv=words)
        killed = subprocess.run(
            [sys.executable, "-c", FLOW, gcs_url, last, reading],
            input=plan.model_dump_json(), text=True, timeout=300, env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL
        shutil.rmtree(cache)
        return plan

    return lose


@pytest.fixture
def store(gcs_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The bucket's store on a new machine without a working copy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    return open_store(gcs_url)


def go_on(plan: RunPlan, store: Store) -> list[Any]:
    """The events of the run as the next flow gets them after a takeover."""
    directory = store.run(plan.run_name)
    with turn_of(plan, directory, ("next",), life_of={"lost": "over"}.__getitem__, wait=print) as finished:
        assert finished is None
        own(plan.run_name, ("next",), store)
        launched = job.launch_or_attach(plan, directory)
        return list(watch(job.follow(launched, poll_s=0.05)))


def steps_in(log: Path) -> list[int]:
    return [int(found) for found in re.findall(r"completed step: (\d+)", log.read_text())]


def test_its_job_is_found_and_ended(standin: Any, lose_a_flow: Callable[[str, str], RunPlan], store: Store) -> None:
    plan = lose_a_flow(HANGS, "completed step: 2")
    assert len(standin.names("jobsets")) == 1
    assert unforgotten(store) == ["lost"]
    assert stop_jobs("lost", store) == standin_name(plan, store)
    assert standin.names("jobsets") == standin.names("pods") == []
    assert standin.processes() == []
    assert unforgotten(store) == []


def standin_name(plan: RunPlan, store: Store) -> list[str]:
    handle = read_handle(store.run(plan.run_name))
    assert isinstance(handle, ClusterHandle)
    return [handle.job_name]


def test_another_machine_continues_with_its_job(
    standin: Any, lose_a_flow: Callable[[str, str], RunPlan], store: Store
) -> None:
    plan = lose_a_flow(NINE, "completed step: 2")
    (name,) = standin.names("jobsets")
    events = go_on(plan, store)
    assert [event.exit_code for event in events if isinstance(event, RunEnded)] == [0]
    assert standin.names("jobsets") == [name]  # started once
    assert steps_in(store.run(plan.run_name).log) == list(range(9))  # from the first line
    assert is_owned(plan.run_name, ("next",), store)
    assert not is_owned(plan.run_name, ("lost",), store)
    assert stop_jobs("lost", store) == []  # cleaning up after the lost flow leaves the job alone


def test_the_log_of_the_previous_attempt_is_included(
    standin: Any, lose_a_flow: Callable[[str, str], RunPlan], store: Store
) -> None:
    standin.order({"kind": "preempted", "when": "completed step: 2"})
    plan = lose_a_flow(TWICE, "completed step: 5")
    directory = store.run(plan.run_name)
    events = go_on(plan, store)
    assert [event.exit_code for event in events if isinstance(event, RunEnded)] == [0]
    assert steps_in(directory.log) == list(range(3, 9))
    rejoin_attempts(directory.log)
    assert steps_in(directory.log) == list(range(9))
