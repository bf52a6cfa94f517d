"""Runs a plan on this machine as a supervised process group that outlives the flow and can be attached to again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from configs.load import CONFIG_ROOT
from tasks.launch import supervise
from tasks.records import RunHandle, RunPlan

# Settings of the caller's shell that would change what a run computes; the plan sets what it needs itself.
DROPPED_PREFIXES = ("JAX_", "XLA_", "LIBTPU_", "TPU_", "PREFECT_", "PYTHON")
CLOCK_TOLERANCE_S = 2.0


def build_environment(plan: RunPlan, caller: Mapping[str, str]) -> dict[str, str]:
    """The environment of the trainer: the caller's, less what would steer JAX, plus what the plan spells out."""
    kept = {k: v for k, v in caller.items() if not k.startswith(DROPPED_PREFIXES)}
    return kept | {"PYTHONUNBUFFERED": "1"} | plan.environment


def launch(plan: RunPlan, log: Path, *, extra_argv: tuple[str, ...] = ()) -> RunHandle:
    """Start the plan's command in a process group of its own, its output going to `log` as it comes."""
    argv = [
        *(sys.executable, "-I", "-S", supervise.__file__, str(log), str(plan.time_limit_s)),
        *plan.argv,
        *extra_argv,
    ]
    process = subprocess.Popen(
        argv,
        cwd=CONFIG_ROOT.parent,
        env=build_environment(plan, os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _children[process.pid] = process
    return RunHandle(
        backend="local",
        job_name=plan.run_name,
        pid=process.pid,
        created=psutil.Process(process.pid).create_time(),
        log=str(log),
    )


# Children of this process must be reaped or they stay as zombies; a handle from an earlier process has none here.
_children: dict[int, "subprocess.Popen[bytes]"] = {}


def is_alive(handle: RunHandle) -> bool:
    """Whether the run's supervisor still runs. A reused pid does not count: its start time differs."""
    child = _children.get(handle.pid)
    if child is not None and child.poll() is not None:
        return False
    try:
        process = psutil.Process(handle.pid)
        same = abs(process.create_time() - handle.created) < CLOCK_TOLERANCE_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def stop(handle: RunHandle, *, grace_s: float = supervise.GRACE_S + 5.0) -> None:
    """End the run and every process of its group: SIGTERM, then SIGKILL. Does nothing if it has ended."""
    if not is_alive(handle):
        return
    os.kill(handle.pid, signal.SIGTERM)  # to the supervisor: it passes it on and still closes the log's frame
    deadline = time.monotonic() + grace_s
    while is_alive(handle) and time.monotonic() < deadline:
        time.sleep(0.05)
    if is_alive(handle):
        os.killpg(handle.pid, signal.SIGKILL)
