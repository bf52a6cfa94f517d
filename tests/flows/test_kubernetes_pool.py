"""Flows in a Kubernetes pool: Prefect's own worker against the API server stand-in, whose pods are processes here.

Needs prefect-kubernetes (of the group `dev`, and of the extra `k8s`); skipped without.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.standins.replay import write_python

WHY = "Kubernetes pools need prefect-kubernetes: uv sync --group dev"
# only its existence is checked: importing it takes each process of a test run a second, and other processes use it
pytestmark = [pytest.mark.long, pytest.mark.skipif(find_spec("prefect_kubernetes") is None, reason=WHY)]
if "MAXVIEW_APISERVER" in os.environ:
    pytestmark.append(pytest.mark.by_hand)
ROOT = Path(__file__).parent.parent.parent
ADMIN = "the-admins-token"  # of the cluster
WORKER = "the-workers-token"  # of the account of worker and flows, which has the documented role
POOL = "maxview-k8s"
SECRET = {"NAME": "maxview-api", "KEY": "auth"}
STEP = "I0418 00:55:{0:02}.0 1 metrics.py:1] completed step: {0}, seconds: 0.1, TFLOP/s/device: 1.0, loss: 2.000"
CASE = "03_dropout"
# the fate of the pods of one flow run, in turn: the first pod gets a warning, the second gets none
FATES = [
    {"kind": "preempted", "of": '"moved"', "when": "completed step: 2", "grace_s": 30},
    {"kind": "evicted", "of": '"moved"', "when": "completed step: 9", "grace_s": 0},
]
# the commands of deployments/README.md in one process: most of a command's time is its start
COMMANDS = """
import json, sys
from prefect.cli import app

def prefect(*words):
    sys.argv = ["prefect", *words]
    try:
        app()
    except SystemExit as end:
        if end.code:
            raise

pool, file, wanted = sys.argv[1:]
prefect("work-pool", "get-default-base-job-template", "--type", "kubernetes", "--file", file)
with open(file) as template_file:
    template = json.load(template_file)
for name, value in json.loads(wanted).items():
    template["variables"]["properties"][name]["default"] = value
with open(file, "w") as template_file:
    json.dump(template, template_file)
prefect("work-pool", "create", pool, "--type", "kubernetes", "--overwrite", "--base-job-template", file)
prefect("gcl", "update", "maxview-slices-v6e-32", "--limit", "4")
prefect("--no-prompt", "deploy", "--name", "linen-vs-nnx", "--prefect-file", "deployments/prefect.yaml")
prefect("worker", "start", "--pool", pool)
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log for the successful pod to replay."""
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
    cluster_of_stack: Any,
    logs: Path,
    tmp_path_factory: pytest.TempPathFactory,
    processes_of: Callable[[Path], list[psutil.Process]],
) -> Iterator[Any]:
    """A pool with deployments and a worker, set up as in deployments/README.md; afterwards the stack's own returns."""
    stack, home = one_stack, tmp_path_factory.mktemp("pool")
    stack.bring_up()
    stack.changed = True
    with cluster_of_stack(stack, home) as running:
        secret = {"metadata": {"name": SECRET["NAME"]}}
        secret |= {"data": {SECRET["KEY"]: base64.b64encode(stack.password.encode()).decode()}}
        headers = {"Authorization": f"Bearer {ADMIN}"}
        url = f"{running.url}/api/v1/namespaces/default/secrets"
        httpx.post(url, json=secret, headers=headers, timeout=60, verify=running.verify).raise_for_status()
        kept = ("KUBECONFIG", "MAXVIEW_CLUSTER", "MAXVIEW_PROJECT", "MAXVIEW_ZONE", "MAXVIEW_IMAGE")
        values = {key: stack.environment[key] for key in (*kept, "MAXVIEW_SHARED_OUT", "MAXVIEW_CACHE")}
        values |= {"PYTHONPATH": str(ROOT)}  # the image has it installed
        wanted = {"image": "gcr.io/p/flows:1", "service_account_name": "maxview", "env": values}
        environment = stack.environment | {
            "PREFECT_DEPLOYMENTS_DEFAULT_WORK_POOL_NAME": POOL, "MAXVIEW_HOME": str(home), "MAXVIEW_OUT": str(stack.out)
        }  # fmt: skip
        key = "PREFECT_INTEGRATIONS_KUBERNETES_WORKER_API_AUTH_STRING_SECRET_"
        environment |= {f"{key}{part}": value for part, value in SECRET.items()}
        environment["PREFECT_INTEGRATIONS_KUBERNETES_OBSERVER_NAMESPACES"] = "default"  # where the role is
        del environment["PREFECT_SERVER_API_AUTH_STRING"]  # pods get all of the worker's Prefect settings
        argv = [sys.executable, "-c", COMMANDS, POOL, str(home / "template.json"), json.dumps(wanted)]
        with (home / "worker.log").open("wb") as log:
            worker = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=log, stderr=log)
        reaped = ended_reapers(stack)
        try:
            stack.wait(lambda: worker.poll() is not None or is_ready(stack))
            assert worker.poll() is None, (home / "worker.log").read_text()
            yield running
            stack.wait(lambda: ended_reapers(stack) > reaped)  # the pool needs a cluster
        finally:
            worker.kill()  # otherwise it would watch the cluster for a while longer
            worker.wait(60)
            for process in processes_of(home):
                process.kill()


def is_ready(stack: Any) -> bool:
    found = stack.request("POST", "/work_pools/filter", {"work_pools": {"name": {"any_": [POOL]}}})
    return [pool["status"] for pool in found] == ["READY"]


def ended_reapers(stack: Any) -> int:
    """Return the number of ended runs of `reap/jobs`: an automation starts one for every crash."""
    wanted = {"flows": {"name": {"any_": ["reap"]}}, "flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    return int(stack.request("POST", "/flow_runs/count", wanted))


@pytest.fixture(scope="module")
def runs(one_stack: Any, cluster: Any, logs: Path) -> dict[str, str]:
    """Run a successful flow and one whose pods are preempted at the same time, as their start is slow."""
    cluster.order(*FATES)
    start, name = one_stack.run, "compare/linen-vs-nnx"
    python = write_python(logs / "python", logs)
    software = [f"{arm}:{python}" for arm in ("linen", "nnx")]
    return {
        "good": start(name, named="good", cases=["01_base"], more={"repeats": 1, "software": software}),
        "moved": start(name, named="moved", target="v6e-32", cases=[CASE], more={"repeats": 1}),
    }


def jobs_of(cluster: Any, run: str) -> list[Any]:
    """Return a flow run's Jobs, in order."""
    found = [job for job in cluster.items("apis/batch/v1/jobs") if run in json.dumps(job["metadata"]["labels"])]
    return sorted(found, key=lambda job: str(job["metadata"]["creationTimestamp"]))


def reasons_of(cluster: Any, run: str) -> list[str]:
    """Return the reasons why a flow run's remaining pods ended."""
    pods = cluster.items("api/v1/pods")
    return [pod["status"].get("reason") for pod in pods if run in json.dumps(pod["metadata"]["labels"])]


def requests_of(cluster: Any) -> list[str]:
    return list(cluster.requests())


def test_a_flow_runs_in_a_pod_as_the_pool_specifies(one_stack: Any, cluster: Any, runs: dict[str, str]) -> None:
    state = one_stack.ended(runs["good"])
    # the time of so short a run may be undecided
    assert (state["type"], state["name"]) in (("COMPLETED", "Same"), ("CANCELLED", "Unknown"))
    (job,) = jobs_of(cluster, runs["good"])
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (container["image"], pod["serviceAccountName"]) == ("gcr.io/p/flows:1", "maxview")
    assert container["args"] == ["prefect", "flow-run", "execute"]
    assert (job["spec"]["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert one_stack.password not in json.dumps(job)
    given = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert given["MAXVIEW_SHARED_OUT"] == "true"
    assert list(one_stack.out.glob("comparisons/linen-vs-nnx/01_base/*/index.html"))


def test_a_preempted_flow_continues_in_another_pod_with_its_job(
    one_stack: Any, cluster: Any, runs: dict[str, str]
) -> None:
    run = runs["moved"]
    # of the second pod; the scheduler deletes preempted pods
    one_stack.wait(lambda: len(jobs_of(cluster, run)) == 2 and reasons_of(cluster, run) == ["Evicted"])
    texts = [log.read_text() for log in cluster.folder.glob("moved-*.log")]
    assert sum("left running; " in text and "in another pod" in text for text in texts) == 1
    begun = [line for line in requests_of(cluster) if line.startswith("POST /apis/jobset")]
    assert len([line for line in begun if "dryRun" not in line]) == 1


def test_a_killed_pod_is_a_crash_and_its_job_is_ended(one_stack: Any, cluster: Any, runs: dict[str, str]) -> None:
    run = runs["moved"]
    assert one_stack.ended(run)["type"] == "CRASHED"
    assert jobs_of(cluster, run)[-1]["status"]["failed"] == 1
    one_stack.wait(lambda: not list((one_stack.out / "flows" / run).iterdir()))  # by `reap/jobs`, from another pool
    assert cluster.look() == ([], [])
    (directory,) = one_stack.out.glob(f"runs/{CASE}-linen-r*")
    job = json.loads((directory / "handle.json").read_text())["job_name"]
    assert f"DELETE /apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/{job}" in requests_of(cluster)
    assert cluster.server is None or cluster.server.denied(WORKER) == set()  # a denial that changes nothing, too
