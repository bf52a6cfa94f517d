"""Flows in a Kubernetes pool: Prefect's own worker against the API server stand-in, whose pods are processes here.

Needs the extra `k8s` (prefect-kubernetes); skipped without.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

pytest.importorskip("prefect_kubernetes", reason="Kubernetes pools need prefect-kubernetes: uv sync --extra k8s")
pytest.importorskip("aiohttp", reason="the stand-in for a cluster needs aiohttp: uv sync --group dev")
ROOT = Path(__file__).parent.parent.parent
POOL = "maxview-k8s"
SECRET = {"NAME": "maxview-api", "KEY": "auth"}
STEP = "I0418 00:55:{0:02}.0 1 metrics.py:1] completed step: {0}, seconds: 0.1, TFLOP/s/device: 1.0, loss: 2.000"


class Cluster:
    """The stand-in, and what stands in it."""

    def __init__(self, url: str, home: Path) -> None:
        self.url, self.home = url, home

    def jobs(self) -> dict[str, Any]:
        """Every Job by the flow run that it is for."""
        items = httpx.get(f"{self.url}/apis/batch/v1/namespaces/default/jobs").json()["items"]
        return {item["metadata"]["labels"]["prefect.io/flow-run-id"]: item for item in items}

    def order(self, *faults: dict[str, Any]) -> None:
        httpx.post(f"{self.url}/_faults", json=list(faults)).raise_for_status()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pods play: half a minute of training."""
    folder = tmp_path_factory.mktemp("logs")
    for arm in ("linen", "nnx"):
        steps = "\n".join(STEP.format(step) for step in range(30))
        frame = (
            f"XPK Start: Sat Apr 18 00:54:59 UTC 2026\n{steps}\nXPK End: Sat Apr 18 00:55:30 UTC 2026\nEXIT_CODE=0\n"
        )
        (folder / f"{arm}.txt").write_text(frame)
    return folder


@pytest.fixture(scope="module")
def cluster(
    one_stack: Any,
    logs: Path,
    tmp_path_factory: pytest.TempPathFactory,
    processes_of: Callable[[Path], list[psutil.Process]],
) -> Iterator[Cluster]:
    """A pool made, deployed to and worked for as deployments/README.md says; after the tests the stack's own again."""
    stack, tmp_path = one_stack, tmp_path_factory.mktemp("pool")
    stack.up()
    port, home, folder = tmp_path / "port", tmp_path / "home", tmp_path / "pods"
    folder.mkdir()
    home.mkdir()
    standin = ROOT / "tests" / "standins" / "kubernetes" / "server.py"
    argv = [sys.executable, str(standin), str(port), str(folder), "--python", str(Path(sys.executable).parent)]
    server = subprocess.Popen(argv, cwd=ROOT)
    stack.wait(port.is_file, 30)
    running = Cluster(f"http://127.0.0.1:{port.read_text()}", home)
    secret = {"metadata": {"name": SECRET["NAME"]}}
    secret |= {"data": {SECRET["KEY"]: base64.b64encode(stack.password.encode()).decode()}}
    httpx.post(f"{running.url}/api/v1/namespaces/default/secrets", json=secret).raise_for_status()
    name = {"name": "loopback"}
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "loopback"}
    config["clusters"] = [name | {"cluster": {"server": running.url}}]
    config["users"] = [name | {"user": {"token": "x"}}]
    config["contexts"] = [name | {"context": {"cluster": "loopback", "user": "loopback", "namespace": "default"}}]
    (tmp_path / "kubeconfig").write_text(json.dumps(config))

    told = stack.command("work-pool", "get-default-base-job-template", "--type", "kubernetes", module="prefect")
    template = json.loads(told.stdout)
    variables = template["variables"]["properties"]
    variables["image"]["default"] = "gcr.io/p/flows:1"
    variables["service_account_name"]["default"] = "maxview"
    variables["env"]["default"] = {
        "MAXVIEW_REPLAY": str(logs),
        "MAXVIEW_REPLAY_SPEED": "5",
        "PYTHONPATH": str(ROOT),  # in the image it is installed
    }
    (tmp_path / "template.json").write_text(json.dumps(template))
    words = ["create", POOL, "--type", "kubernetes", "--overwrite", "--base-job-template"]
    made = stack.command("work-pool", *words, str(tmp_path / "template.json"), module="prefect")
    assert made.returncode == 0, made.stdout + made.stderr
    deploy = {"PREFECT_DEPLOYMENTS_DEFAULT_WORK_POOL_NAME": POOL, "MAXVIEW_HOME": str(home), "MAXVIEW_OUT": "below"}
    words = ["--no-prompt", "deploy", "--name", "linen-vs-nnx", "--prefect-file", "deployments/prefect.yaml"]
    subprocess.run(
        [sys.executable, "-m", "prefect", *words], cwd=ROOT, env=stack.environment | deploy, check=True, timeout=120
    )
    settings = {f"PREFECT_INTEGRATIONS_KUBERNETES_WORKER_API_AUTH_STRING_SECRET_{k}": v for k, v in SECRET.items()}
    environment = stack.environment | settings | {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    del environment["PREFECT_SERVER_API_AUTH_STRING"]  # pods get every setting of Prefect's that a worker has
    worker = subprocess.Popen(
        [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL], cwd=ROOT, env=environment
    )
    try:
        yield running
    finally:
        worker.terminate()
        try:
            worker.wait(60)
        except subprocess.TimeoutExpired:  # its watches end when the server does
            worker.kill()
            worker.wait(60)
        server.terminate()
        server.wait(30)
        for process in processes_of(tmp_path):
            process.kill()
        stack.up()


def test_a_flow_runs_in_a_pod_as_the_pool_says(stack: Any, cluster: Cluster) -> None:
    run = stack.run("compare/linen-vs-nnx", target="replay", cases=["01_base"], repeats=1)
    assert stack.ended(run)["type"] == "COMPLETED"
    job = cluster.jobs()[run]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (container["image"], pod["serviceAccountName"]) == ("gcr.io/p/flows:1", "maxview")
    assert container["args"] == ["prefect", "flow-run", "execute"]
    assert (job["spec"]["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert stack.password not in json.dumps(job)
    given = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert given["MAXVIEW_REPLAY_SPEED"] == "5"
    assert list((cluster.home / "below").glob("comparisons/linen-vs-nnx/01_base/*/index.html"))  # where it started


def test_a_pod_that_vanishes_is_a_crash(stack: Any, cluster: Cluster) -> None:
    cluster.order({"kind": "node_gone", "when": "Beginning flow run"})
    run = stack.run("compare/linen-vs-nnx", target="replay", cases=["02_remat"], repeats=1)
    state = stack.ended(run)
    assert state["type"] == "CRASHED"
    assert cluster.jobs()[run]["status"]["failed"] == 1
