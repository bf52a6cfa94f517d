"""Runs on a real SLURM: several nodes, the environment, one allocation for both arms, and settings that are wrong."""

import json
import re
from collections.abc import Callable

import pytest

from configs.backends.slurm import Slurm
from tasks.launch import job
from tasks.launch.backend import LaunchError
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
from tasks.store.store import Store
from tests.standins.slurm.cluster import Cluster, wait_for

from .conftest import ROOT, Followed, obstacles

pytestmark = pytest.mark.long
type Plan = Callable[..., RunPlan]
type Follow = Callable[[RunPlan], Followed]
# as our trainer joins its processes
SUM = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from configs.load import load_train_config
from model.train.distributed import join_processes, leave_processes
import jax, jax.numpy as jnp
from jax.experimental import multihost_utils
from types import SimpleNamespace
join_processes(SimpleNamespace(hardware="cpu"))
parts = multihost_utils.process_allgather(jnp.float32(10 ** jax.process_index()))
print("sum", int(parts.sum()), "of", jax.device_count(), "devices,", jax.local_device_count(), "here", flush=True)
leave_processes()
"""


def test_two_nodes_are_one_trainer(follow: Follow, slurm_plan: Plan) -> None:
    """JAX alone would give each process one of the two devices of its node."""
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    log = follow(slurm_plan(SUM, settings={"nodes": 2}, environment=environment, time_limit_s=300)).end(300)
    assert "sum 11 of 4 devices, 2 here" in log
    assert log.count("sum") == 1  # only process 0 writes to the log
    assert "maxview: the job ran on partition main: n[1-2]" in log
    assert log.endswith("EXIT_CODE=0\n")


def test_maxtext_finds_its_processes(follow: Follow, slurm_plan: Plan) -> None:
    """By the variables that MaxText reads for GPUs."""
    names = ("JAX_COORDINATOR_IP", "JAX_COORDINATOR_PORT", "NNODES", "NODE_RANK")
    log = follow(slurm_plan(f"import os; print([os.environ[n] for n in {names}])", settings={"nodes": 2})).end()
    address, port, *numbers = next(line for line in log.splitlines() if line.startswith("[")).strip("[]").split(", ")
    assert address == "'127.0.0.1'"
    assert 61440 <= int(port.strip("'")) < 65536
    assert numbers == ["'2'", "'0'"]


def test_the_process_that_fails_first_is_read(follow: Follow, slurm_plan: Plan, directory: RunDirectory) -> None:
    code = """
import os, sys, time
if os.environ["NODE_RANK"] == "1":
    print("ValueError: planted")
    sys.exit(5)
time.sleep(60)
"""
    log = follow(slurm_plan(code, settings={"nodes": 2})).end()
    assert re.search(r"(?m)^maxview: process 1 .*:\nValueError: planted$", log)
    assert "EXIT_CODE=0" not in log


def test_a_trainer_gets_the_variables_of_the_list(
    follow: Follow, slurm_plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "HF_TOKEN", "MY_TOKEN", "PREFECT_API_KEY", "SLURM_MEM_PER_CPU", "SBATCH_REQUEUE"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("HF_TOKEN", "a, b\n$(touch /tmp/never)'")
    plan = slurm_plan(
        "import json, os; print('environ', json.dumps(dict(os.environ)))",
        passed_on=("PATH", "HOME", "HF_TOKEN", "GITHUB_*"), environment={"XLA_FLAGS": "--a='$(id)' --b=\"c d\""},
    )  # fmt: skip
    log = follow(plan).end()
    line = next(line for line in log.splitlines() if line.startswith("environ "))
    environ = json.loads(line.removeprefix("environ "))
    assert environ["XLA_FLAGS"] == "--a='$(id)' --b=\"c d\""
    assert environ["HF_TOKEN"] == "a, b\n$(touch /tmp/never)'"
    others = {name for name in environ if not name.startswith("SLURM")}
    by_the_system = {"HOSTNAME", "ENVIRONMENT", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "USER", "LOGNAME", "SHELL"}
    ours = {"PATH", "HOME", "HF_TOKEN", "XLA_FLAGS", "PYTHONUNBUFFERED", "JAX_DUMP_IR_TO"}
    assert others - by_the_system - {"LC_CTYPE"} == ours
    assert environ["SLURM_MEM_PER_CPU"] == "1500"  # SLURM's own


def test_words_of_a_config_are_words(follow: Follow, slurm_plan: Plan) -> None:
    words = ("$(touch /tmp/never)", "a b", "'", '"', "\n", "; exit 1", "%j", "#SBATCH --nodes=2", "ä")
    log = follow(slurm_plan("import sys; print(ascii(sys.argv[1:]))", *words)).end()
    assert ascii(list(words)) in log


def test_both_arms_take_turns_in_one_allocation(slurm: Cluster, slurm_plan: Plan, directory: RunDirectory) -> None:
    """The runs of one comparison share one job; the last one is ended without the others."""
    store = Store(directory.path.parent.parent)
    code = (
        "import os, time; print('allocation', os.environ['SLURM_JOB_ID'], flush=True); time.sleep(int(os.environ['S']))"
    )
    jobs, runs = [], []
    for name, seconds in (("a", "0"), ("b", "0"), ("c", "60")):
        own = store.run(name).create()
        settings = {"allocation_s": 600}
        plan = slurm_plan(
            code, settings=settings, run_name=name, arm=name, directory=str(own.path), environment={"S": seconds}
        )
        runs.append(Followed(plan, own).wait_for(b"allocation "))
        if name != "c":
            assert runs[-1].end().endswith("EXIT_CODE=0\n")
        jobs += [line for line in runs[-1].log.decode().splitlines() if line.startswith("allocation")]
    assert jobs == jobs[:1] * 3
    assert not job.has_ended(runs[-1].run_.handle)
    job.stop(runs[-1].run_.handle)
    assert runs[-1].end().endswith("EXIT_CODE=143\n")
    assert slurm.tool("squeue", "--noheader", "--format=%T").split() == ["RUNNING"]  # waits for more runs


def test_a_run_goes_on_in_a_new_allocation(slurm: Cluster, slurm_plan: Plan, directory: RunDirectory) -> None:
    go = directory.path / "go"
    code = "import os, sys, time\nprint('begun', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.1)"
    run = Followed(slurm_plan(code, str(go), settings={"allocation_s": 600}), directory).wait_for(b"begun")
    slurm.tool("scancel", "--batch", "--signal=KILL", run.job_id)  # ends the allocation's own process
    wait_for(lambda: run.restarts)
    assert run.restarts[0].cause.type == "AllocationEnded"
    go.touch()
    assert run.end().endswith("EXIT_CODE=0\n")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"partition": "gpu"}, "sbatch refuses the job: .*[Ii]nvalid partition.*; `sinfo` lists the partitions"),
        ({"gres": "gpu:8"}, "sbatch refuses the job: .*`sinfo -o '%P %G'` lists them"),
        ({"extra": ("--mem=900G",)}, "Requested node config.*; `sinfo -o '%P %D %c %m %G'` shows what the nodes have"),
        ({"image": "nvcr.io#nvidia/jax:25.10"}, "srun has no --container-image: this cluster has no pyxis"),
    ],
)
def test_wrong_settings(slurm: Cluster, slurm_plan: Plan, directory: RunDirectory, settings: dict, said: str) -> None:
    assert re.search(said, "\n".join(obstacles(Slurm(**({"partition": "main"} | settings)))))
    with pytest.raises(LaunchError, match=said):
        job.launch_or_attach(slurm_plan("print('trained')", settings=settings), directory)
    assert slurm.tool("squeue", "--noheader") == ""
