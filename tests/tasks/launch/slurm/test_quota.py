"""A real SLURM with accounting by slurmdbd and MariaDB: quotas of an account, and the end of forgotten jobs."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configs.backends.slurm import Slurm
from tasks.launch import job
from tasks.launch.backend import LaunchError
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
from tasks.store.store import Store
from tests.standins.slurm.cluster import ACCOUNTING_DAEMONS, DAEMONS, Cluster, missing_daemons, wait_for

from .conftest import Followed, obstacles
from .test_faults import cause

pytestmark = pytest.mark.long
type Plan = Callable[..., RunPlan]
LIMITS = ("GrpJobs", "MaxSubmitJobs", "MaxWall")  # those that the tests set
TEAM = {"account": "team"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    missing = missing_daemons(DAEMONS + ACCOUNTING_DAEMONS)
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: apt-get install slurm-wlm munge slurmdbd mariadb-server")
    running = Cluster(tmp_path_factory.mktemp("slurm"), forget_s=2, accounting=True)
    yield running
    running.close()


@pytest.fixture
def limit(slurm: Cluster) -> Iterator[Callable[..., None]]:
    """limit(MaxWall=1): set limits of the account until the test ends."""
    yield slurm.limit_account
    slurm.limit_account(**dict.fromkeys(LIMITS, -1))


def test_a_quota_that_others_use_is_waited_for(
    slurm: Cluster, slurm_plan: Plan, directory: RunDirectory, limit: Callable[..., None]
) -> None:
    limit(GrpJobs=1)
    other = slurm.tool("sbatch", "--parsable", "--account=team", "--output=/dev/null", "--wrap=sleep 60").strip()
    wait_for(lambda: slurm.tool("squeue", "--noheader", "--states=running"))
    run = Followed(slurm_plan("print('trained')", settings=TEAM), directory)
    run.wait_for(f"maxview: job {run.job_id} waits in the queue: AssocGrpJobsLimit".encode())
    slurm.tool("scancel", other)
    assert run.end().endswith("EXIT_CODE=0\n")


def test_a_job_above_a_limit_of_its_account_never_starts(
    slurm_plan: Plan, directory: RunDirectory, limit: Callable[..., None]
) -> None:
    limit(MaxWall=1)
    log = Followed(slurm_plan("print('trained')", settings=TEAM, time_limit_s=600), directory).end()
    assert "AssocMaxWallDurationPerJobLimit" in log
    assert cause(directory) == ("CannotStart", "configuration")


def test_a_used_up_number_of_jobs_is_a_refusal(
    slurm: Cluster, slurm_plan: Plan, directory: RunDirectory, limit: Callable[..., None]
) -> None:
    limit(MaxSubmitJobs=0)
    said = "sbatch refuses the job: AssocMaxSubmitJobLimit; a limit of your account or QOS; `sacctmgr show"
    assert any(said in line for line in obstacles(Slurm(partition="main", **TEAM)))
    with pytest.raises(LaunchError, match=said):
        job.launch_or_attach(slurm_plan("print('trained')", settings=TEAM), directory)
    assert slurm.tool("squeue", "--noheader") == ""


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"account": "nobody"}, "Invalid account or .* specified; `sacctmgr show associations user=.USER` lists yours"),
        ({"qos": "fast"} | TEAM, "Invalid qos specification; `sacctmgr show qos` lists them"),
    ],
)
@pytest.mark.usefixtures("slurm")
def test_an_account_or_qos_that_does_not_exist(
    slurm_plan: Plan, directory: RunDirectory, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(LaunchError, match=f"sbatch refuses the job: {said}"):
        job.launch_or_attach(slurm_plan("print('trained')", settings=settings), directory)


def test_the_end_of_a_forgotten_job(slurm: Cluster, slurm_plan: Plan, directory: RunDirectory) -> None:
    """slurmdbd tells how a job without an end in its log ended; while it is away, the end in the log decides."""
    killed, done = directory, Store(directory.path.parent.parent).run("done").create()
    endless = slurm_plan("import time; print('begun', flush=True); time.sleep(600)", settings=TEAM)
    short = slurm_plan("print('trained')", settings=TEAM, run_name="done", case="other", directory=str(done.path))
    assert list(obstacles(Slurm(partition="main", **TEAM))) == []
    launched, other = job.launch_or_attach(endless, killed), job.launch_or_attach(short, done)
    output = Path(launched.handle.output)  # type: ignore[attr-defined]
    wait_for(lambda: output.exists() and "begun" in output.read_text())
    numbers = [str(run.handle.job_id) for run in (launched, other)]  # type: ignore[attr-defined]
    slurm.tool("scancel", "--signal=KILL", "--full", numbers[0])  # also the supervisor, which writes the log's end
    slurm.tool("scancel", numbers[0])
    for number in numbers:
        wait_for(lambda number=number: "Invalid job id" in slurm.tool("scontrol", "show", "job", number), 120)
    assert slurm.tool("sacct", "-X", "-n", "-P", "-o", "State", "-j", numbers[0]).startswith("CANCELLED")
    list(job.follow(launched))
    assert cause(killed) == ("CANCELLED", "killed")
    slurm.kill("slurmdbd")
    try:
        said = "Connection refused.*; without it the end of a job is unknown 5 minutes after it"
        (line,) = obstacles(Slurm(partition="main", **TEAM))
        assert re.search(said, line)
        assert b"trained" in b"".join(job.follow(other))  # type: ignore[arg-type]
        again = slurm_plan("print('again')", settings=TEAM, run_name="again", directory=str(done.path))
        assert Followed(again, done).end().endswith("EXIT_CODE=0\n")  # slurmctld stores its jobs meanwhile
    finally:
        slurm.start("slurmdbd")
