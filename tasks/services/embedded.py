"""The process of an embedded server: Prefect's server on a loopback port, which ends after a time without users.

Several commands can use it at once. Each holds a shared file lock, which the operating system releases when the command
ends, even if it is killed.
"""

import fcntl
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import IO, NoReturn

import uvicorn

from tasks.launch.processes import start_of
from tasks.services.idle_server import STOP_S, Place, Server, find_home
from tasks.store import write_atomically

LOCK = "maxview-start.lock"  # in Prefect's home; locked while a server starts
LOOK_EVERY_S = 0.1
MOST_PAUSE_S = 1.0  # longest pause between two checks for users


def main(place: Place, port: int, idle_s: float) -> None:
    """Serve until SIGTERM, or until there was no user for `idle_s` seconds; port 0: any free port."""
    # One server starts at a time: two that create the same database would corrupt it.
    lock = _take_turn()
    if place.find() is not None:  # another command has started one meanwhile
        return
    listener = _listen_at(port)
    port = listener.getsockname()[1]
    threading.Thread(target=_end_turn, args=(lock, place, port), daemon=True, name="starting").start()
    threading.Thread(target=_end_unused, args=(place, idle_s), daemon=True, name="users").start()
    factory = "prefect.server.api.server:create_app"
    uvicorn.Server(uvicorn.Config(factory, factory=True, log_level="error", lifespan="on")).run(sockets=[listener])


def _listen_at(port: int) -> socket.socket:
    """Return a socket bound to the port (0: a free one), before the server starts, so that no other program gets it."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


def _take_turn() -> IO[str] | None:
    try:
        find_home().mkdir(parents=True, exist_ok=True)
        lock = (find_home() / LOCK).open("w")
    except OSError:  # ignored: Prefect reports the problem with its folder
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _end_turn(lock: IO[str] | None, place: Place, port: int) -> None:
    """Wait until this server listens, and so has its database; then store its address and release the start's lock."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(LOOK_EVERY_S)
    boot, created = start_of(os.getpid())
    me = Server(name=place.key, pid=os.getpid(), created=created, boot=boot, log=str(place.log), port=port)
    write_atomically(place.address, me.model_dump_json(indent=1) + "\n")
    if lock is not None:
        lock.close()


def _end_unused(place: Place, idle_s: float) -> None:
    used = time.time()
    while True:
        time.sleep(min(MOST_PAUSE_S, idle_s / 4))
        server = place.find()
        if server is not None and server.pid != os.getpid():  # Prefect's home was created anew, with another server
            _end()
        try:
            with place.unused() as unused:
                if not unused:
                    used = time.time()
                elif time.time() - max(used, place.users.stat().st_mtime) >= idle_s:
                    place.address.unlink(missing_ok=True)
                    _end()
        except FileNotFoundError:  # Prefect's home was removed: no command can find this server
            _end()


def _end() -> NoReturn:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_S)
    os._exit(1)


if __name__ == "__main__":
    main(Place(Path(sys.argv[1]), sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
