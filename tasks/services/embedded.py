"""The process of an embedded server: Prefect's server on a loopback port, which ends when its standard input does.

The other end of that pipe is the command's alone, so the server ends with the command, whichever way that ends.
"""

import fcntl
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import IO

import uvicorn

LOCK = "maxview-start.lock"
LOOK_EVERY_S = 0.1


def main(port: int) -> None:
    """Serve until SIGTERM, or until nobody is left to serve."""
    threading.Thread(target=_end_with_input, daemon=True, name="whoever started this").start()
    # two that make one database at once spoil it for each other
    lock = _take_turn()
    threading.Thread(target=_end_turn, args=(lock, port), daemon=True, name="starting").start()
    uvicorn.run(
        "prefect.server.api.server:create_app",
        factory=True,
        host="127.0.0.1",
        port=port,
        log_level="error",
        lifespan="on",
    )


def _take_turn() -> IO[str] | None:
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / LOCK).open("w")
    except OSError:  # Prefect says what is wrong with its folder
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _end_turn(lock: IO[str] | None, port: int) -> None:
    """Let the next one start once this server listens, which it does when its database is made."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(LOOK_EVERY_S)
    if lock is not None:
        lock.close()


def _end_with_input() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
