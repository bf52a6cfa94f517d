"""The spare process: loads what a command needs, and does each command that it is handed in a copy of itself.

Python's own part of it has one thread, so that a copy finds no lock that another thread held. It ends with the embedded
server that rests beside it, or when no command came for as long as that rests.
"""

import fcntl
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path

from flows.cli.hand_over import GO, LENGTH_BYTES, TAKEN, peer_of
from flows.cli.interrupts import INTERRUPTED, leave_at_interrupt, run, say_interrupted

LOADED = (
    "flows.cli.app", "flows.cli.commands.flow_runs", "flows.cli.first_command", "flows.cli.interrupted",
    "flows.cli.live_view", "flows.cli.offline", "flows.compare", "flows.ingest", "flows.nightly", "flows.preflight",
    "tasks.publish.terminal.floors_table", "tasks.publish.terminal.report", "tasks.services.server",
    "tasks.services.slices",
    # what Prefect and its client load when the first flow is run
    "anyio._backends._asyncio", "prefect.flow_engine", "prefect.task_engine",
)  # fmt: skip
PATIENCE_S = 10.0  # with whoever has begun to hand a command over


def main(path: Path, server: int, rest_s: float) -> None:
    """Take commands at a socket until the server with this process id ends."""
    with path.with_suffix(".spare").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another command has left one
            return
        line = wait_for_command(path, os.pidfd_open(server), rest_s)
    if line is not None:
        do(line)


def wait_for_command(path: Path, server: int, rest_s: float) -> socket.socket | None:
    """In each copy the line to whoever handed its command over; in the spare process None, when it is over."""
    listener = listen(path)
    load()
    copies: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(server, selectors.EVENT_READ)
        while True:
            ready = [key.fd for key, _ in selector.select(rest_s)]
            for copy in [fd for fd in ready if fd in copies]:
                selector.unregister(copy)
                report_end(copy, *copies.pop(copy))
            if server in ready or not (ready or copies):  # no further command; those that go on are seen to their end
                path.unlink(missing_ok=True)
                listener.close()
                for copy in copies:
                    report_end(copy, *copies[copy])
                return None
            if listener.fileno() in ready:
                line, _ = listener.accept()
                if peer_of(line) != os.getuid():
                    line.close()
                    continue
                child = os.fork()
                if child == 0:
                    listener.close()
                    return line
                copy = os.pidfd_open(child)
                copies[copy] = child, line
                selector.register(copy, selectors.EVENT_READ)


def listen(path: Path) -> socket.socket:
    """The socket, before anything is loaded: a client that comes meanwhile waits for less than it would load itself.

    Only this user may reach it: whoever does runs programs here.
    """
    path.parent.chmod(0o700)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)
    listener.listen()
    return listener


def load() -> None:
    """Import what the commands import."""
    from tasks.services import settings

    settings.prepare()
    # the other threads are those of libraries in C, which see to it themselves
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    for module in LOADED:
        importlib.import_module(module)
    if threading.active_count() > 1:
        raise RuntimeError(f"a library has started a thread: {threading.enumerate()}")


def report_end(copy: int, child: int, line: socket.socket) -> None:
    """Tell whoever handed the command over how it ended: its exit status, or minus the number of a signal."""
    _, status = os.waitpid(child, 0)
    os.close(copy)
    with line, suppress(OSError):
        line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def do(line: socket.socket) -> None:
    """Be the process that handed its command over: its terminal, its folder, its environment, its signals."""
    os.setsid()
    line.settimeout(PATIENCE_S)
    start, streams, _, _ = socket.recv_fds(line, LENGTH_BYTES, 3)
    with line.makefile("rb", buffering=0) as raw:
        packed = b""
        while len(packed) < int.from_bytes(start):
            packed += raw.read(int.from_bytes(start) - len(packed)) or sys.exit(1)
    request = json.loads(packed)
    line.settimeout(None)
    line.sendall(TAKEN)  # from here on whoever handed it over waits; one that is gone ends this with an error, unseen
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["maxview", *request["words"]]
    for text in (sys.stdin, sys.stdout):
        text.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    first = line.recv(1)  # nothing begins before whoever handed it over passes signals on
    if first != GO:
        if first:
            say_interrupted()
        os._exit(INTERRUPTED)
    threading.Thread(target=obey, args=(line,), daemon=True, name="whoever handed this over").start()
    from flows.cli.app import call

    leave_at_interrupt()
    run(call)


def obey(line: socket.socket) -> None:
    """Do to this process what is done to the other: the signals that it passes on, and its end."""
    while True:
        try:
            number = line.recv(1)
        except OSError:
            number = b""
        if not number:
            os._exit(128 + signal.SIGKILL)
        os.kill(os.getpid(), number[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
