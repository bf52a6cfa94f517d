"""Seconds from a trainer's death to the record that names its cause, on this machine and on a cluster.

    python -m benchmarks.time_to_verdict [--runs 5]

The cluster is the stand-in of the tests on loopback, with xpk's own wrapper around the trainer, which looks every 5 s
whether it still runs. Everything after the death is counted: noticing it, the rest of the log, reading it whole. The
trainer notes the moment right before it dies.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import describe_machine
from configs.launch import Xpk
from configs.read import CONFIG_ROOT
from tasks.ingest.run_record import with_cause
from tasks.launch import job
from tasks.launch.watch import watch
from tasks.records import RunPlan
from tasks.scrape import scrape_run
from tasks.store import open_store

STANDINS = CONFIG_ROOT.parent / "tests" / "standins" / "kubernetes"
TARGETS_S = {"local": 5.0, "xpk": 15.0}
STEPS = (
    "import os, signal, sys, time\n"
    "for n in range(3): print(f'completed step: {n}, seconds: 0.5, TFLOP/s/device: 1.0, loss: 3.{n}', flush=True)\n"
    "time.sleep(3)\n"
)
NOTES = "open(sys.argv[1], 'w').write(str(time.time()))\n"
DEATHS = {
    "exception": (STEPS + NOTES + "raise ValueError('the mesh has no axis fsdp')", "ValueError"),
    "exit code": (STEPS + NOTES + "os._exit(37)", "ExitCode"),
    "kill -9": (STEPS + NOTES + "os.kill(os.getpid(), signal.SIGKILL)", "killed"),
}


def measure(backend: str, code: str, cause: str, folder: Path) -> float:
    """Seconds from one death to its record; AssertionError if that names another cause."""
    mark = folder / "died"
    store = open_store(folder / "out")
    place = {"cluster": "c", "project": "p", "zone": "us-east5-b", "tpu_type": "v6e-32", "image": "i:1", "grace_s": 5}
    python = sys.executable if backend == "local" else "python"
    directory = store.run(f"run-{time.time_ns()}")
    plan = RunPlan.model_validate({
        "comparison": "c", "case": "01_base", "arm": "linen", "repeat": 0, "trainer": "maxview", "target": backend,
        "backend": backend, "config": {"steps": 3}, "origins": {}, "commit": None, "dirty": False, "versions": {},
        "environment": {}, "argv": (python, "-c", code, str(mark)), "time_limit_s": 600,
        "run_name": directory.run_name, "directory": str(directory.path), "identity": directory.run_name,
        "xpk": Xpk.model_validate(place | {"context": "loopback", "shared_out": True}) if backend == "xpk" else None,
    })  # fmt: skip
    launched = job.launch_or_attach(plan, directory)
    for _ in watch(job.follow(launched), launched.handle.job_name):
        pass
    error = with_cause(scrape_run(directory.log), directory.log, supervised=True).error
    took = time.time() - float(mark.read_text())
    assert error is not None, directory.log.read_text()
    assert cause in (error.type, error.kind), error
    job.stop(launched.handle)
    return took


def start_cluster(folder: Path) -> "subprocess.Popen[bytes]":
    """The stand-in, and the environment in which the tools find it."""
    port_file, config = folder / "port", folder / "kubeconfig"
    argv = [sys.executable, str(STANDINS / "server.py"), str(port_file), str(folder)]
    process = subprocess.Popen([*argv, "--python", str(Path(sys.executable).parent)])
    while not port_file.exists():
        time.sleep(0.05)
    url = f"http://127.0.0.1:{port_file.read_text()}"
    httpx.get(f"{url}/version").raise_for_status()
    user: dict[str, Any] = {"name": "me", "user": {"token": "the-runners-token"}}  # of the stand-in's access.py
    context = {"name": "loopback", "context": {"cluster": "loopback", "user": "me", "namespace": "default"}}
    clusters = [{"name": "loopback", "cluster": {"server": url}}]
    config.write_text(json.dumps({"clusters": clusters, "users": [user], "contexts": [context]}))
    os.environ["KUBECONFIG"] = str(config)
    os.environ["PATH"] = f"{STANDINS / 'bin'}:{os.environ['PATH']}"
    os.environ["XPK_STANDIN_PAUSE"] = "5"  # as xpk 1.16 writes it
    return process


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as name:
        cluster = start_cluster(Path(name))
        try:
            print(
                f"{'backend':8} {'death':10} {'median':>8} {'worst':>8} {'target':>8}   seconds, {arguments.runs} runs"
            )
            for backend, target in TARGETS_S.items():
                for death, (code, cause) in DEATHS.items():
                    taken = [measure(backend, code, cause, Path(name)) for _ in range(arguments.runs)]
                    figures = (statistics.median(taken), max(taken), target)
                    print(f"{backend:8} {death:10} " + " ".join(f"{figure:8.2f}" for figure in figures), flush=True)
        finally:
            cluster.terminate()
            cluster.wait(30)


if __name__ == "__main__":
    main()
