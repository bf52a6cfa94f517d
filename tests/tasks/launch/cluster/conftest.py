"""A cluster on loopback and plans for it; no process outlives a test."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from configs.backends import settings_model
from configs.read import CONFIG_ROOT
from tasks.records.plan import RunPlan
from tasks.scrape.read_log import scrape_run
from tasks.store.directories import RunDirectory
from tasks.store.store import Store

ROOT = CONFIG_ROOT.parent
STANDINS = ROOT / "tests" / "standins" / "kubernetes"
sys.path.insert(0, str(STANDINS))
from access import ADMIN, RUNNER, documented_objects  # noqa: E402

REAL = (os.environ.get("MAXVIEW_APISERVER"), os.environ.get("MAXVIEW_ETCD"))
HERE = Path(__file__).parent
CLUSTER_WIDE = {"nodes", "storages", "clusterqueues", "resourceflavors", "priorityclasses"}
FOREVER, OUTAGE_S = 1000, 5.0  # number of failures that a test ends itself; length of others on a real server
pytest.importorskip("aiohttp", reason="the stand-in for a cluster needs aiohttp: uv sync --group dev")
cluster = pytest.importorskip(
    "tasks.launch.cluster.on_cluster", reason="runs on clusters need kubernetes: uv sync --extra k8s"
)
kube = pytest.importorskip("tasks.launch.cluster.kube")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With a real API server, tests of faults are marked by_hand and use it."""
    for item in items:
        if all(REAL) and item.path.parent == HERE and item.path.name in ("test_cluster.py", "test_api_server.py"):
            item.add_marker(pytest.mark.by_hand)


# a text that shells and Kubernetes would change: the latter replaces $$ by $, and $(NAME) by the variable of a pod
HOSTILE = {"NAME": "x", "GREETING": 'it\'s "me" & $HOME, $$ and $(NAME)\nsecond line'}


class StandIn:
    """A running API server, and its faults."""

    is_real = False

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def token(self, name: str) -> str:
        """The token of an account with the documented roles."""
        return name

    def write_kubeconfig(self, path: Path, **user: Any) -> None:
        """A kubeconfig for a user; by default with the token of the documented roles."""
        write_kubeconfig(path, {"server": self.url}, user or {"token": self.token(RUNNER)})

    def order(self, *faults: dict[str, Any]) -> None:
        """Replace the faults."""
        httpx.post(f"{self.url}/_faults", json=list(faults), timeout=60).raise_for_status()

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request with all rights."""
        headers = {"Authorization": f"Bearer {ADMIN}"}
        return httpx.request(method, f"{self.url}{path}", headers=headers, timeout=60, **more)

    def names(self, kind: str) -> list[str]:
        group = "/apis/jobset.x-k8s.io/v1alpha2" if kind == "jobsets" else "/api/v1"
        items = self.request("GET", f"{group}/namespaces/default/{kind}").json()["items"]
        return [item["metadata"]["name"] for item in items]

    def requests(self) -> list[str]:
        return (self.folder / "requests.txt").read_text().splitlines()

    def processes(self) -> list[psutil.Process]:
        """The processes of pods that still run."""
        found = []
        for path in self.folder.glob("*.pid"):
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(int(path.read_text()))
                # later than its file: another process with the number of one that has ended
                is_another = process.create_time() > path.stat().st_mtime + 1
                if process.status() != psutil.STATUS_ZOMBIE and not is_another:
                    found.append(process)
        return found

    def delete_all(self) -> None:
        for name in self.names("jobsets"):
            self.request("DELETE", f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/{name}")


def start_server(folder: Path, *arguments: str) -> tuple["subprocess.Popen[bytes]", str]:
    port_file = folder / "port"
    argv = [sys.executable, str(STANDINS / "server.py"), str(port_file), str(folder), *arguments]
    process = subprocess.Popen([*argv, "--python", str(Path(sys.executable).parent)], cwd=ROOT)
    wait_for(port_file.exists)
    return process, f"http://127.0.0.1:{port_file.read_text()}"


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


class RealStandIn(StandIn):
    """A real API server, with those of the stand-in's faults that it supports."""

    is_real = True
    OWN = ("restart", "rules", "expired", "no_v1beta1", "error", "slow")  # those that are not the kubelet's

    def __init__(self, server: Any, kubelet: str, folder: Path) -> None:
        super().__init__(server.url, folder)
        self.server, self.kubelet, self.tokens = server, kubelet, dict[str, str]()

    def token(self, name: str) -> str:
        if name not in self.tokens:
            self.tokens[name] = self.server.token(name)
        return self.tokens[name]

    def write_kubeconfig(self, path: Path, **user: Any) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.server.certificate)}
        write_kubeconfig(path, cluster, user or {"token": self.token(RUNNER)})

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        answer: httpx.Response = self.server.request(method, path, **more)
        return answer

    def requests(self) -> list[str]:
        return list(self.server.requests())

    def order(self, *faults: dict[str, Any]) -> None:
        own = [fault for fault in faults if fault["kind"] in self.OWN]
        others = [fault for fault in faults if fault not in own]
        tls = ssl.create_default_context(cafile=self.server.certificate)
        httpx.post(f"{self.kubelet}/_faults", json=others, timeout=60, verify=tls).raise_for_status()
        if not faults:
            self.server.start_etcd()
            self.server.wait()
            self.server.relieve()
            self._grant([rule for item in documented_objects() for rule in item["rules"]])
            self._serve_v1beta1(served=True)
        for fault in own:
            if fault["kind"] == "restart":
                self.server.stop()
                time.sleep(fault["away_s"])
                self.server.start()
            elif fault["kind"] == "rules":
                self._grant(fault["rules"])
            elif fault["kind"] == "expired":
                self.server.revoke(fault["token"], self.tokens.pop(fault["token"]))
            elif fault["kind"] == "error" and fault["code"] == 429:
                self.server.overload(RUNNER, self.token(RUNNER))
            elif fault["kind"] == "error":
                self.server.kill_etcd()
                if fault["times"] < FOREVER:
                    threading.Timer(OUTAGE_S, self.server.start_etcd).start()
            elif fault["kind"] == "slow":
                self.server.pause(fault["seconds"] * fault["times"])
            else:
                self._serve_v1beta1(served=False)

    def _grant(self, rules: list[dict[str, Any]]) -> None:
        """Replace the rules of both roles."""
        self.token(RUNNER)
        for item in documented_objects():
            kind, name = item["kind"], item["metadata"]["name"]
            of_cluster = kind == "ClusterRole"
            wide = [rule for rule in rules if (set(rule["resources"]) <= CLUSTER_WIDE) == of_cluster]
            place = "" if of_cluster else "/namespaces/default"
            path = f"/apis/rbac.authorization.k8s.io/v1{place}/{kind.lower()}s/{name}"
            self.request("PUT", path, json=item | {"rules": wide}).raise_for_status()
        time.sleep(0.5)  # until the authorizer has loaded it

    def _serve_v1beta1(self, *, served: bool) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
        found = self.request("GET", path).json()
        (version,) = (item for item in found["spec"]["versions"] if item["name"] == "v1beta1")
        if version["served"] is served:
            return
        version["served"] = served
        self.request("PUT", path, json=found).raise_for_status()
        time.sleep(1.0)


def start_real_server(folder: Path) -> Iterator[RealStandIn]:
    import real

    running = real.RealServer(folder, *REAL)
    words = ("--pods", "2", "--python", str(Path(sys.executable).parent))
    kubelet, address = real.start_kubelet(running, folder, *words)
    try:
        yield RealStandIn(running, address, folder)
    finally:
        kubelet.terminate()
        kubelet.wait(60)
        running.close()


def write_kubeconfig(path: Path, cluster: dict[str, str], user: dict[str, Any]) -> None:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "loopback",
        "clusters": [{"name": "loopback", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "loopback", "context": {"cluster": "loopback", "user": "me", "namespace": "default"}}],
    }  # fmt: skip
    path.write_text(json.dumps(config))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    folder = tmp_path_factory.mktemp("cluster")
    log = folder / "log.txt"
    log.write_text("completed step: 0, seconds: 0.5, TFLOP/s/device: 1.0, loss: 3.0\n")
    scrape_run(log)  # starts its threads, which keep descriptors open, before a fixture counts descriptors
    if all(REAL):
        yield from start_real_server(folder)
        return
    process, url = start_server(folder, "--pods", "2")
    yield StandIn(url, folder)
    process.send_signal(signal.SIGTERM)
    process.wait(60)


@pytest.fixture
def standin(server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The cluster for the real tools, with short poll times; empty again after the test."""
    server.write_kubeconfig(tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("GCLOUD_STANDIN_LOGS", str(server.folder))
    monkeypatch.setenv("PATH", f"{STANDINS / 'bin'}:{os.environ['PATH']}")
    if shutil.which("kubectl") is None:
        stub = tmp_path / "bin" / "kubectl"
        stub.parent.mkdir()
        stub.write_text("#!/bin/sh\n")
        stub.chmod(0o755)
        monkeypatch.setenv("PATH", f"{stub.parent}:{os.environ['PATH']}")
    # KUBECONFIG is read at the import of the library
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr("tasks.launch.patience.LOOK_EVERY_S", 0.3)
    # on a busy machine the ends of two pods may be far apart
    monkeypatch.setattr("tasks.launch.cluster.attempt.SETTLE_S", 30.0)
    monkeypatch.setattr("tasks.launch.cluster.attempt.BLOCKED_S", 1.0)
    monkeypatch.setattr("tasks.launch.cluster.podlog.AGAIN_S", 0.1)
    opened: dict[tuple[str | None, str], Any] = {}
    open_new = kube.connect.__wrapped__

    def connect(context: str | None, namespace: str) -> Any:
        if (context, namespace) not in opened:
            opened[context, namespace] = open_new(context, namespace)
        return opened[context, namespace]

    monkeypatch.setattr(kube, "connect", connect)
    monkeypatch.setattr(cluster, "connect", connect)
    monkeypatch.setattr("tasks.launch.cluster.attempt.connect", connect)
    server.order()
    yield server
    for api in opened.values():
        api.close()
    server.order()
    server.delete_all()
    wait_for(lambda: not server.names("jobsets") and not server.names("pods") and not server.processes())


@pytest.fixture
def ordered_errors(server: StandIn) -> None:
    """For tests with faulty answers, which a real server does not give on request."""
    if server.is_real:
        pytest.skip("a real server cannot be told to fail so")


@pytest.fixture
def soon_settled(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """For jobs that the cluster never reports as ended: give up soon."""
    monkeypatch.setattr("tasks.launch.cluster.attempt.SETTLE_S", 2.0)


@pytest.fixture
def slowly_settled(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, with the cluster's last update half a second after the end of the pods."""
    monkeypatch.setattr("tasks.launch.cluster.attempt.SETTLE_S", 8.0)


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return Store(tmp_path / "out").run("03_dropout-linen-r0-0123456789").create()


@pytest.fixture(params=["jobset", pytest.param("xpk", marks=pytest.mark.long)])
def backend(request: pytest.FixtureRequest) -> str:
    """The backend that creates the jobs; all else is shared."""
    return str(request.param)


@pytest.fixture
def make_plan(directory: RunDirectory, backend: str) -> Callable[..., RunPlan]:
    """make_plan(code, **settings of the cluster): a plan with a piece of Python as trainer."""
    devices = {"tpu_type": "v6e-32"} if backend == "xpk" else {"topology": "v6e:4x8"}

    def make(code: str, *, time_limit_s: int = 3600, identity: str = "0123456789abcdef", **settings: Any) -> RunPlan:
        place = {
            "cluster": "loopback", "project": "p", "zone": "us-east5-b", "image": "gcr.io/p/t:1",
            "context": "loopback", "grace_s": 5, "shared_out": True,
        }  # fmt: skip
        return RunPlan.model_validate({
            "comparison": "c", "case": "03_dropout", "arm": "linen", "repeat": 0, "trainer": "maxview",
            "target": "v6e-32", "backend": backend, "config": {"steps": 3}, "origins": {}, "commit": None,
            "dirty": False, "versions": {}, "environment": HOSTILE,
            "argv": ("python", "-c", code, str(directory.path)), "time_limit_s": time_limit_s,
            "run_name": directory.run_name, "directory": str(directory.path), "identity": identity,
            "launch": settings_model(backend).model_validate(place | devices | settings),
        })  # fmt: skip

    return make
