"""Turns a folder of this machine into the working copy of a store in a bucket: what is finished goes up, whole.

Trainers append to logs and local backends follow them, which objects cannot do: a run lives in the working copy while
it goes, and in the bucket once its record is written. Who works on a run is in the bucket from the beginning.
"""

import json
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tasks.store.atomic import StoreError, write_bytes_atomically
from tasks.store.files import AlreadyThereError, Entry, Files
from tasks.store.names import safe_name

WRITER = "writer.json"
ORIGIN = ".store"  # in a working copy: the address of its bucket
LAST = ("commit_success.txt", "record.json", "comparison.json", "index.html")  # they say that the rest is there
LEFT_OUT = "checkpoints/"  # of what is fetched: they are read where they lie


@dataclass(frozen=True)
class Mirror:
    """A store's working copy in `folder` and its `files` in the bucket."""

    folder: Path
    files: Files

    def fetch(self, name: str) -> bool:
        """Bring one file into the working copy; whether the bucket has it."""
        try:
            data = self.files.read(name)
        except FileNotFoundError:
            return False
        write_bytes_atomically(self.folder / name, data)
        return True

    def fetch_folder(self, name: str) -> None:
        """Bring the files of a folder into the working copy that are not there, without checkpoints."""
        entries = [entry.name for entry in self.files.entries(name)]
        wanted = [n for n in entries if not n.removeprefix(f"{name}/").startswith(LEFT_OUT)]
        missing = [n for n in wanted if not (self.folder / n).exists() and not n.endswith(f"/{WRITER}")]
        for file, data in self.files.read_many(sorted(missing, key=_order)).items():
            write_bytes_atomically(self.folder / file, data)

    def push_folder(self, name: str) -> int:
        """Send what the bucket lacks; returns how many files. What says that the rest is there goes last."""
        there = {entry.name: entry for entry in self.files.entries(name)}
        sent = 0
        for path in sorted((self.folder / name).rglob("*"), key=lambda path: _order(path.as_posix())):
            if path.is_file() and not path.name.startswith("."):
                file = path.relative_to(self.folder).as_posix()
                if file not in there or _differs(path, there[file], self.files):
                    self.files.upload(file, path)
                    sent += 1
        return sent

    def claim(self, name: str) -> None:
        """Say in the bucket that a run is ours to write. Raises StoreError that names who else writes it."""
        place, ours = f"{name}/{WRITER}", self._signature()
        try:
            self.files.write(place, ours, create=True)
            return
        except AlreadyThereError:
            pass
        found = self.files.stat(place)
        if found is None:  # given back meanwhile
            self.claim(name)
            return
        other = json.loads(self.files.read(place))
        if (other["host"], other["folder"]) != (socket.gethostname(), str(self.folder)):
            raise StoreError(
                f"{self.files.url(name)}: is being written on {other['host']} since {other['since']} (process "
                f"{other['pid']}): wait for it, or train anew with --fresh; if that machine is gone, remove "
                f"{self.files.url(place)}"
            )
        # an earlier flow on this working copy: the lock of its folder keeps two of them apart
        self.files.write(place, ours, version=found.version)

    def check_claim(self, name: str) -> None:
        """Raise StoreError if somebody else has taken the run meanwhile."""
        try:
            other = json.loads(self.files.read(f"{name}/{WRITER}"))
        except FileNotFoundError:
            return
        if (other["host"], other["folder"]) != (socket.gethostname(), str(self.folder)):
            raise StoreError(f"{self.files.url(name)}: was taken over by {other['host']}: this run is not recorded")

    def give_back(self, name: str) -> None:
        """The run is recorded: nobody writes it any more."""
        self.files.delete(f"{name}/{WRITER}")

    def _signature(self) -> bytes:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        facts = {"host": socket.gethostname(), "pid": os.getpid(), "folder": str(self.folder), "since": since}
        return json.dumps(facts).encode()


def name_store(folder: Path) -> str:
    """What people call the store whose files or working copy are in `folder`."""
    origin = folder / ORIGIN
    return origin.read_text(encoding="utf-8").strip() if origin.is_file() else str(folder)


def working_copy(url: str) -> Path:
    """Where this machine keeps its copy of the store at `url`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "maxview" / safe_name(url.removeprefix("gs://").strip("/"))


def _order(name: str) -> tuple[int, str]:
    """Whatever marks something as complete is sent after what it speaks of."""
    last = name.rpartition("/")[2]
    return (LAST.index(last) + 1 if last in LAST else 0, name)


def _differs(path: Path, entry: Entry, files: Files) -> bool:
    if path.stat().st_size != entry.size:
        return True
    return path.suffix in (".json", ".html", ".txt", ".jsonl", ".yml") and files.read(entry.name) != path.read_bytes()
