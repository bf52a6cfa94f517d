"""Finds, uses and ends the embedded Prefect server, which keeps running for a time after a command.

Its files are in the folder `maxview` of PREFECT_HOME. Their name is a key computed from the Python, its packages and
Prefect's settings: commands with other values use another server.
"""

import fcntl
import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO

from tasks.launch.processes import Kept, end_kept, read_kept

IDLE_S = 600.0  # from the end of its last command to its own end
STOP_S = 10.0  # from SIGTERM to SIGKILL
FOLDER = "maxview"  # in Prefect's home


class Server(Kept):
    """An embedded server, which listens on a loopback port. `name` is its key."""

    port: int

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self.port}/api"


class Place:
    """The files of the embedded server with a key: its address (JSON), the lock of its users, its log."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        self.address, self.users, self.log = (folder / f"{key}.{ending}" for ending in ("json", "users", "log"))

    def find(self) -> Server | None:
        """Return the server; None if none runs, or if it does not listen yet."""
        return read_kept(self.key, self.folder, Server)

    def use(self) -> IO[str]:
        """Return a file with a shared lock, which keeps the server running until it is closed or this process ends."""
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
        """End the server if it runs; return False if a command uses it."""
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


def find_idle() -> list[Place]:
    """Return the files of all running embedded servers."""
    places = [Place(path.parent, path.stem) for path in sorted((find_home() / FOLDER).glob("*.json"))]
    return [place for place in places if place.find() is not None]


def is_embedded(url: str | None) -> bool:
    """Return whether the API at this address is of an embedded server, which only this user's commands use."""
    return any(server.url == url for place in find_idle() if (server := place.find()) is not None)


def end_idle(say: Callable[[str], None]) -> bool:
    """End every unused embedded server; return whether any ran."""
    places = find_idle()
    for place in places:
        if place.end():
            say("embedded server: ended")
        else:
            say(f"embedded server: in use by a command; ends {IDLE_S / 60:g} minutes after it")
    return bool(places)


def make_place() -> Place:
    """Return the files of the server for this process, in a temporary folder if Prefect's home cannot be written."""
    folder = find_home() / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # ignored here: the server reports the problem with its folder
        folder = Path(tempfile.mkdtemp(prefix="maxview-"))
    return Place(folder, server_key())


def server_key() -> str:
    """Return twelve hex digits: a hash of the Python, its packages, Prefect's variables and settings files."""
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
