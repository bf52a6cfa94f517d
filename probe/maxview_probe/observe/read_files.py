"""Notes the files and folders that this process reads, and what no file tells: other processes, the network.

A recording of the process may be used again only as long as they are as they were. Imports only the standard library,
because it starts before the trainer imports anything.
"""

import atexit
import hashlib
import json
import os
import site
import stat
import sys
from typing import Any

FILE = "read-{pid}.json"
VOLATILE = ("/proc/", "/sys/", "/dev/")
BYTECODE = f"{os.sep}__pycache__{os.sep}"  # is made of its source, which is noted
# audit events of reads that no note can follow → what the process does
UNSEEN = {
    "os.fork": "forks", "os.forkpty": "forks", "os.exec": "starts another program",
    "os.posix_spawn": "starts another program", "os.spawn": "starts another program", "os.system": "runs a shell",
    "subprocess.Popen": "starts another program", "sqlite3.connect": "reads a database",
}  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def stamp(path: str) -> list[int | str] | None:
    """Return inode, size and times of change of a file; a digest of the names in a folder; None if there is none."""
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            names = "\0".join(sorted(name for name in os.listdir(path) if name != "__pycache__"))
            return [hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()]
    except (OSError, ValueError):
        return None
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


class ReadFiles:
    """Watches this process. A file is noted as it was when it was first opened."""

    def __init__(self, folder: str):
        """folder: of the recording; what is below it belongs to it."""
        self.folder = os.path.abspath(folder)
        self.read: dict[str, list[int | str] | None] = {}
        self.written: set[str] = set()
        self.unseen: dict[str, None] = {}
        self.is_busy = False  # with its own reads, which do not count

    def begin(self) -> None:
        """Start to watch; note what Python has read before."""
        sys.addaudithook(self.audit)
        self.note_started()

    def note_started(self) -> None:
        """Note the files of Python's start: its own, modules, and the folders that it searches."""
        places = [*site.getsitepackages(), site.getusersitepackages()]
        for place in places:
            self.note(place)
            with_paths = os.listdir(place) if os.path.isdir(place) else []
            for name in with_paths:
                if name.endswith(".pth"):
                    self.note(os.path.join(place, name))
        for path in (
            sys.executable,
            os.path.join(sys.prefix, "pyvenv.cfg"),
            *(place or os.getcwd() for place in sys.path),
        ):
            self.note(path)
        self.note_modules()

    def note_modules(self) -> None:
        """Note the files of the loaded modules."""
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str):
                self.note(path)

    def note(self, path: str) -> None:
        """Note a path that is read, unless this process wrote it."""
        path = os.path.abspath(path)
        if path in self.read or path in self.written or path.startswith(VOLATILE) or BYTECODE in path:
            return
        if path != self.folder and not path.startswith(self.folder + os.sep):
            self.is_busy, before = True, self.is_busy
            self.read[path] = stamp(path)
            self.is_busy = before

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an event of Python."""
        if self.is_busy:
            return
        if event == "open":
            path, mode, flags = arguments
            path = os.fsdecode(path) if isinstance(path, bytes) else path
            if not isinstance(path, str):
                return
            if any(letter in (mode or "") for letter in "wax+") or (not mode and (flags or 0) & WRITES):
                self.written.add(os.path.abspath(path))
            else:
                self.note(path)
        elif event in ("os.listdir", "os.scandir"):
            path = arguments[0]
            self.note(os.fsdecode(path) if isinstance(path, (str, bytes)) else os.getcwd())
        elif event == "os.rename":
            places = [os.path.abspath(os.fsdecode(place)) for place in arguments[:2]]
            if places[0] in self.written:
                self.written.add(places[1])
        elif event in UNSEEN:
            self.unseen[UNSEEN[event]] = None
        elif event == "socket.connect" and isinstance(arguments[1], tuple):
            self.unseen["reads from the network"] = None

    def note_mapped(self) -> None:
        """Note the files that are open or mapped, such as libraries: they may have been opened without Python."""
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                words = line.split(maxsplit=5)
                if len(words) == 6 and words[5].startswith("/"):
                    self.note(words[5].rstrip("\n"))
        for number in os.listdir("/proc/self/fd"):
            try:
                path = os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                continue
            if os.path.isfile(path):
                self.note(path)

    def write(self) -> None:
        """Write the notes."""
        self.is_busy = True
        self.note_modules()
        try:
            self.note_mapped()
        except OSError:
            self.unseen["has no list of its open files"] = None
        path = os.path.join(self.folder, FILE.format(pid=os.getpid()))
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump({"read": self.read, "unseen": list(self.unseen)}, file)
        os.replace(f"{path}.tmp", path)


WATCHING: list[ReadFiles] = []  # at most one: of this process


def begin(settings: dict[str, Any], folder: str) -> None:
    """Watch this process, if the recorder's settings say that its step is recorded."""
    if settings.get("observe"):
        watch = ReadFiles(folder)
        watch.begin()
        WATCHING.append(watch)
        atexit.register(watch.write)


def write() -> None:
    """Write the notes now: before a process ends without its exit handlers."""
    for watch in WATCHING:
        watch.write()
