"""The process of an embedded server: Prefect's server on a loopback port, which ends when its standard input does.

The other end of that pipe is the command's alone, so the server ends with the command, whichever way that ends.
"""

import fcntl
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

LOCK = "maxview-start.lock"


class Server(uvicorn.Server):
    """Starts while no other of the same folder does: two that make one database at once spoil it for each other."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Make the database, or bring it up to date, and listen."""
        with _alone():
            await super().startup(sockets)


def main(port: int) -> None:
    """Serve until SIGTERM, or until nobody is left to serve."""
    threading.Thread(target=_end_with_input, daemon=True, name="whoever started this").start()
    app = "prefect.server.api.server:create_app"
    Server(uvicorn.Config(app, factory=True, host="127.0.0.1", port=port, log_level="error", lifespan="on")).run()


@contextmanager
def _alone() -> Iterator[None]:
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / LOCK).open("w")
    except OSError:  # Prefect says what is wrong with its folder
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _end_with_input() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
