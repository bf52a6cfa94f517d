"""`maxview compare` with a real API server, with the token of an account that has only the documented roles."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import REAL, ROOT, wait_for

pytestmark = [
    pytest.mark.by_hand,
    pytest.mark.long,
    pytest.mark.skipif(not all(REAL), reason="needs $MAXVIEW_APISERVER and $MAXVIEW_ETCD: docs/testing.md"),
]
PACKAGES = ("configs", "tasks", "flows", "model", "pyproject.toml")
TARGET = """\
# A cluster on loopback whose pods train on the processor.
backend: {backend}
devices: 1
model: tiny
time_limit_s: 900
environment: {{JAX_PLATFORMS: cpu, PYTHONPATH: {tree}}}
{backend}:
  {{cluster: loopback, project: p, zone: us-east5-b, image: "gcr.io/p/t:1", shared_out: true, context: loopback,
    grace_s: 20, {more}}}
set: {{hardware: cpu, per_device_batch_size: 2, max_target_length: 64}}
"""
MORE = {"jobset": "ttl_s: 60", "xpk": "tpu_type: v6e-1"}
# pods share the cores with other work here, so only a factor of two counts
TIMES = """
step_time_s: {relative: 1.0, why: pods share the cores with other work}
step_cpu_time_s: {relative: 1.0, why: the same}
"""


@pytest.fixture
def tree(tmp_path: Path, backend: str) -> Path:
    """The packages with an additional target."""
    copied = tmp_path / "tree"
    for name in PACKAGES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copied / name)
    configs = copied / "configs"
    (configs / "targets" / "loopback.yml").write_text(TARGET.format(tree=copied, backend=backend, more=MORE[backend]))
    (configs / "tolerances" / "shared.yml").write_text((configs / "tolerances" / "default.yml").read_text() + TIMES)
    comparison = configs / "comparisons" / "linen-vs-nnx.yml"
    comparison.write_text(comparison.read_text().replace("tolerances: default", "tolerances: shared"))
    return copied


def maxview(tree: Path, environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", *words],
        cwd=tree, env=environment | {"PYTHONPATH": str(tree), "COLUMNS": "140"}, capture_output=True, text=True,
        timeout=900,
    )  # fmt: skip


def test_compare_by_a_token_with_the_documented_role(
    standin: Any, clean_environment: dict[str, str], tree: Path, tmp_path: Path
) -> None:
    standin.order({"kind": "pods", "number": 1})  # the trainer's only process
    names = ("KUBECONFIG", "PATH", "GCLOUD_STANDIN_LOGS")
    environment = clean_environment | {name: os.environ[name] for name in names}
    environment |= {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "MAXVIEW_CACHE": str(tmp_path / "cache"),
        "XPK_STANDIN_TTL_S": "60",
    }
    doctor = maxview(tree, environment, "doctor", "--target", "loopback", "--out", str(tmp_path / "out"))
    assert "target loopback: can be used" in doctor.stdout, doctor.stdout + doctor.stderr
    words = ("--case", "01_base", "--set", "steps=60", "--set", "checkpoint_period=30")
    words += ("--repeats", "2", "--until-decided", "--budget", "10m", "--out", str(tmp_path / "out"))
    try:
        done = maxview(tree, environment, "compare", "linen-vs-nnx", "--target", "loopback", *words, "--json")
    finally:
        maxview(tree, environment, "down")  # the embedded server, which is idle
    (record,) = json.loads(done.stdout)
    reported = record["headline"] + done.stderr[-3000:]
    assert all(floor["holds"] for floor in record["floors"]), reported
    runs = record["baseline"]["runs"] + record["candidate"]["runs"]
    assert done.stderr.count("3 of 3 checkpoints verified") == len(runs) >= 4, reported
    assert list((tmp_path / "out").rglob("*.html"))
    places = [record[arm]["environment"]["place"] for arm in ("baseline", "candidate")]
    assert places == ["cluster loopback: node-0-0"] * 2  # one slice
    wait_for(lambda: not standin.names("jobsets") and not standin.names("pods"))  # their time to live has passed


def test_programs_take_turns_in_a_job(
    standin: Any, clean_environment: dict[str, str], tree: Path, tmp_path: Path, backend: str
) -> None:
    """The candidate recomputes no activations: another program, whose step time one more job measures."""
    standin.order({"kind": "pods", "number": 1})
    comparison = tree / "configs" / "comparisons" / "linen-vs-nnx.yml"
    changed = comparison.read_text().replace("pure_nnx: true}", "pure_nnx: true, remat_policy: none}")
    comparison.write_text(changed)
    environment = clean_environment | {name: os.environ[name] for name in ("KUBECONFIG", "PATH", "GCLOUD_STANDIN_LOGS")}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect"), "MAXVIEW_CACHE": str(tmp_path / "cache")}
    words = ("--set", "steps=5", "--interleave", "10s", "--out", str(tmp_path / "out"))
    try:
        done = maxview(tree, environment, "compare", "linen-vs-nnx", "--target", "loopback", *words, "--json")
    finally:
        maxview(tree, environment, "down")
    (record,) = json.loads(done.stdout)
    if backend == "xpk":  # its settings do not tell the number of hosts
        assert "turns need runs of one process" in record["turns"]["problem"]
        return
    assert record["turns"], done.stderr
    assert record["turns"]["problem"] == ""
    assert record["turns"]["draws"] >= 2
    assert sum(name.startswith("c01-base-turns-r0-") for name in standin.names("jobsets")) == 1


def test_doctor_names_the_missing_rights(
    standin: Any, clean_environment: dict[str, str], tree: Path, tmp_path: Path
) -> None:
    standin.order({"kind": "rules", "token": "the-runners-token", "rules": []})
    environment = clean_environment | {"KUBECONFIG": os.environ["KUBECONFIG"], "PATH": os.environ["PATH"]}
    doctor = maxview(tree, environment, "doctor", "--target", "loopback", "--out", str(tmp_path / "out"))
    assert doctor.returncode == 2
    for reported in (
        "✗ target loopback: this account may not create jobsets.jobset.x-k8s.io in the namespace default",
        "✗ target loopback: this account may not get pods/log in the namespace default",
        "– target loopback: this account may not get nodes in the cluster; without it",
    ):
        assert reported in doctor.stdout
