"""Runs commands of one trainer, one after the other: imports the trainer once, and forks a process for each command.

    python …/fork_runs.py RUNS.json

The settings are {"modules": […], "runs": [[fields of `start`, …], …]}. The commands of a run follow each other while
they succeed. Each command's log ends with `EXIT_CODE=n`. The modules are imported before the first fork, and must not
start a backend of JAX; without modules each command starts a program of its own.
"""

import importlib
import json
import os
import runpy
import signal
import sys
from typing import Any

from load_maxview_probe import load_maxview_probe

KILLED = 128  # added to a signal's number


def main(path: str) -> None:
    """Run all commands of a file. Returns only here: a forked process ends as its trainer ends."""
    sys.path[0] = ""  # as for `python -m`
    with open(path, encoding="utf-8") as file:
        given: dict[str, Any] = json.load(file)
    for name in given["modules"]:
        importlib.import_module(name)
    for run in given["runs"]:
        for command in run:
            child = os.fork()
            if not child:
                become_trainer(forked=bool(given["modules"]), **command)
                return
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with open(command["log"], "a", encoding="utf-8") as log:
                log.write(f"\nEXIT_CODE={code if code >= 0 else KILLED - code}\n")
            if code:
                break


def become_trainer(
    *,
    forked: bool,
    argv: list[str],
    environment: dict[str, str],
    log: str,
    folder: str,
    settings: str,
    time_limit_s: float,
) -> None:
    """Turn this process into the trainer's.

    argv: `python -m MODULE …` if the process is `forked`. folder: in which the trainer starts. settings: the recorder's
    file; empty: nothing is recorded.
    """
    signal.setitimer(signal.ITIMER_REAL, time_limit_s)  # its signal ends the process
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(environment)
    os.chdir(folder)
    if not forked:
        os.execvp(argv[0], argv)
    if settings:
        load_maxview_probe()
        importlib.import_module("maxview_probe.observe.begin").begin(settings)
    sys.argv = argv[2:]
    runpy.run_module(argv[2], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
