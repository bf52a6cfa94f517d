"""A SLURM that forgets jobs soon and has no accounting; a machine without munge or without SLURM."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configs.backends.slurm import Slurm
from tasks.launch import job
from tasks.launch.backend import LaunchError
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
from tests.standins.slurm.cluster import Cluster, missing_daemons, wait_for

from .conftest import Followed, obstacles

pytestmark = pytest.mark.long
type Plan = Callable[..., RunPlan]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if missing_daemons():
        pytest.skip(f"{', '.join(missing_daemons())} not installed: apt-get install slurm-wlm munge")
    running = Cluster(tmp_path_factory.mktemp("slurm"), forget_s=2)
    yield running
    running.close()


def forget(slurm: Cluster, job_id: str) -> None:
    """Wait until slurmctld has forgotten the job; sacct is away."""
    wait_for(lambda: "Invalid job id" in slurm.tool("scontrol", "show", "job", job_id), 120)
    assert "disabled" in slurm.tool("sacct", "-j", job_id)


def test_a_forgotten_job_that_succeeded(slurm: Cluster, slurm_plan: Plan, directory: RunDirectory) -> None:
    plan = slurm_plan("print('trained')")
    launched = job.launch_or_attach(plan, directory)
    forget(slurm, str(launched.handle.job_id))  # type: ignore[attr-defined]
    run = Followed(plan, directory)
    assert run.run_.handle == launched.handle
    assert "trained" in run.end()


def test_a_job_that_is_forgotten_without_an_end(slurm: Cluster, slurm_plan: Plan, directory: RunDirectory) -> None:
    """It is started again: its log does not say how it ended."""
    code = "import time; print('begun', flush=True); time.sleep(600)"
    run = Followed(slurm_plan(code), directory).wait_for(b"begun")
    slurm.kill("slurmctld")
    for state in (slurm.folder / "state").glob("job_state*"):
        state.unlink()  # a controller that has lost its state ends the job, which it does not know
    slurm.start("slurmctld")
    wait_for(lambda: run.restarts, 120)
    assert run.restarts[0].cause.type == "JobLost"
    run.wait_for(b"begun")
    job.stop(run.run_.handle)  # the handle of the first start ends the second start, too
    run.end()
    assert slurm.tool("squeue", "--noheader", "--states=running") == ""


def test_munge_is_away(slurm: Cluster, slurm_plan: Plan, directory: RunDirectory) -> None:
    slurm.kill("munged")
    (slurm.folder / "munge.socket").unlink()  # else each command waits for a minute
    try:
        said = "start munge on this machine: `systemctl start munge`"
        assert any(said in line for line in obstacles(Slurm(partition="main")))
        for _ in range(2):  # the second one finds the handle of the first one
            with pytest.raises(LaunchError, match="start munge on this machine"):
                job.launch_or_attach(slurm_plan("print('trained')"), directory)
    finally:
        slurm.start("munged")


@pytest.mark.usefixtures("slurm")
def test_no_client_tool(
    slurm_plan: Plan, directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.launch.slurm.client.shutil.which", lambda _: None)
    said = "sbatch is not installed: use a login node of the cluster, or `apt install slurm-client`"
    assert list(obstacles(Slurm(partition="main"))) == [said]
    with pytest.raises(LaunchError, match="sbatch is not installed: use a login node"):
        job.launch_or_attach(slurm_plan("print('trained')"), directory)
    monkeypatch.undo()
