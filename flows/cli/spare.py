"""The spare process: imports the modules that a command needs, and forks a copy of itself for each command.

It has one Python thread, so that no copy inherits a lock that another thread holds. It ends when the embedded server
ends, or after as long without a command as the server waits.
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
PATIENCE_S = 10.0  # for a client that has connected to send its command


def main(path: Path, server: int, rest_s: float) -> None:
    """Accept commands on a Unix socket until the process `server` ends, or `rest_s` seconds pass without a command."""
    with path.with_suffix(".spare").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another spare process is running
            return
        line = wait_for_command(path, os.pidfd_open(server), rest_s)
    if line is not None:
        do(line)


def wait_for_command(path: Path, server: int, rest_s: float) -> socket.socket | None:
    """Fork a copy for each client. Return the client's socket in the copy, and None at the end of the spare process."""
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
            if server in ready or not (ready or copies):  # accept no more commands, but wait for the running copies
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
    """Return the listening socket. It opens before the imports: a client that waits for them still saves time.

    Only this user has access, because a client can run any program.
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
    """Import the modules of the commands. Raises RuntimeError if one starts a Python thread."""
    from tasks.services import settings

    settings.prepare()
    # the warning is about threads of C libraries, which handle forks themselves
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    for module in LOADED:
        importlib.import_module(module)
    if threading.active_count() > 1:
        raise RuntimeError(f"a library has started a thread: {threading.enumerate()}")


def report_end(copy: int, child: int, line: socket.socket) -> None:
    """Send the client the exit status of its copy, or minus the number of the signal that ended it."""
    _, status = os.waitpid(child, 0)
    os.close(copy)
    with line, suppress(OSError):
        line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def do(line: socket.socket) -> None:
    """Run the client's command with its terminal, folder, environment and signals."""
    os.setsid()
    line.settimeout(PATIENCE_S)
    start, streams, _, _ = socket.recv_fds(line, LENGTH_BYTES, 3)
    with line.makefile("rb", buffering=0) as raw:
        packed = b""
        while len(packed) < int.from_bytes(start):
            packed += raw.read(int.from_bytes(start) - len(packed)) or sys.exit(1)
    request = json.loads(packed)
    line.settimeout(None)
    line.sendall(TAKEN)  # the client now waits; if it has gone, the error that ends this copy is not shown
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["maxview", *request["words"]]
    for text in (sys.stdin, sys.stdout):
        text.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    first = line.recv(1)  # wait until the client forwards signals
    if first != GO:
        if first:
            say_interrupted()
        os._exit(INTERRUPTED)
    threading.Thread(target=obey, args=(line,), daemon=True, name="whoever handed this over").start()
    from flows.cli.app import call

    leave_at_interrupt()
    run(call)


def obey(line: socket.socket) -> None:
    """Apply the client's signals to this process; exit if the client exits."""
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
