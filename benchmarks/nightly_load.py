"""Times one nightly of many comparisons through a real Prefect server, worker and deployment, and watches their memory.

    uv run python -m benchmarks.nightly_load [--comparisons 250] [--database sqlite|postgresql] [--slices 2]

The runs are jobs like others: half of a nightly's cells compare the two implementations, half two commits of a
repository that is made here. The two implementations are trained once; every run plays one of these logs, much
faster, with its two checkpoints, which are verified. Everything is in one temporary folder: a copy of the packages
with that many cases, the database, the store. PostgreSQL is a cluster of its own (`initdb`, `postgres` on PATH), on
a loopback port, run by a user that is not root. On SQLite the server grows with its database: Prefect lets each
connection keep 20,000 pages (`PRAGMA cache_size`), 80 MB.
"""

import argparse
import json
import os
import pwd
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from benchmarks.machine import describe_machine
from tasks.launch.processes import Kept

ROOT = Path(__file__).parent.parent
COPIED = ("configs", "flows", "tasks", "model", "deployments")
SPEED = "1000"
SAMPLE_S = 5.0
ARMS = {"linen": "linen", "nnx": "nnx", "baseline": "linen", "branch": "nnx"}  # arm -> the stored run that it plays


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def make_tree(folder: Path, cases: list[str], slices: int) -> Path:
    """A copy of the packages with these cases, and the two refs of main-vs-branch in a clone beside it."""
    tree, repository = folder / "tree", folder / "repository"
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    for case in cases:
        (tree / "configs" / "cases" / f"{case}.yml").write_text("# One of many.\ndtype: bfloat16\n")
    (tree / "configs" / "nightly.yml").write_text(
        f"target: replay\nslices: {{replay: {slices}}}\ncomparisons:\n"
        "  - {name: linen-vs-nnx, repeats: 1}\n"
        f"  - {{name: main-vs-branch, repository: {repository}, branch: branch, baseline: main, repeats: 1}}\n"
    )

    def git(*words: str) -> None:
        identity = ["-c", "user.name=load", "-c", "user.email=load@localhost"]
        subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True)

    for package in ("model", "configs"):
        shutil.copytree(tree / package, repository / package)
    git("init", "-q", "-b", "main")
    for branch in ("main", "branch"):
        git("checkout", "-q", "-B", branch)
        (repository / "model" / "__init__.py").write_text(f'"""The trainer of {branch}."""\n')
        git("add", "-A")
        git("commit", "-q", "-m", branch)
    return tree


def store_runs(folder: Path, cases: list[str]) -> Path:
    """Both implementations trained once, for real, and stored as the run of every case and arm."""
    trained, stored = folder / "trained", folder / "stored"
    words = ["compare", "linen-vs-nnx", "--out", str(trained), "--json", "--set", "steps=20"]
    subprocess.run(
        [sys.executable, "-m", "flows.cli", *words], cwd=ROOT, check=True, capture_output=True,
        env=without_prefect() | {"PREFECT_HOME": str(folder / "home")},
    )  # fmt: skip
    (stored / "runs").mkdir(parents=True)
    for case in cases:
        for arm, name in ARMS.items():
            run = next(trained.glob(f"runs/01_base-{name}-r0-*"))
            (stored / "runs" / f"{case}-{arm}-r0-stored").symlink_to(run)
    return stored


def without_prefect() -> dict[str, str]:
    """Return the caller's environment without Prefect's settings."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL cluster of its own; yields the address that Prefect connects to."""
    data, port = folder / "postgresql", free_port()
    data.mkdir()
    user = None
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = next((name for name in ("postgres", "nobody") if _has_user(name)), None)
        if user is None:
            raise SystemExit("PostgreSQL does not run as root, and there is no user postgres or nobody here")
        shutil.chown(data, user)
        folder.chmod(0o711)
    subprocess.run(
        ["initdb", "-D", str(data), "-U", "maxview", "--auth=trust", "--no-locale", "-E", "UTF8"],
        check=True, capture_output=True, user=user,
    )  # fmt: skip
    argv = ["postgres", "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", str(data)]
    with (folder / "postgresql.log").open("wb") as log:
        server = subprocess.Popen(argv, stdout=log, stderr=log, user=user)
    try:
        for _ in range(100):
            if subprocess.run(["pg_isready", "-h", "127.0.0.1", "-p", str(port)], capture_output=True).returncode == 0:
                break
            time.sleep(0.2)
        yield f"postgresql+asyncpg://maxview@127.0.0.1:{port}/postgres"
    finally:
        server.terminate()
        server.wait(30)


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def memory_mb(state: Path, name: str) -> float:
    """The resident memory of a program of `maxview up` and of the flows that it runs, without their jobs."""
    process = psutil.Process(Kept.model_validate_json((state / f"{name}.json").read_text()).pid)
    total = 0
    for member in (process, *process.children()):
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20


def watch(url: str, flow_run: str, state: Path) -> tuple[str, list[tuple[float, float, float]]]:
    """Wait for the end of the nightly; its state, and (seconds, server MB, worker and flow MB) over time."""
    samples = []
    started = time.monotonic()
    while True:
        found = httpx.get(f"{url}/flow_runs/{flow_run}", timeout=60).json()
        samples.append((time.monotonic() - started, memory_mb(state, "server"), memory_mb(state, "worker")))
        if found["state"]["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
            return f"{found['state']['type']} {found['state']['name']}: {found['state']['message']}", samples
        time.sleep(SAMPLE_S)


def job_seconds(out: Path) -> list[float]:
    """Return the seconds of each run's job, from its supervisor's start to the last write of its log."""
    seconds = []
    for handle in out.glob("runs/*/handle.json"):
        created = json.loads(handle.read_text())["created"]
        seconds.append((handle.parent / "log.txt").stat().st_mtime - created)
    return seconds


def report(url: str, night: str, said: str, out: Path, samples: list[tuple[float, float, float]], slices: int) -> bool:
    """Print the figures; return whether every run completed."""
    record = json.loads(next(out.glob("nightly/*/record.json")).read_text())
    cells = len(record["results"])
    outcomes = {result["outcome"] for result in record["results"]}
    runs = len(list(out.glob("runs/*/record.json")))
    jobs = job_seconds(out)
    found = httpx.get(f"{url}/flow_runs/{night}", timeout=60).json()
    wall = found["total_run_time"]
    states: dict[str, int] = {}
    for offset in range(0, 10_000, 200):
        page = httpx.post(f"{url}/flow_runs/filter", json={"limit": 200, "offset": offset}, timeout=60).json()
        for run in page:
            key = f"{run['state']['type']} {run['state']['name']}"
            states[key] = states.get(key, 0) + (run["id"] != night)
        if len(page) < 200:
            break
    overhead = (wall - sum(jobs) / slices) / runs
    print(f"night: {said}")
    print(f"comparisons {cells} ({', '.join(sorted(outcomes))}), runs {runs}, flow runs {states}")
    print(f"wall {wall:.0f} s, jobs themselves {statistics.median(jobs):.3f} s (median), {slices} at once")
    print(f"flow overhead per run: {overhead:.2f} s of wall time, {overhead * slices:.2f} s of a slice")
    for name, column in (("server", 1), ("worker and flow", 2)):
        shown = [f"{at:.0f} s {values[column - 1]:.0f}" for at, *values in samples[:: max(1, len(samples) // 12)]]
        print(f"memory of the {name}, MB: {', '.join(shown)}")
    return runs == 2 * cells and "failed" not in outcomes


def main() -> int:
    """Run it once and print the figures; 0 if every comparison and run completed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=250)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--slices", type=int, default=2)
    arguments = parser.parse_args()
    print(describe_machine(("prefect", "polars")))
    with tempfile.TemporaryDirectory(prefix="maxview-load-") as name:
        folder = Path(name)
        cases = [f"load_{number:03}" for number in range(-(-arguments.comparisons // 2))]
        tree, stored = make_tree(folder, cases, arguments.slices), store_runs(folder, cases)
        state, out, port = folder / "state", folder / "out", free_port()
        environment = without_prefect() | {
            "MAXVIEW_CACHE": str(folder / "cache"),
            "MAXVIEW_REPLAY": str(stored),
            "MAXVIEW_REPLAY_SPEED": SPEED,
            "PYTHONPATH": str(tree),
        }
        with postgresql(folder) if arguments.database == "postgresql" else _sqlite() as database:
            if database:
                environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database
            maxview = [sys.executable, "-m", "flows.cli"]
            up = [*maxview, "up", "--state", str(state), "--out", str(out), "--port", str(port)]
            try:
                subprocess.run(up, cwd=tree, env=environment, check=True)
                url = f"http://127.0.0.1:{port}/api"
                deployment = httpx.get(f"{url}/deployments/name/nightly/all-cases", timeout=60).json()["id"]
                night = httpx.post(
                    f"{url}/deployments/{deployment}/create_flow_run",
                    json={"parameters": {"cases": cases}, "state": {"type": "SCHEDULED"}},
                    timeout=60,
                ).json()["id"]
                said, samples = watch(url, night, state)
                complete = report(url, night, said, out, samples, arguments.slices)
            finally:
                subprocess.run([*maxview, "down", "--state", str(state)], cwd=tree, env=environment, check=False)
    return 0 if complete else 1


@contextmanager
def _sqlite() -> Iterator[str]:
    yield ""  # Prefect's default


if __name__ == "__main__":
    sys.exit(main())
