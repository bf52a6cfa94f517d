"""Real servers and real command lines for the flows' tests."""

import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

ROOT = Path(__file__).parent.parent.parent
STANDINS = ROOT / "tests" / "standins" / "kubernetes"
sys.path.insert(0, str(STANDINS))
from access import ADMIN, WORKER  # noqa: E402

REAL = (os.environ.get("MAXVIEW_APISERVER"), os.environ.get("MAXVIEW_ETCD"))  # a real API server, by hand
HELD = ROOT / "tests" / "standins" / "held"

PASSWORD = "maxview:a-secret-of-the-test"
TRAINER = """\
import time

for step in range(20):
    time.sleep({pause})
    print(
        f"completed step: {{step}}, seconds: 0.500, TFLOP/s/device: 1.000, Tokens/s/device: 30.000, "
        f"total_weights: 8, loss: {{{loss} / (step + 1):.3f}}",
        flush=True,
    )
"""
BRANCHES = {"main": (0.0, 2.0), "feat/x": (0.0, 3.0), "slow": (5.0, 2.0), "1234567": (0.0, 2.0)}
POD = """\
#!/bin/sh
step=0
while [ $step -lt 36000 ]; do
    echo "completed step: $step, seconds: 0.100, TFLOP/s/device: 1.000, total_weights: 8, loss: 2.000"
    step=$((step + 1))
    sleep 0.1
done
"""  # the Python of pods: a trainer that only prints, for longer than any test
SECRETS = {  # a variable of the worker that must not reach a trainer
    "GITHUB_TOKEN": "ghp_of-the-test",
    "MAXVIEW_GITHUB_TOKEN": "ghp_ours-of-the-test",
    "AWS_SECRET_ACCESS_KEY": "aws-of-the-test",
    "HF_TOKEN": "hf_of-the-test",
    "GOOGLE_APPLICATION_CREDENTIALS": "/nowhere/credentials-of-the-test.json",
}
OVER = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}

type Maxview = Callable[..., subprocess.CompletedProcess[str]]
type Seen = tuple[list[str], list[psutil.Process]]
type Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is bound and does not listen: no answer comes from it, and no other process gets it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def user_environment(clean_environment: dict[str, str], prefect_server: str, tmp_path: Path) -> dict[str, str]:
    """A user with a running Prefect server."""
    return clean_environment | {"PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(tmp_path / "prefect-home")}


@pytest.fixture
def start(user_environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start `maxview …` like a shell, in its own process group; the test's end also ends its remaining processes."""
    started: list[subprocess.Popen[str]] = []

    def run(
        *words: str, environment: Mapping[str, str] | None = None, python: str | Path = sys.executable
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [python, "-m", "flows.cli", *words],
            cwd=tmp_path,
            env=dict(environment or user_environment) | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for left in find_processes(tmp_path):
        left.kill()


@dataclass
class Holding:
    """Options for `start` that make an arm's trainer wait at a step: a whole training takes a second or two."""

    python: Path
    environment: dict[str, str]
    go: Path

    def at(self, arm: str, step: int) -> dict[str, Any]:
        """Make the trainer wait before it prints this step, until a signal comes or the file `go` exists."""
        return {"python": self.python, "environment": self.environment | {"WAIT_AT_STEP": f"{arm}:{step}:{self.go}"}}


@pytest.fixture
def holding(tmp_path: Path, user_environment: dict[str, str]) -> Holding:
    """A Python whose trainers wait. Launched runs have their own environment, so a variable would not reach them."""
    place = tmp_path / "python"
    venv.create(place, with_pip=False, symlinks=True)
    (packages,) = place.glob("lib/python*/site-packages")
    lines = (sysconfig.get_path("purelib"), str(ROOT / "probe"), str(HELD), "import wait_at_step")
    (packages / "waits.pth").write_text("\n".join(lines) + "\n")
    return Holding(place / "bin" / "python", user_environment, tmp_path / "go")


@pytest.fixture
def maxview(start: Start) -> Maxview:
    """Run `maxview …` to its end."""

    def run(
        *words: str, environment: Mapping[str, str] | None = None, python: str | Path = sys.executable
    ) -> "subprocess.CompletedProcess[str]":
        process = start(*words, environment=environment, python=python)
        out, err = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run


TWO_REFS = """\
# Does my branch train as main does?
trainer: command
command: {argv: ["{python}", train.py, "{steps}"]}
repository: FOLDER
target: cpu
cases: [01_base]
repeats: REPEATS
tolerances: default
arms:
  - {name: baseline, ref: main}
  - {name: branch, ref: HEAD}
set: {}
"""


@pytest.fixture
def custom_trainer(tmp_path: Path) -> Callable[..., Path]:
    """custom_trainer(comparison, repeats=1): the empty folder of a trainer; the comparison `mine` names it FOLDER.

    maxview runs in `tmp_path`, on copies of its configs and packages there.
    """

    def make(comparison: str = TWO_REFS, *, repeats: int = 1) -> Path:
        for name in ("configs", "model", "tasks", "flows"):
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        folder = tmp_path / "mine"
        folder.mkdir()
        text = comparison.replace("FOLDER", str(folder)).replace("REPEATS", str(repeats))
        (tmp_path / "configs" / "comparisons" / "mine.yml").write_text(text)
        return folder

    return make


@pytest.fixture(scope="session")
def processes_of() -> Callable[[Path], list[psutil.Process]]:
    """Return every live process whose command line contains a folder."""
    return find_processes


def find_processes(folder: Path) -> list[psutil.Process]:
    """Return every live process whose command line contains a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and any(str(folder) in word for word in process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


@dataclass
class Stack:
    """A running `maxview up`."""

    folder: Path
    port: int
    environment: dict[str, str]
    password: str = PASSWORD
    secrets: dict[str, str] = field(default_factory=SECRETS.copy)
    messages: list[Any] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)  # flow runs that several tests look at
    changed: bool = False  # its deployments or limits: the next test restores them

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    @property
    def logs(self) -> Path:
        """The logs that stand in for trainings."""
        return self.folder / "logs"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig with the cluster of the target `v6e-32`."""
        return self.folder / "kubeconfig"

    def command(self, *words: str, module: str = "flows.cli") -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-m", module, *words]
        return subprocess.run(
            argv, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=600
        )

    def up(self) -> "subprocess.CompletedProcess[str]":
        done = self.command("up", "--state", "state", "--out", "out", "--port", str(self.port))
        assert done.returncode == 0, done.stderr
        self.changed = False
        return done

    def bring_up(self) -> None:
        """Run `maxview up` unless it is running."""
        if not (self.folder / "state" / "server.json").is_file():
            self.up()

    def pid(self, name: str) -> int:
        return int(json.loads((self.folder / "state" / f"{name}.json").read_text())["pid"])

    def request(self, method: str, path: str, body: Any = None) -> Any:
        user, password = self.password.split(":")
        url = f"http://127.0.0.1:{self.port}/api{path}"
        answer = httpx.request(method, url, json=body, auth=(user, password), timeout=60)
        while answer.status_code == 503:  # a busy SQLite; Prefect's own client also retries
            time.sleep(1)
            answer = httpx.request(method, url, json=body, auth=(user, password), timeout=60)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def run(self, deployment: str, *, named: str | None = None, **parameters: Any) -> str:
        """Start a deployment; return the flow run's id. `named`: as in the run form."""
        found = self.request("GET", f"/deployments/name/{deployment}")
        wanted = {"parameters": parameters, "state": {"type": "SCHEDULED"}, "name": named}
        return str(self.request("POST", f"/deployments/{found['id']}/create_flow_run", wanted)["id"])

    def state(self, run: str) -> dict[str, Any]:
        return dict(self.request("GET", f"/flow_runs/{run}")["state"])

    def wait(self, condition: Callable[[], Any], seconds: float = 300) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, (self.folder / "state" / "worker.log").read_text()[-3000:]
            time.sleep(0.2)
        return found

    def ended(self, run: str, seconds: float = 300) -> dict[str, Any]:
        """The run's final state."""

        def look() -> dict[str, Any] | None:
            try:
                state = self.state(run)
            except httpx.HTTPError:  # the server is away
                return None
            return state if state["type"] in OVER else None

        return dict(self.wait(look, seconds))

    def jobs(self) -> list[psutil.Process]:
        """Return the supervisors of jobs that write into this stack's store."""
        found = []
        for process in psutil.process_iter():
            try:
                words = " ".join(process.cmdline())
                if "supervise.py" in words and str(self.out) in words and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return found


@dataclass
class Cluster:
    """A running stand-in for a cluster."""

    url: str
    folder: Path
    python: Path  # the command of its JobSets' pods
    orders: str  # the address for setting faults
    verify: ssl.SSLContext | bool = True
    server: Any = None  # a real API server

    def items(self, path: str) -> list[Any]:
        """Return the API server's list of a kind, for example of `api/v1` and `pods`."""
        group, _, plural = path.rpartition("/")
        headers = {"Authorization": f"Bearer {ADMIN}"}
        url = f"{self.url}/{group}/namespaces/default/{plural}"
        return list(httpx.get(url, headers=headers, timeout=60, verify=self.verify).json()["items"])

    def requests(self) -> list[str]:
        """METHOD PATH of every request so far."""
        return self.server.requests() if self.server else (self.folder / "requests.txt").read_text().splitlines()

    def order(self, *faults: dict[str, Any]) -> None:
        """Replace the faults."""
        httpx.post(f"{self.orders}/_faults", json=list(faults), timeout=60, verify=self.verify).raise_for_status()

    def look(self) -> Seen:
        """Return its JobSets and the processes of their pods."""
        found = self.items("apis/jobset.x-k8s.io/v1alpha2/jobsets")
        return [item["metadata"]["name"] for item in found], find_processes(self.python)


@pytest.fixture(scope="session")
def one_stack(
    tmp_path_factory: pytest.TempPathFactory,
    clean_environment: dict[str, str],
    free_port: Callable[[], int],
    if_killed: Callable[..., AbstractContextManager[None]],
    used_home: Callable[[Path], Path],
) -> Iterator[Stack]:
    """One stack for all tests: starting it takes half a minute."""
    folder = tmp_path_factory.mktemp("stack")
    make_repository(folder / "repository")
    kubectl = folder / "bin" / "kubectl"  # must exist; only the real xpk calls it
    kubectl.parent.mkdir()
    kubectl.write_text("#!/bin/sh\n")
    kubectl.chmod(0o755)
    port = free_port()
    with Webhook() as (address, messages):
        environment = (
            clean_environment
            | SECRETS
            | {
                "PYTHONPATH": str(ROOT),
                "PREFECT_HOME": str(used_home(folder / "home")),
                "MAXVIEW_CACHE": str(folder / "cache"),
                "PREFECT_WORKER_QUERY_SECONDS": "1",  # else a run waits up to ten seconds for the worker's poll
                "MAXVIEW_WEBHOOK_URL": address,
                "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
                "PREFECT_API_AUTH_STRING": PASSWORD,
                "PREFECT_SERVER_API_AUTH_STRING": PASSWORD,
                "PATH": f"{STANDINS / 'bin'}:{clean_environment['PATH']}:{kubectl.parent}",
                "KUBECONFIG": str(folder / "kubeconfig"),
                "MAXVIEW_CLUSTER": "loopback",
                "MAXVIEW_PROJECT": "p",
                "MAXVIEW_ZONE": "us-east5-b",
                "MAXVIEW_IMAGE": "gcr.io/p/trainer:1",
                "MAXVIEW_SHARED_OUT": "true",
            }
        )
        running = Stack(folder, port, environment, messages=messages)
        down = [sys.executable, "-m", "flows.cli", "down", "--state", "state"]
        try:
            with if_killed(*down, cwd=folder, env=environment):
                yield running
        finally:
            ended = running.command("down", "--state", "state")
            said = ended.stderr.splitlines()  # between two tests: a run that the last test killed
            assert said == ["nothing is up"] or (said[0], said[-1]) == ("worker: ended", "server: ended")
            assert not running.jobs()


@pytest.fixture
def stack(one_stack: Stack) -> Stack:
    """`maxview up`, with basic authentication; a test may have taken it down."""
    if one_stack.changed:
        one_stack.up()
    one_stack.bring_up()
    return one_stack


@pytest.fixture
def pods(one_stack: Stack, tmp_path: Path) -> Iterator[Callable[[], Seen]]:
    """A cluster on loopback for the stack's flows: its JobSets, and the processes of its pods."""
    with cluster_of(one_stack, tmp_path) as cluster:
        yield cluster.look


@pytest.fixture(scope="session")
def cluster_of_stack() -> Callable[[Stack, Path], AbstractContextManager[Cluster]]:
    """cluster_of_stack(stack, folder): such a cluster for several tests."""
    return cluster_of


@contextmanager
def cluster_of(stack: Stack, home: Path) -> Iterator[Cluster]:
    """The stand-in for a cluster, in the stack's kubeconfig."""
    pytest.importorskip("aiohttp", reason="the stand-in for a cluster needs aiohttp: uv sync --group dev")
    pytest.importorskip("kubernetes", reason="runs on clusters need kubernetes: uv sync --extra k8s")
    folder, port = home / "cluster", home / "port"
    folder.mkdir()
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(POD)
    python.chmod(0o755)
    name = "gke_p_us-east5_loopback"  # called by gcloud's name
    path = {"PATH": f"{stack.environment['PATH']}:{Path(sys.executable).parent}"}  # the `prefect` of flows in pods
    environment = stack.environment | path
    real = make_real_server(folder) if all(REAL) else None
    place = [real.url, str(real.certificate)] if real else []
    program = STANDINS / ("kubelet.py" if real else "server.py")
    argv = [sys.executable, str(program), str(port), str(folder), *place, "--python", str(python.parent)]
    server = subprocess.Popen(argv, cwd=ROOT, env=environment)
    try:
        stack.wait(port.is_file)
        orders = f"http{'s' if real else ''}://127.0.0.1:{port.read_text()}"
        url = real.url if real else orders
        authority = {"certificate-authority": str(real.certificate)} if real else {}
        tls = ssl.create_default_context(cafile=real.certificate) if real else True
        context = {"cluster": name, "user": name, "namespace": "default"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": url} | authority}],
        }
        config |= {
            "users": [{"name": name, "user": {"token": real.token(WORKER, xpk=False) if real else WORKER}}],
            "contexts": [{"name": name, "context": context}],
        }
        stack.kubeconfig.write_text(json.dumps(config))
        yield Cluster(url, folder, python, orders, tls, real)
    finally:
        server.terminate()
        server.wait(60)
        if real:
            real.close()
        stack.kubeconfig.unlink(missing_ok=True)


def make_real_server(folder: Path) -> Any:
    from real import RealServer

    return RealServer(folder, *REAL)


def make_repository(folder: Path) -> None:
    (folder / "model").mkdir(parents=True)
    (folder / "configs").mkdir()
    (folder / "configs" / "base.yml").write_bytes((ROOT / "configs" / "base.yml").read_bytes())
    (folder / "model" / "__init__.py").write_text('"""A trainer."""\n')

    def git(*words: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for branch, (pause, loss) in BRANCHES.items():
        git("checkout", "-q", "-B", branch)
        (folder / "model" / "train.py").write_text(TRAINER.format(pause=pause, loss=loss) + f"# {branch}\n")
        git("add", "-A")
        git("commit", "-q", "-m", branch)


class Webhook:
    """A receiver of webhook messages."""

    def __enter__(self) -> tuple[str, list[Any]]:
        messages: list[Any] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                messages.append((self.headers["content-type"], json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook", messages

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


# a trainer without a readable log that writes where it is
TYPED_TRAINER = """\
import json, sys
import jax, jax.numpy as jnp
from loss import loss_of

config = json.load(open(sys.argv[2]))
weights = {"a": 0.1 * jax.random.normal(jax.random.key(0), (16, 32)), "b": jnp.full((32, 1), 0.1)}
x = jnp.load("data/x.npy")

@jax.jit
def update(weights, x):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x)
    weights = jax.tree.map(lambda w, g: w - config["rate"] * g, weights, gradients)
    return weights, {"loss": loss, "norm": sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients))}

for n in range(config["steps"]):
    weights, metrics = update(weights, x)
    if n % 5 == 0:
        print("iteration", n, "has", float(metrics["loss"]))
print("done", file=open("result.txt", "a"))
"""
LOSS = """\
import jax.numpy as jnp


def loss_of(weights, x):
    return jnp.mean((jnp.tanh(x @ weights["a"]) @ weights["b"] - 2 * x[:, :1]) ** 2)
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose data git ignores; the working tree has another loss."""
    folder = tmp_path / "trainer"
    (folder / "data").mkdir(parents=True)
    (folder / "train.py").write_text(TYPED_TRAINER)
    (folder / "loss.py").write_text(LOSS)
    (folder / "tiny.json").write_text('{"rate": 0.1, "steps": 40}')
    (folder / ".gitignore").write_text("data/\n")
    make = "import numpy; numpy.save('data/x.npy', numpy.random.default_rng(0).normal(size=(64, 16)).astype('float32'))"
    subprocess.run([sys.executable, "-c", make], cwd=folder, check=True)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "the trainer"]):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words], cwd=folder, check=True)
    (folder / "loss.py").write_text(LOSS.replace(" ** 2)", " ** 2) * 1.001"))
    return folder
