"""Hands a command to a spare process, which has loaded already what the command would have to load first.

Only what Python has in no time is imported here. The spare process (`spare.py`) makes a copy of itself, which does what
this process would have done, on its terminal, in its folder, with its environment; what is done to this process, it
does to that one.
"""

import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

COMMANDS = ("compare", "ingest", "nightly", "preflight")  # those that run a flow
FOLDER = "maxview"  # of Prefect's
PACKAGES = ("configs", "tasks", "flows")
# what a terminal sets, and nothing reads while it is loaded
CHANGES = ("_", "COLORTERM", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM", "WINDOWID")
MOST_SPARE = 3  # at a time: each has about 200 MB, and every other environment wants one of its own
PATIENCE_S = 60.0  # in which a spare process that is being loaded takes a command
LENGTH_BYTES, TAKEN, GO = 8, b"t", b"\0"  # signals have other numbers
GONE = "maxview: the process that did this is gone; the same command goes on from here\n"


_missing: Path | None = None  # where a spare process was looked for in vain


def hand_over(words: Sequence[str]) -> int | None:
    """The exit status of a command that a spare process took; None if it has to be done here."""
    global _missing
    if not words or words[0] not in COMMANDS or os.environ.get("PREFECT_API_URL"):
        return None
    path = socket_path()
    line = connect(path, PATIENCE_S)
    if line is None:
        _missing = path
        return None
    return follow(line)


def follow(line: socket.socket) -> int:
    """Let the command begin that a spare process took; its exit status, or this process ends as that one did."""
    with line:
        _pass_signals_on(line)
        with suppress(OSError):  # it has just ended
            line.sendall(GO)
        answer = line.makefile("r").readline()
    return _end_alike(int(answer)) if answer else _say_gone()


def missing_spare() -> Path | None:
    """Where a spare process may be put for this command and those after it; None if none may."""
    may = _missing is not None and hasattr(os, "pidfd_open") and _count_spare(_missing.parent) < MOST_SPARE
    return _missing if may else None


def _count_spare(folder: Path) -> int:
    """How many wait: each holds a lock."""
    import fcntl

    waiting = 0
    for path in folder.glob("*.spare"):
        with path.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting += 1
    return waiting


def connect(path: Path, patience_s: float) -> socket.socket | None:
    """The line to a spare process that has taken the command of this one; None if there is none."""
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(patience_s)
    if not is_private(path.parent):  # another user may have put a socket there, to be given this environment
        line.close()
        return None
    request = {"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}
    packed = json.dumps(request).encode()
    try:
        line.connect(str(path))
        if peer_of(line)[1] != os.getuid():
            raise PermissionError(f"{path}: another user listens there")
        socket.send_fds(line, [len(packed).to_bytes(LENGTH_BYTES)], [0, 1, 2])
        line.sendall(packed)
        taken = line.recv(1) == TAKEN
    except OSError:  # there is none, it has just ended, or a stream is closed
        taken = False
    if not taken:
        line.close()
        return None
    line.settimeout(None)
    return line


def is_private(folder: Path) -> bool:
    """Whether a folder is this user's, and nobody else may look into it or write there."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def peer_of(line: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end of a Unix socket, as the kernel says; -1 where it does not."""
    if not hasattr(socket, "SO_PEERCRED"):
        return -1, -1
    packed = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    process, user, _group = struct.unpack("3i", packed)
    return process, user


def _pass_signals_on(line: socket.socket) -> None:
    import signal

    def pass_on(number: int, _frame: object) -> None:
        with suppress(OSError):  # it has just ended
            line.send(bytes([number]))

    signal.set_wakeup_fd(-1)  # who counts them is there
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)


def _end_alike(status: int) -> int:
    """The exit status; where it is that of a signal (negative), this process ends by it too."""
    if status < 0:
        import signal

        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _say_gone() -> int:
    os.write(2, GONE.encode())
    return 2


def socket_path() -> Path:
    """Where a process waits that is as this one was when it began."""
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    return home / FOLDER / f"{spare_key()}.sock"


def spare_key() -> str:
    """Twelve letters that differ with all that a process inherits and what it would load."""
    import resource
    import sysconfig

    environment = sorted((name, value) for name, value in os.environ.items() if name not in CHANGES)
    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    rights = (os.getuid(), os.getgid(), sorted(os.getgroups()), os.umask(0o77))
    os.umask(rights[-1])
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    group = _read(Path("/proc/self/cgroup"))
    packages = [
        os.stat(path).st_mtime_ns for path in sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    ]
    inherited = (environment, limits, rights, os.nice(0), cores, group, sys.executable, sys.flags, packages)
    return sha256(repr((inherited, prefect_files(), _sources())).encode()).hexdigest()[:12]


def prefect_files() -> list[str]:
    """What Prefect reads its settings from, in the working directory and in its own."""
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    return [
        _read(path) for path in (Path("pyproject.toml"), Path("prefect.toml"), Path(".env"), home / "profiles.toml")
    ]


def _sources() -> list[tuple[str, int, int]]:
    root = Path(__file__).parent.parent.parent
    files = (file for package in PACKAGES for file in sorted((root / package).rglob("*.py")))
    return [(str(file), (stat := file.stat()).st_mtime_ns, stat.st_size) for file in files]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="surrogateescape")
    except OSError:
        return ""
