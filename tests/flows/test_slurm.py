"""`maxview compare` on a real SLURM, with a job for each run and with one allocation for both arms."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.standins.slurm.cluster import Cluster, missing_daemons

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        bool(missing_daemons()), reason=f"{', '.join(missing_daemons())} not installed: apt-get install slurm-wlm munge"
    ),
]
ROOT = Path(__file__).parents[2]
type Run = Callable[..., "subprocess.CompletedProcess[str]"]
PACKAGES = ("configs", "tasks", "flows", "model")
ON_CPU = {
    "devices: 8": "devices: 1",
    "model: seed-1b": "model: tiny",
    "JAX_PLATFORMS: cuda": "JAX_PLATFORMS: cpu",
    "  gres: gpu:8  # of each node\n": "",
    "hardware: gpu": "hardware: cpu",
    "max_target_length: 2048": "max_target_length: 64",
    "gradient_accumulation_steps: 4": "gradient_accumulation_steps: 1",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path / "slurm")
    yield running
    running.close()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The packages; the target is the repository's own, for the processor instead of GPUs."""
    copied = tmp_path / "tree"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copied)
    replace_in(copied / "configs" / "targets" / "slurm.yml", ON_CPU)
    return copied


@pytest.fixture
def maxview(
    cluster: Cluster, clean_environment: dict[str, str], prefect_server: str, tmp_path: Path, tree: Path
) -> Run:
    """maxview(*words): the command line on a login node of the cluster."""
    environment = clean_environment | {
        "SLURM_CONF": str(cluster.conf), "MAXVIEW_PARTITION": "main", "PYTHONPATH": str(tree),
        "PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_API_URL": prefect_server,
        "MAXVIEW_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-m", "flows.cli", *words]
        return subprocess.run(argv, cwd=tree, env=environment, capture_output=True, text=True, timeout=900, check=False)

    return run


def replace_in(path: Path, changes: dict[str, str]) -> None:
    text = path.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


@pytest.mark.parametrize(
    "in_turns",
    [pytest.param(False, id="a job each"), pytest.param(True, id="one allocation", marks=pytest.mark.by_hand)],
)
def test_compare(cluster: Cluster, maxview: Run, tree: Path, tmp_path: Path, in_turns: bool) -> None:
    out = tmp_path / "out"
    if in_turns:
        replace_in(tree / "configs" / "targets" / "slurm.yml", {"# allocation_s": "allocation_s"})
    doctor = maxview("doctor", "--target", "slurm", "--out", str(out))
    assert re.search("– target slurm: sacct .*accounting storage is disabled", doctor.stdout)
    words = ("--target", "slurm", "--set", "steps=20", "--set", "checkpoint_period=10", "--out", str(out))
    done = maxview("compare", "linen-vs-nnx", *words, "--interleave", "off", "--json")
    assert done.returncode in (0, 1, 3), done.stdout[-3000:] + done.stderr[-3000:]
    (record,) = json.loads(done.stdout)
    assert all(floor["holds"] for floor in record["floors"])
    assert done.stderr.count("3 of 3 checkpoints verified") == 2
    assert list(out.rglob("comparisons/**/index.html"))
    places = [record[arm]["environment"]["place"] for arm in ("baseline", "candidate")]
    assert all(place.startswith("partition main: n") for place in places)
    logs = [path.read_text() for path in sorted(out.rglob("runs/*/log.txt"))]
    # before its start, a log may tell that the job waits in the queue
    assert all("XPK Start: " in log and log.endswith("EXIT_CODE=0\n") for log in logs)
    ended = cluster.tool("squeue", "--noheader", "--states=all", "--format=%j").split()
    assert len(ended) == (1 if in_turns else 2)
    assert {os.path.exists(path) for path in out.rglob("runs/*/slurm-*.txt")} == set()


@pytest.mark.by_hand  # a minute of the processor
def test_programs_take_turns_in_a_job(cluster: Cluster, maxview: Run, tree: Path, tmp_path: Path) -> None:
    """The candidate recomputes no activations: another program, whose step time one more job measures."""
    arm = {"set: {pure_nnx: true}": "set: {pure_nnx: true, remat_policy: none}"}
    replace_in(tree / "configs" / "comparisons" / "linen-vs-nnx.yml", arm)
    words = ("--target", "slurm", "--set", "steps=5", "--interleave", "10s", "--out", str(tmp_path / "out"))
    done = maxview("compare", "linen-vs-nnx", *words, "--json")
    assert done.returncode in (0, 1, 3), done.stdout[-3000:] + done.stderr[-3000:]
    (record,) = json.loads(done.stdout)
    assert record["turns"], done.stderr
    assert record["turns"]["problem"] == ""
    assert record["turns"]["draws"] >= 2
    jobs = cluster.tool("squeue", "--noheader", "--states=all", "--format=%j").split()
    assert len(jobs) == 3
    assert sum(name.startswith("01_base-turns-r0-") for name in jobs) == 1
