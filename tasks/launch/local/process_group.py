"""Starts a plan's command on this machine as a supervised process group that outlives its flow.

A later flow can then attach to the run. `run_to_end` starts a command in the same way and waits for its end.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path
from threading import Event

from configs.environment import pass_on
from configs.installed import COMMIT_VARIABLE
from configs.names import default_cache
from configs.read import CONFIG_ROOT
from tasks.launch import supervise
from tasks.launch.backend import LaunchError
from tasks.launch.local import confine
from tasks.launch.local.handle import LocalHandle
from tasks.launch.local.program_copy import copy_program
from tasks.launch.logs import open_locked
from tasks.launch.processes import adopt, end_session, is_running
from tasks.records.plan import WORK, RunPlan
from tasks.resolve.trainers import trainer_class
from tasks.store.mirror import working_copies
from tasks.store.seals import state_folder

# device files of accelerators
DEVICES = (
    "/dev/nvidia[0-9]*",
    "/dev/accel*",
    "/dev/vfio/[0-9]*",
    "/dev/kfd",
    "/dev/dxg",
    "/dev/neuron*",
    "/dev/hl[0-9]*",
)
LOG_LIMIT_MB = 10_000  # a run with a larger log is ended
POLL_S = 0.2  # between checks whether the command has exited
# names in ~/.cache that trainers cannot write to: an installed package may be hard links to files in uv's cache
INSTALLERS = ("uv", "pip", "pypoetry", "pdm", "pre-commit", "bazel")


def build_environment(plan: RunPlan, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the trainer's environment: the caller's variables that the plan passes on, maxview's, and the plan's."""
    own, own_path = {"PYTHONUNBUFFERED": "1"}, dict[str, str]()
    if plan.checkout is not None:
        own["PYTHONDONTWRITEBYTECODE"] = "1"  # the next run would execute bytecode written into the checkout
    if plan.files.copy_at is not None:
        # before the packages of an environment, in which the clone itself may be installed in editable mode
        behind = plan.environment.get("PYTHONPATH", "").split(os.pathsep)
        copy = [place for place in (f"{plan.source}/src", f"{plan.source}") if Path(place).is_dir()]
        own_path = {"PYTHONPATH": os.pathsep.join(filter(None, [*behind, *copy]))}
    if commit := plan.commit or caller.get(COMMIT_VARIABLE):
        own[COMMIT_VARIABLE] = commit  # checkouts and images contain no .git
    return pass_on(caller, plan.passed_on) | own | plan.environment | own_path


def launch(
    plan: RunPlan,
    log: Path,
    *,
    extra_argv: tuple[str, ...] = (),
    keep: Callable[[LocalHandle], object] = lambda _: None,
    grace_s: float = supervise.GRACE_S,
    writable: Sequence[Path] = (),
) -> LocalHandle:
    """Start the plan's command under a supervisor in a new session, with its output in `log`; return its handle.

    Calls `keep` with the handle before the command starts, so that every started run can be found again.
    writable: folders that the command may write to, in addition to `writable_folders`.
    Raises LaunchError if the log cannot be opened or locked, if no process can be started, or if the supervisor exits.
    """
    try:
        copy_program(plan)
    except OSError as error:
        raise LaunchError(f"{plan.run_name}: its program cannot be copied: {error.strerror or error}") from error
    limits = (str(plan.time_limit_s), str(grace_s), str(LOG_LIMIT_MB))
    argv = [sys.executable, "-I", "-S", supervise.__file__, *limits]
    environment = build_environment(plan, os.environ)
    argv += confine_words(plan, environment, writable)
    descriptor = open_locked(log)
    try:
        process = subprocess.Popen(
            [*argv, *plan.argv, *extra_argv],
            cwd=start_folder(plan),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    except OSError as error:
        raise LaunchError(f"{plan.run_name}: no process can be started: {error.strerror}: {error.filename}") from error
    finally:
        os.close(descriptor)  # the supervisor and the command have inherited it with its lock
    assert process.stdin is not None  # a pipe
    try:
        with process.stdin as go:
            handle = LocalHandle(
                **dict(adopt(process)),
                backend="local",
                job_name=plan.run_name,
                host=socket.gethostname(),
                log=str(log),
            )
            keep(handle)
            go.write(b"\n")
    except BaseException as error:  # the pipe is closed, so the supervisor ends without starting the command
        process.wait()
        if isinstance(error, BrokenPipeError):
            raise LaunchError(
                f"{plan.run_name}: its supervisor exited before the command started; see {log}"
            ) from error
        raise
    return handle


def has_devices() -> bool:
    """Return whether this machine has an accelerator. Its driver may not work in a mount namespace."""
    return any(glob(pattern) for pattern in DEVICES)


def confine_words(plan: RunPlan, environment: Mapping[str, str], writable: Sequence[Path] = ()) -> list[str]:
    """Return the words before a command with which `confine.py` runs it; [] if the command may use an accelerator.

    Creates the folders that must exist for this.
    """
    if has_devices() and environment.get("JAX_PLATFORMS") != "cpu":
        return []
    for kept in (default_cache(), state_folder()):  # `confine.py` makes only existing folders read-only
        with suppress(OSError):
            kept.mkdir(parents=True, exist_ok=True)
    if compiled := plan.environment.get("MAXVIEW_PROGRAMS"):  # inside the store, which is read-only
        Path(compiled).mkdir(parents=True, exist_ok=True)
        writable = (*writable, Path(compiled))
    folders = [*writable_folders(plan, environment), *(f"+{folder}" for folder in writable)]
    return [sys.executable, "-I", "-S", confine.__file__, *folders, "--"]


def writable_folders(plan: RunPlan, environment: Mapping[str, str]) -> list[str]:
    """Return the folders for `confine.py`: writable folders with the prefix `+`, read-only folders with `-`.

    Writable: caches, temporary folders, a custom trainer's own folder, and the run's folder. Read-only: other runs,
    working copies of buckets, checkouts, environments, seals, maxview itself, and the caches of package installers.
    """
    home = Path(environment.get("HOME") or "/nonexistent")
    named = (environment.get("JAX_COMPILATION_CACHE_DIR"), environment.get("TMPDIR"))
    caches = (home / ".cache", home / "jax_cache", *(folder for folder in named if folder))
    program = CONFIG_ROOT.parent  # read-only also if it is inside a writable folder, such as /tmp
    checkouts = Path(plan.checkout).parent if plan.checkout else None
    installed = (home / ".cache" / name for name in INSTALLERS)
    kept = (default_cache(), working_copies(), Path(plan.directory).parent.parent, state_folder(), checkouts)
    closed = (*installed, *kept, sys.prefix, *_environments(plan.argv))
    return [
        *(f"+{folder}" for folder in ("/tmp", "/var/tmp", *caches)),
        f"-{program}",
        *((f"+{plan.start_folder}",) if plan.start_folder else ()),
        *(f"-{folder}" for folder in closed if folder),
        f"+{plan.directory}",
    ]


def _environments(argv: Sequence[str]) -> list[Path]:
    """Return the folders of the virtual environments whose `bin/python` is in a command."""
    folders = [Path(word).parent.parent for word in argv if word.startswith("/")]
    return [folder for folder in folders if (folder / "pyvenv.cfg").is_file()]


def start_folder(plan: RunPlan) -> str | Path:
    """Return the command's working folder, where Python imports from first."""
    if plan.files.copy_at is not None:
        return Path(plan.directory) / WORK / plan.files.copy_at
    return plan.checkout or plan.start_folder or trainer_class(plan.trainer).default_folder(plan)


def is_alive(handle: LocalHandle) -> bool:
    """Return whether the run's supervisor still runs here."""
    return is_here(handle) and is_running(handle)


def is_here(handle: LocalHandle) -> bool:
    """Return whether the run was started on this machine; True if its host is unknown."""
    return handle.host in ("", socket.gethostname())


def stop(handle: LocalHandle, *, grace_s: float = supervise.GRACE_S + 5.0) -> None:
    """End every process of the run; does nothing if all have ended, or if the run is on another machine.

    Sends SIGTERM to the supervisor, which ends the command and writes the log's last lines. Sends SIGKILL to the
    remaining processes, at the latest after `grace_s` seconds.
    """
    if is_here(handle):
        end_session(handle, patience_s=grace_s)


def run_to_end(plan: RunPlan, log: Path, *, interrupt: Event | None = None) -> None:
    """Run the plan's command until it exits; its output goes to `log`. Raises LaunchError if the command cannot start.

    The command may also write to the log's folder. At the end, also after an interrupt, all its processes are ended.
    interrupt: set by another thread, ends the command.
    """
    handle = launch(plan, log, writable=(log.parent.absolute(),))
    try:
        while is_alive(handle) and not (interrupt and interrupt.is_set()):
            time.sleep(POLL_S)
    finally:
        stop(handle)


def move_plan(plan: RunPlan, runs: Path) -> RunPlan:
    """Return the plan with `runs` in place of the store's folder of runs.

    Replaces it in the run's folder, arguments, environment and config.
    """
    old, new = str(Path(plan.directory).parent), str(runs)

    def moved(text: str) -> str:
        return text.replace(old, new)

    return plan.replace(
        directory=moved(plan.directory),
        argv=tuple(map(moved, plan.argv)),
        environment={name: moved(text) for name, text in plan.environment.items()},
        config={key: moved(value) if isinstance(value, str) else value for key, value in plan.config.items()},
    )
