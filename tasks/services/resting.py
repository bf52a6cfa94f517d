"""Where an embedded Prefect server rests between two commands, who uses it, and how it is ended before its time.

What belongs to one is in a folder of `PREFECT_HOME`, by a key of what it depends on: another Python, other packages or
other settings of Prefect have a server of their own.
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

from tasks.services.processes import Kept, end_kept, is_running

REST_S = 600.0  # after its last command
STOP_S = 10.0
FOLDER = "maxview"


class Server(Kept):
    """A server that listens on a loopback port; its name is its key."""

    port: int

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self.port}/api"


class Place:
    """The files of the server with a key: where it listens, who uses it, what it says."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        self.address, self.users, self.log = (folder / f"{key}.{ending}" for ending in ("json", "users", "log"))

    def find(self) -> Server | None:
        """The server, if it runs and listens."""
        try:
            server = Server.model_validate_json(self.address.read_text())
        except (OSError, ValueError):
            return None
        return server if is_running(server) else None

    def use(self) -> IO[str]:
        """While this is open, or until this process ends, the server does not go: neither by itself nor by `end`."""
        users = self.users.open("a")
        fcntl.flock(users, fcntl.LOCK_SH)
        os.utime(users.fileno())
        return users

    @contextmanager
    def unused(self) -> Iterator[bool]:
        """Whether nobody uses the server; then nobody can while the block runs."""
        with self.users.open("a") as users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def end(self) -> bool:
        """End the server, which writes down what it still holds; False where a command uses it."""
        with self.unused() as unused:
            server = self.find() if unused else None
            if server is not None:
                end_kept(server, state=self.folder, patience_s=STOP_S)
        return unused


def find_home() -> Path:
    """Prefect's folder."""
    return Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()


def find_resting() -> list[Place]:
    """The servers that run."""
    places = [Place(path.parent, path.stem) for path in sorted((find_home() / FOLDER).glob("*.json"))]
    return [place for place in places if place.find() is not None]


def is_embedded(url: str | None) -> bool:
    """Whether the API at this address is that of an embedded server, which only this user's commands use."""
    return any(server.url == url for place in find_resting() if (server := place.find()) is not None)


def end_resting(say: Callable[[str], None]) -> bool:
    """End every server that runs and that no command uses; whether there were any."""
    places = find_resting()
    for place in places:
        if place.end():
            say("embedded server: ended")
        else:
            say(f"embedded server: a command uses it; it ends {REST_S / 60:g} minutes after that")
    return bool(places)


def make_place() -> Place:
    """The place of the server that suits this process; of none that can be found again where no folder can be made."""
    folder = find_home() / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # the server says what is wrong with its folder
        folder = Path(tempfile.mkdtemp(prefix="maxview-"))
    return Place(folder, server_key())


def server_key() -> str:
    """Twelve letters that differ with the Python, its packages, and Prefect's settings and the files of such."""
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith("PREFECT_"))
    packages = {
        Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")
    }  # they change with every installation
    files = [Path("prefect.toml"), Path(".env"), find_home() / "profiles.toml"]
    if "[tool.prefect" in _read(Path("pyproject.toml")):
        files.append(Path("pyproject.toml"))
    changed = [(str(path.absolute()), path.stat().st_mtime_ns) for path in [*files, *packages] if path.exists()]
    return sha256(repr((sys.executable, sys.version, settings, sorted(changed))).encode()).hexdigest()[:12]


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
