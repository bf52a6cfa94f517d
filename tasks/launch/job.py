"""Turns a plan into a running job, or finds the one that an earlier flow left: started, attached to, or finished."""

import fcntl
import json
import os
from pathlib import Path

from tasks.launch import local
from tasks.records import RunHandle, RunPlan
from tasks.store import RunDirectory


class LaunchError(RuntimeError):
    """A run that cannot be started; the message says what to do."""


def launch_or_attach(plan: RunPlan, directory: RunDirectory, *, continue_from: Path | None = None) -> RunHandle:
    """Start the plan's job, unless an earlier flow's is still running or has ended without being recorded.

    `continue_from` is the folder of the other arm's run, whose checkpoint the trainer restores as a proof.
    Raises LaunchError, StoreError.
    """
    earlier = directory.read_handle()
    if earlier is not None and (local.is_alive(earlier) or ended_well(directory.log)):
        return earlier
    if is_locked(directory.log):
        raise LaunchError(
            f"{directory.log}: a process that this flow did not start is still writing it; "
            f"end it (fuser {directory.log} shows it) or choose another --out"
        )
    directory.create()
    set_aside(directory.log)
    directory.write_plan(plan)
    directory.write_config(config_text(plan))
    extra = ("--continue-from", str(continue_from)) if continue_from else ()
    handle = local.launch(plan, directory.log, extra_argv=extra)
    directory.write_handle(handle)
    return handle


def config_text(plan: RunPlan) -> str:
    """The resolved config as YAML, every value with its origin as a comment."""
    lines = [f"# {plan.run_name}: every value of the run, and where it was set"]
    lines += [f"{key}: {json.dumps(value)}  # {plan.origins.get(key, '')}" for key, value in plan.config.items()]
    return "\n".join(lines) + "\n"


def ended_well(log: Path) -> bool:
    """Whether the log's frame is closed with exit code 0."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 64))
            return file.read().endswith(b"\nEXIT_CODE=0\n")
    except FileNotFoundError:
        return False


def is_locked(log: Path) -> bool:
    """Whether a supervisor (or a trainer it left behind) holds the log."""
    try:
        with log.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def set_aside(log: Path) -> None:
    """Keep the log of an attempt that did not finish under the next free name: log.1.txt, log.2.txt, …"""
    if not log.exists():
        return
    number = 1
    while (aside := log.with_name(f"{log.stem}.{number}{log.suffix}")).exists():
        number += 1
    os.replace(log, aside)
