"""The embedded Prefect server: its process, and the files for finding, using and ending it.

The server listens on a loopback port. Its users are commands; the server ends ten minutes after the last command. Each
command holds a shared file lock, which the operating system releases when the command ends, even if it is killed. The
server's files are in the folder `maxview` of PREFECT_HOME, or in a temporary folder if that folder cannot be created.
The files' name is a key, computed from the Python, its packages and Prefect's settings: commands with another key use
another server.
"""

import fcntl
import os
import signal
import socket
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, NoReturn

from tasks.launch.processes import start_of
from tasks.services.kept_programs import Kept, end_kept, read_kept
from tasks.store.atomic import write_atomically

IDLE_S = 600.0  # seconds from the end of the last command to the end of the server
STOP_S = 10.0  # seconds from SIGTERM to SIGKILL or, if the server ends itself, to os._exit
FOLDER = "maxview"  # in Prefect's home
LOCK = "maxview-start.lock"  # in Prefect's home; locked while a server starts
LOOK_EVERY_S = 0.1  # between checks whether the starting server listens
MAX_PAUSE_S = 1.0  # longest pause between two checks for users


class Server(Kept):
    """An embedded server, which listens on a loopback port. `name` is the key in the names of its files."""

    port: int

    @property
    def url(self) -> str:
        """The address of the server's API."""
        return f"http://127.0.0.1:{self.port}/api"


class ServerFiles:
    """The files of the embedded server with a key: its pid and port (JSON), the lock of its users, its log."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        self.address, self.users, self.log = (folder / f"{key}.{ending}" for ending in ("json", "users", "log"))

    def find(self) -> Server | None:
        """Return the running server; None if there is none, or if it does not listen yet."""
        return read_kept(self.key, self.folder, Server)

    def use(self) -> IO[str]:
        """Return a file with a shared lock, which prevents the server from being ended as unused.

        The lock lasts until the file is closed or this process ends.
        """
        users = self.users.open("a")
        fcntl.flock(users, fcntl.LOCK_SH)
        os.utime(users.fileno())
        return users

    @contextmanager
    def unused(self) -> Iterator[bool]:
        """Yield whether the server has no users. If so, no command can start to use it while the block runs."""
        with self.users.open("a") as users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def end(self) -> bool:
        """End the server if it runs and has no users; return whether it has no users."""
        with self.unused() as unused:
            server = self.find() if unused else None
            if server is not None:
                end_kept(server, state=self.folder, patience_s=STOP_S)
        return unused


def find_home() -> Path:
    """Return Prefect's home folder: $PREFECT_HOME, or ~/.prefect."""
    return Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()


def explain_home() -> str | None:
    """Return a message with a remedy if Prefect's home folder cannot be written; else None."""
    home = find_home().absolute()
    near = next(folder for folder in (home, *home.parents) if folder.exists())
    if near.is_dir() and os.access(near, os.W_OK | os.X_OK):
        return None
    return f"{home}, Prefect's home, cannot be written: set PREFECT_HOME to a folder that can"


def find_embedded() -> list[ServerFiles]:
    """Return the files of all running embedded servers that have files in Prefect's home."""
    found = [ServerFiles(path.parent, path.stem) for path in sorted((find_home() / FOLDER).glob("*.json"))]
    return [files for files in found if files.find() is not None]


def is_embedded(url: str | None) -> bool:
    """Return whether a running embedded server has this address."""
    return any(server.url == url for files in find_embedded() if (server := files.find()) is not None)


def end_idle(say: Callable[[str], None]) -> bool:
    """End every unused embedded server; return whether any embedded server ran, used or unused."""
    found = find_embedded()
    for files in found:
        if files.end():
            say("embedded server: ended")
        else:
            say(f"embedded server: in use by a command; ends {IDLE_S / 60:g} minutes after it")
    return bool(found)


def make_files() -> ServerFiles:
    """Return the files of this process's server; in a temporary folder if their folder cannot be created."""
    folder = find_home() / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # ignored here: the server reports the problem with its folder
        folder = Path(tempfile.mkdtemp(prefix="maxview-"))
    return ServerFiles(folder, server_key())


def server_key() -> str:
    """Return twelve hex digits: a hash of the Python, its packages, and Prefect's variables and settings files.

    Packages and files are represented by their modification times.
    """
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith("PREFECT_"))
    packages = {
        Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")
    }  # folders whose modification time changes with every installation
    files = [Path("prefect.toml"), Path(".env"), find_home() / "profiles.toml"]
    project = Path("pyproject.toml")
    if project.is_file() and "[tool.prefect" in project.read_text(errors="replace"):
        files.append(project)
    changed = [(str(path.absolute()), path.stat().st_mtime_ns) for path in [*files, *packages] if path.exists()]
    return sha256(repr((sys.executable, sys.version, settings, sorted(changed))).encode()).hexdigest()[:12]


def main(files: ServerFiles, port: int, idle_s: float) -> None:
    """Serve until SIGTERM, until there was no user for `idle_s` seconds, or until no command can find the server.

    Returns at once if the server of this key runs already. port 0: any free port.
    """
    import uvicorn  # slow, and commands do not need it

    # One server starts at a time: two servers that create the same database would corrupt it.
    lock = _take_turn()
    if files.find() is not None:  # another command has started a server meanwhile
        return
    listener = _listen_at(port)
    port = listener.getsockname()[1]
    threading.Thread(target=_end_turn, args=(lock, files, port), daemon=True, name="starting").start()
    threading.Thread(target=_end_unused, args=(files, idle_s), daemon=True, name="users").start()
    factory = "prefect.server.api.server:create_app"
    uvicorn.Server(uvicorn.Config(factory, factory=True, log_level="error", lifespan="on")).run(sockets=[listener])


def _listen_at(port: int) -> socket.socket:
    """Return a socket bound to the port (0: a free one); no other program can get the port before the server starts."""
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


def _end_turn(lock: IO[str] | None, files: ServerFiles, port: int) -> None:
    """Wait until this server listens (it then has its database), store its address, and unlock LOCK."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(LOOK_EVERY_S)
    boot, created = start_of(os.getpid())
    me = Server(name=files.key, pid=os.getpid(), created=created, boot=boot, log=str(files.log), port=port)
    write_atomically(files.address, me.model_dump_json(indent=1) + "\n")
    if lock is not None:
        lock.close()


def _end_unused(files: ServerFiles, idle_s: float) -> None:
    used = time.time()
    while True:
        time.sleep(min(MAX_PAUSE_S, idle_s / 4))
        server = files.find()
        if server is not None and server.pid != os.getpid():  # Prefect's home was created anew, with another server
            _end()
        try:
            with files.unused() as unused:
                if not unused:
                    used = time.time()
                elif time.time() - max(used, files.users.stat().st_mtime) >= idle_s:
                    files.address.unlink(missing_ok=True)
                    _end()
        except FileNotFoundError:  # Prefect's home was removed: no command can find this server
            _end()


def _end() -> NoReturn:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_S)
    os._exit(1)


if __name__ == "__main__":
    main(ServerFiles(Path(sys.argv[1]), sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
