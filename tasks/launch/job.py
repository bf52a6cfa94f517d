"""Turns a plan into a running job, or finds the one that an earlier flow left: started, attached to, or finished."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.launch import local
from tasks.launch.local import LaunchError as LaunchError
from tasks.records import RunHandle, RunPlan
from tasks.store import RunDirectory

GOOD_END = b"\nEXIT_CODE=0\n"


def launch_or_attach(plan: RunPlan, directory: RunDirectory, *, continue_from: Path | None = None) -> RunHandle:
    """Start the plan's job, unless an earlier flow's is still running or has ended well without being recorded.

    `continue_from` is the folder of the other arm's run, whose checkpoint the trainer restores as a proof.
    Raises LaunchError, StoreError.
    """
    directory.create()
    with alone_in(directory.path):
        earlier = directory.read_handle()
        if earlier is not None:
            if local.is_alive(earlier) or ended_well(directory.log):
                return earlier
            local.stop(earlier)  # its supervisor was killed: whatever still runs of it would write into the new run
        os.close(local.open_locked(directory.log))  # raises if somebody else writes it
        set_aside(directory.log)
        directory.write_plan(plan)
        directory.write_config(config_text(plan))
        extra = ("--continue-from", str(continue_from)) if continue_from else ()
        return local.launch(plan, directory.log, extra_argv=extra, keep=directory.write_handle)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: of two flows that want the same run, one launches and the other finds it running."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def config_text(plan: RunPlan) -> str:
    """The resolved config as YAML, every value with its origin as a comment."""
    lines = [f"# {plan.run_name}: every value of the run, and where it was set"]
    lines += [f"{key}: {yaml_scalar(value)}  # {plan.origins.get(key, '')}" for key, value in plan.config.items()]
    return "\n".join(lines) + "\n"


def yaml_scalar(value: object) -> str:
    """A JSON value in ASCII. JSON's own escapes will not do: YAML does not join its surrogate pairs."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\x7f")
    return text.encode("ascii", "backslashreplace").decode()


def ended_well(log: Path) -> bool:
    """Whether the log's frame is closed with exit code 0."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - len(GOOD_END)))
            return file.read() == GOOD_END
    except FileNotFoundError:
        return False


def set_aside(log: Path) -> None:
    """Keep the log of an attempt that did not finish under the next free name: log.1.txt, log.2.txt, …"""
    if not log.exists():
        return
    if not log.stat().st_size:  # nothing was ever started
        log.unlink()
        return
    number = 1
    while (aside := log.with_name(f"{log.stem}.{number}{log.suffix}")).exists():
        number += 1
    os.replace(log, aside)
