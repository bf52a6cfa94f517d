"""Times a night of many cases on PostgreSQL and several workers; its runs replay logs, so that nothing is trained.

Each worker runs one flow `nightly` with its share of the cases. All flows write into one store. Prints the time, the
database's transactions and rows, what failed, and the sizes of the store's shared files.

python -m benchmarks.night_scale [--cases 200] [--repeats 3] [--workers 4]

Needs initdb and pg_ctl (Debian's `postgresql`), which must be on PATH.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import psutil

from benchmarks.machine import describe_machine
from tasks.publish.site.index import HISTORY, PAGE, parse_index
from tasks.services import up
from tasks.services.kept_programs import Kept, end_kept, start_kept
from tests.example.example_logs import example_pairs
from tests.soak.chaos.place import FINAL, Place, free_port, wait_until

ARMS = ("linen", "nnx")
PATIENCE_S = 3600.0
ERROR = re.compile(r"^([\w.]+(?:Error|Exception))\b", re.MULTILINE)
COMPARISON = """\
# A share of the night's cases.
trainer: maxview
target: replay
cases: [{cases}]
repeats: 1
tolerances: default
explain: "off"
set: {{}}
arms:
  - {{name: linen, set: {{pure_nnx: false}}}}
  - {{name: nnx, set: {{pure_nnx: true}}}}
"""


@contextmanager
def serve_postgres(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a PostgreSQL of its own on loopback; yield the address of its database and its port."""
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    folder.mkdir()
    shutil.chown(folder, user) if user else None
    data, port = folder / "data", free_port()

    def run(*words: object) -> None:
        subprocess.run([*map(str, words)], user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)

    run("initdb", "--pgdata", data, "--username", "prefect", "--auth", "trust")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c max_connections=200"
    run("pg_ctl", "--pgdata", data, "--log", folder / "log.txt", "--wait", "--options", options, "start")
    try:
        yield f"postgresql+asyncpg://prefect@127.0.0.1:{port}/postgres", port
    finally:
        run("pg_ctl", "--pgdata", data, "--mode", "fast", "--wait", "stop")


def ask_database(port: int, query: str) -> str:
    """Return the first value of a query's answer."""
    words = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "prefect", "-d", "postgres", "-Atc", query]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def prepare(place: Place, cases: int, repeats: int, workers: int) -> list[list[str]]:
    """Write the cases, a comparison and a night per worker, and a log per run; return each worker's cases."""
    configs, logs = place.tree / "configs", place.folder / "stored"
    pairs = list(example_pairs())
    shares: list[list[str]] = [[] for _ in range(workers)]
    for number in range(cases):
        case = f"{number:04d}_case"
        shares[number % workers].append(case)
        (configs / "cases" / f"{case}.yml").write_text(f"# Case {number}.\ndata_shuffle_seed: {number + 1}\n")
        pair = pairs[number % len(pairs)]
        (logs / case).mkdir(parents=True)
        for arm, texts in zip(ARMS, pair.logs, strict=True):
            for repeat in range(repeats):
                (logs / case / f"{arm}-r{repeat}.txt").write_text(texts[repeat % len(texts)])
    for number, share in enumerate(shares):
        name = f"night-{number}"
        (configs / "comparisons" / f"{name}.yml").write_text(COMPARISON.format(cases=", ".join(share)))
        night = {"target": "replay", "comparisons": [{"name": name, "repeats": repeats}], "slices": {"replay": workers}}
        (configs / f"{name}.yml").write_text(json.dumps(night))
    return shares


def start_workers(place: Place, count: int) -> list[Kept]:
    """Start further workers beside that of `maxview up`, which runs one flow at a time each, like theirs."""
    settings = up.environment_of(up.Place.model_validate_json((place.state / up.PLACE_FILE).read_text()), os.environ)
    settings |= place.environment
    words = [sys.executable, "-m", "prefect", "worker", "start", "--pool", up.POOL, "--limit", "1", "--name"]
    return [
        start_kept(f"worker-{number}", [*words, f"worker-{number}"], state=place.state, folder=place.tree,
                   environment=settings)
        for number in range(count)
    ]  # fmt: skip


def run_nights(place: Place, shares: list[list[str]]) -> list[tuple[str, float]]:
    """Run a night per share, all at once; return each one's final state and seconds."""
    deployment = place.ask("/deployments/name/nightly/all-cases")["id"]
    httpx.patch(f"{place.api}/deployments/{deployment}", json={"concurrency_limit": len(shares)}).raise_for_status()
    began, runs = time.monotonic(), []
    for number, share in enumerate(shares):
        night = {"config": str(place.tree / "configs" / f"night-{number}.yml"), "cases": share, "out": str(place.out)}
        wanted = {"parameters": night, "state": {"type": "SCHEDULED"}, "idempotency_key": uuid4().hex}
        runs.append(place.ask(f"/deployments/{deployment}/create_flow_run", json=wanted)["id"])
    ended: dict[str, tuple[str, float]] = {}

    def look() -> bool:
        for run in runs:
            state = place.state_of(run)
            if run not in ended and state["type"] in FINAL:
                message = (state["message"] or "")[:200]
                ended[run] = (f"{state['type']} {state['name']}: {message}", time.monotonic() - began)
        return len(ended) == len(runs)

    wait_until(look, PATIENCE_S, 2.0)
    return [ended.get(run, ("stuck", PATIENCE_S)) for run in runs]


def report(place: Place, port: int, nights: list[tuple[str, float]], before: Mapping[str, float]) -> None:
    """Print the figures of a night."""
    for number, (state, seconds) in enumerate(nights):
        print(f"night {number}: {seconds:.0f} s, {state}")
    records = [json.loads(path.read_text()) for path in place.out.glob("nightly/*/record.json")]
    results = [result for record in records for result in record["results"]]
    outcomes = Counter("died" if result["died"] else result["outcome"] for result in results)
    print(f"cells: {len(results)}, {dict(outcomes)}; runs: {len(list(place.out.glob('runs/*/record.json')))}")
    for result in [one for one in results if one["outcome"] == "failed"][:5]:
        print(f"  failed: {result['cell']['case']}: {result['headline'][:200]}")
    errors = Counter(ERROR.findall((place.state / "server.log").read_text(errors="replace")))
    print(f"errors in the server's log: {dict(errors) or 'none'}")
    query = "select xact_commit + xact_rollback from pg_stat_database where datname = 'postgres'"
    size = int(ask_database(port, "select pg_database_size('postgres')"))
    rows = {
        name: ask_database(port, f"select count(*) from {name}") for name in ("flow_run", "task_run", "log", "events")
    }
    print(f"database: {int(ask_database(port, query)):,} transactions, {size / 1e6:.0f} MB, rows {rows}")
    spent = {name: seconds - before[name] for name, seconds in cpu_seconds(place).items()}
    print(f"CPU: {', '.join(f'{name} {seconds:.0f} s' for name, seconds in spent.items())}")
    index = parse_index((place.out / PAGE).read_text())
    assert index is not None
    files = {name: (place.out / name).stat().st_size for name in (PAGE, HISTORY) if (place.out / name).exists()}
    segments = list((place.out / "index").glob("*.js"))
    print(f"index: {index.total} results, {len(index.nights)} nights, {len(segments)} segments of "
          f"{sum(file.stat().st_size for file in segments) / 1e3:.0f} kB")  # fmt: skip
    print(f"pages: {', '.join(f'{name} {size / 1e3:.0f} kB' for name, size in files.items())}")


def cpu_seconds(place: Place) -> dict[str, float]:
    """Return the CPU seconds of the server, and of the machine."""
    server = psutil.Process(place.kept("server").pid)
    family = [server, *server.children(recursive=True)]
    busy = psutil.cpu_times()
    return {"server": sum(sum(one.cpu_times()[:2]) for one in family), "machine": busy.user + busy.system + busy.nice}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="Keep everything there.")
    options = parser.parse_args()
    print(describe_machine(("prefect", "asyncpg", "sqlalchemy")))
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)  # for PostgreSQL's own user
    with serve_postgres(folder / "postgres") as (database, port):
        place = Place(folder)
        place.environment.update({up.DATABASE: database, "REPLAY_SPEED": "inf"})
        shares = prepare(place, options.cases, options.repeats, options.workers)
        workers: list[Kept] = []
        try:
            place.up()
            workers = start_workers(place, options.workers - 1)
            before = cpu_seconds(place)
            nights = run_nights(place, shares)
            report(place, port, nights, before)
        finally:
            for worker in workers:
                end_kept(worker, state=place.state, patience_s=10)
            place.down()
    if options.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
