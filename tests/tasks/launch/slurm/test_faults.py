"""Faults of a real SLURM: each ends with the whole log, and with its cause in SLURM's own word."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.ingest.log_causes import find_platform_cause
from tasks.ingest.run_record import build_record, read_run_log
from tasks.launch import job
from tasks.launch.backend import LaunchError
from tasks.launch.known_backends import read_handle
from tasks.launch.slurm.jobs import name_job, with_job
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
from tests.standins.slurm.cluster import Cluster, wait_for

from .conftest import ROOT, Followed

pytestmark = pytest.mark.long
# prints, waits for a file, exits; SIGTERM is saved and exits with 143
TRAIN = """
import os, signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
print("trained", flush=True)
"""
FULL_MEMORY = "import time; print('begun', flush=True); x = b'1' * 200_000_000; time.sleep(60)"
type Plan = Callable[..., RunPlan]
type Follow = Callable[[RunPlan], Followed]


@pytest.fixture
def train(slurm_plan: Plan, directory: RunDirectory) -> Plan:
    """train(**changes): a plan that trains until the file `go` is in the run's folder."""
    return lambda **changes: slurm_plan(TRAIN, str(directory.path / "go"), **changes)


def cause(directory: RunDirectory) -> tuple[str, str] | None:
    found = find_platform_cause(directory.log, (0, 0))
    return found and (found.type, found.kind)


def test_a_run_ends_by_itself(follow: Follow, slurm_plan: Plan, directory: RunDirectory) -> None:
    run = follow(slurm_plan("import os; print('trained on', os.environ['SLURMD_NODENAME'])"))
    lines = run.end().splitlines()
    assert lines[0].startswith("XPK Start: ")
    assert lines[1].startswith("trained on n")
    assert lines[-1] == "EXIT_CODE=0"
    assert f"maxview: the job ran on partition main: {lines[1].split()[-1]}" in lines
    assert cause(directory) is None
    assert job.has_ended(run.run_.handle)


def test_the_exit_code_of_a_failed_trainer(follow: Follow, slurm_plan: Plan, directory: RunDirectory) -> None:
    log = follow(slurm_plan("print('bad'); raise SystemExit(3)")).end()
    assert log.splitlines()[-1] == "EXIT_CODE=3"
    assert cause(directory) is None


def test_scancel(slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory) -> None:
    run = follow(train()).wait_for(b"begun")
    slurm.tool("scancel", run.job_id)
    assert "saved" in run.end()
    assert cause(directory) == ("CANCELLED", "killed")
    assert not run.restarts


def test_slurmctld_is_killed_and_comes_back(
    slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory
) -> None:
    run = follow(train()).wait_for(b"begun")
    slurm.kill("slurmctld")
    try:
        (directory.path / "go").touch()
        run.wait_for(b"trained")  # the log goes on without the controller
    finally:
        slurm.start("slurmctld")
    assert run.end().endswith("EXIT_CODE=0\n")


def test_a_failure_waits_for_the_killed_slurmctld(
    slurm: Cluster, follow: Follow, slurm_plan: Plan, directory: RunDirectory
) -> None:
    run = follow(slurm_plan("import time; print('begun', flush=True); time.sleep(9); raise SystemExit(3)")).wait_for(
        b"begun"
    )
    slurm.kill("slurmctld")
    time.sleep(6)
    assert run.is_alive()  # its cause is not known yet
    slurm.start("slurmctld")
    assert run.end().endswith("EXIT_CODE=3\n")
    assert cause(directory) is None


def test_a_launch_waits_for_slurmctld(slurm: Cluster, follow: Follow, slurm_plan: Plan) -> None:
    slurm.kill("slurmctld")
    threading.Timer(8, slurm.start, ["slurmctld"]).start()
    assert follow(slurm_plan("print('trained')")).end().endswith("EXIT_CODE=0\n")


def test_slurmd_is_killed_and_comes_back(slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory) -> None:
    run = follow(train()).wait_for(b"begun")
    slurm.kill("n1")
    slurm.start("n1")
    (directory.path / "go").touch()
    assert run.end().endswith("EXIT_CODE=0\n")
    assert not run.restarts


def test_a_node_goes_down(slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory) -> None:
    run = follow(train(settings={"extra": ("--exclude=n2",)})).wait_for(b"begun")
    slurm.kill("n1")
    try:
        wait_for(lambda: run.restarts)
    finally:
        slurm.start("n1")
    assert [(one.attempt, one.cause.type) for one in run.restarts] == [(2, "NODE_FAIL")]
    (directory.path / "go").touch()
    assert run.end().endswith("EXIT_CODE=0\n")
    assert "NODE_FAIL" in (directory.path / "log.1.txt").read_text()


def test_a_run_is_preempted(slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory) -> None:
    run = follow(train(settings={"extra": ("--exclusive",), "nodes": 1})).wait_for(b"begun")
    slurm.tool("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 3")
    wait_for(lambda: run.restarts)
    assert [(one.attempt, one.cause.type) for one in run.restarts] == [(2, "PREEMPTED")]
    (directory.path / "go").touch()
    assert run.end().endswith("EXIT_CODE=0\n")
    assert "saved" in (directory.path / "log.1.txt").read_text()


def test_a_run_that_is_preempted_too_often_has_died(
    slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory
) -> None:
    run = follow(train(settings={"extra": ("--exclusive",), "attempts": 1})).wait_for(b"begun")
    slurm.tool("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 3")
    assert "saved" in run.end()
    assert cause(directory) == ("PREEMPTED", "preempted")


def test_the_time_limit_of_slurm(slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory) -> None:
    run = follow(train(time_limit_s=600)).wait_for(b"begun")
    slurm.tool("scontrol", "update", f"JobId={run.job_id}", "TimeLimit=1")
    assert "saved" in run.end(180)
    assert cause(directory) == ("TIMEOUT", "timeout")


def test_the_time_limit_of_the_target(follow: Follow, train: Plan, directory: RunDirectory) -> None:
    log = follow(train(time_limit_s=2)).end()
    assert "time limit of 2 s reached" in log
    assert log.endswith("EXIT_CODE=124\n")


def test_out_of_memory(follow: Follow, slurm_plan: Plan, directory: RunDirectory) -> None:
    """SLURM itself measures the memory and ends the job; its state is only FAILED."""
    follow(slurm_plan(FULL_MEMORY, settings={"extra": ("--mem=100",)})).end()
    assert cause(directory) == ("OUT_OF_MEMORY", "host_oom")


def test_requeue(slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory) -> None:
    """SLURM refuses to requeue a run: maxview restarts it, with the arguments that resume it."""
    run = follow(train()).wait_for(b"begun")
    assert "disabled" in slurm.tool("scontrol", "requeue", run.job_id)
    slurm.tool("scontrol", "update", f"JobId={run.job_id}", "Requeue=1")
    assert slurm.tool("scontrol", "requeue", run.job_id) == ""  # a person insists
    wait_for(lambda: run.restarts)
    assert [(one.attempt, one.cause.type) for one in run.restarts] == [(2, "REQUEUED")]
    (directory.path / "go").touch()
    assert run.end().endswith("EXIT_CODE=0\n")
    assert slurm.tool("squeue", "--noheader").strip() == ""


def test_a_held_job(slurm: Cluster, follow: Follow, slurm_plan: Plan, directory: RunDirectory) -> None:
    run = follow(slurm_plan("print('trained')", settings={"extra": ("--hold",)}))
    run.wait_for(f"waits in the queue: JobHeldUser; `scontrol release {run.job_id}` releases it".encode())
    slurm.tool("scontrol", "release", run.job_id)
    assert run.end().endswith("EXIT_CODE=0\n")


def test_a_wait_that_is_too_long(slurm: Cluster, follow: Follow, slurm_plan: Plan, directory: RunDirectory) -> None:
    run = follow(slurm_plan("print('trained')", settings={"extra": ("--hold",), "start_limit_s": 2}))
    assert re.search(r" 2 s \(start_limit_s\);.*: JobHeldUser", run.end())
    assert cause(directory) == ("StartLimit", "timeout")
    assert "PENDING" not in slurm.tool("squeue", "--noheader", "--format=%T")


def test_a_job_that_never_starts(slurm: Cluster, follow: Follow, slurm_plan: Plan, directory: RunDirectory) -> None:
    run = follow(slurm_plan("print('trained')", settings={"partition": "short"}, time_limit_s=300))
    assert "PartitionTimeLimit; `sinfo --long`" in run.end()
    assert cause(directory) == ("CannotStart", "configuration")
    error = build_record(run.run_.plan, directory, read_run_log(directory.log), ()).reading.error
    assert error is not None
    assert error.type == "CannotStart"  # the log is readable, although no trainer began


def test_a_partition_that_is_too_small(follow: Follow, slurm_plan: Plan, directory: RunDirectory) -> None:
    assert "PartitionConfig" in follow(slurm_plan("print('trained')", settings={"nodes": 9})).end()
    assert cause(directory) == ("CannotStart", "configuration")


def test_the_name_is_taken(slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory) -> None:
    """Another job of this user has the name; SLURM allows that."""
    plan = train()
    words = ("--parsable", f"--job-name={name_job(plan)}", "--output=/dev/null", "--wrap=sleep 60")
    other = slurm.tool("sbatch", *words).strip()
    run = follow(plan).wait_for(b"begun")
    handle = run.run_.handle
    assert with_job(handle.replace(job_id=None)) == handle  # not the other job
    job.stop(handle)
    run.end()
    assert other in slurm.tool("squeue", "--noheader", "--states=running", "--format=%A")


def test_the_log_is_late(follow: Follow, train: Plan, directory: RunDirectory) -> None:
    """The end of the log becomes visible after the job's end, as on a file system that caches."""
    run = follow(train()).wait_for(b"begun")
    output = directory.path / "slurm-1.txt"
    hidden = output.rename(directory.path / "hidden")
    (directory.path / "go").touch()
    wait_for(lambda: job.has_ended(run.run_.handle))
    time.sleep(1)
    assert run.is_alive()
    hidden.rename(output)
    assert run.end().endswith("EXIT_CODE=0\n")


def test_a_folder_that_the_nodes_do_not_have(
    slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory
) -> None:
    run = follow(train(settings={"extra": ("--hold",)})).wait_for(b"JobHeldUser")
    hidden = directory.path.rename(directory.path.with_name("hidden"))
    slurm.tool("scontrol", "release", run.job_id)
    wait_for(lambda: job.has_ended(run.run_.handle))
    hidden.rename(directory.path)
    assert "is " + str(directory.path) + " on a file system that the nodes share?" in run.end()
    assert cause(directory) == ("NoLog", "configuration")


FLOW = """
import sys
from pathlib import Path
from tasks.launch import job
from tasks.launch.backend import LaunchError
from tasks.launch.slurm import client
from tasks.records.plan import RunPlan
from tasks.store.store import open_store
plan = RunPlan.model_validate_json(Path(sys.argv[1]).read_text())
if sys.argv[3] == "submitted":
    submit = client.subprocess.run
    def run(argv, **more):
        done = submit(argv, **more)
        if argv[0].endswith("sbatch"):
            print("ready", flush=True)
            sys.stdin.read()
        return done
    client.subprocess.run = run
run = job.launch_or_attach(plan, open_store(sys.argv[2]).run(plan.run_name))
print("ready", flush=True)
for piece in job.follow(run):
    pass
"""


@pytest.mark.parametrize("when", ["followed", "submitted"])
def test_maxview_is_killed(
    slurm: Cluster, follow: Follow, train: Plan, directory: RunDirectory, tmp_path: Path, when: str
) -> None:
    """The next flow finds the job, also if sbatch has submitted it and its number was not stored."""
    plan = train()
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    argv = [sys.executable, "-c", FLOW, str(tmp_path / "plan.json"), str(directory.path.parent.parent), when]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as flow:
        assert flow.stdout is not None
        assert flow.stdout.readline() == b"ready\n"
        flow.kill()
    stored = read_handle(directory)
    assert (stored.job_id is None) == (when == "submitted")
    run = follow(plan).wait_for(b"begun")
    (directory.path / "go").touch()
    assert run.end().endswith("EXIT_CODE=0\n")
    assert len(slurm.tool("squeue", "--noheader", "--states=all", f"--name={stored.job_name}").splitlines()) == 1


@pytest.fixture
def small_disk(directory: RunDirectory) -> Iterator[None]:
    """The run's folder is a disk of 1 MB."""
    if os.geteuid():
        pytest.skip("mounting a small disk needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", str(directory.path)], check=True)
    yield
    subprocess.run(["umount", "--lazy", str(directory.path)], check=True)


# removes its file, so that there is room for the log, which lies on the same disk
FILLS_ITS_DISK = """import os, sys
try:
    open(sys.argv[1], "wb").write(bytes(2_000_000))
except OSError:
    os.remove(sys.argv[1])
    raise
"""


@pytest.mark.usefixtures("small_disk")
def test_the_disk_is_full_for_the_trainer(slurm_plan: Plan, follow: Follow, directory: RunDirectory) -> None:
    run = follow(slurm_plan(FILLS_ITS_DISK, f"{directory.path}/state"))
    assert "No space left on device" in run.end()
    error = build_record(run.run_.plan, directory, read_run_log(directory.log), ()).reading.error
    assert error is not None
    assert error.kind == "disk_full"
    assert f"{directory.path} has 0.00 of 0.00 GB" in error.message


@pytest.mark.usefixtures("small_disk")
def test_the_disk_is_full_for_the_log(slurm_plan: Plan, follow: Follow, directory: RunDirectory) -> None:
    """The flow names the disk; once there is room, the same command reads the whole log."""
    filler = directory.path / "filler"
    filler.write_bytes(bytes(600_000))
    plan = slurm_plan("[print(n, 'x' * 90) for n in range(3000)]")
    run = follow(plan)
    run.join(60)
    assert isinstance(run.error, LaunchError)
    assert f"the disk at {directory.path} has" in str(run.error)
    assert "make room there and repeat the command" in str(run.error)
    wait_for(lambda: job.has_ended(run.run_.handle))
    filler.unlink()
    assert "\n2999 x" in Followed(plan, directory).end()
