"""Loads the command line once and forks a command for each input line, because loading takes longest.

A line is JSON: the command's arguments, log and variables. The answer is the process's pid; its exit status is written
beside its log. `python -m tests.soak.chaos.nursery` runs in the folder and the environment of a place.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

ENDED = ".ended"  # suffix of the file with the exit status


def main() -> None:
    """Fork commands until standard input ends."""
    from tasks.services.prefect_settings import set_defaults

    set_defaults()
    import flows.cli.app
    import flows.cli.live_view
    import flows.compare
    import flows.ingest  # noqa: F401
    import tasks.services.server  # noqa: F401
    from flows.cli import start

    logs: dict[int, Path] = {}

    def collect(*_: object) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                log = logs.pop(ended[0])
                log.with_name(log.name + ENDED).write_text(str(os.waitstatus_to_exitcode(ended[1])))

    signal.signal(signal.SIGCHLD, collect)
    print("ready", flush=True)
    while line := sys.stdin.readline():
        wanted = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # the child may end before it is in the table
        if not (child := os.fork()):
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            os.setsid()
            log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
                os.dup2(descriptor, number)
            os.environ.update(wanted["environment"])
            sys.argv[1:] = wanted["words"]
            start.main()
        logs[child] = Path(wanted["log"])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        print(child, flush=True)


if __name__ == "__main__":
    main()
