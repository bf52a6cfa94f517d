"""Runs a command that can write only to the folders with a `+`: `confine.py [+-]FOLDER… -- COMMAND…`.

`+FOLDER` is writable, `-FOLDER` read-only; name a parent folder before its subfolders. In a new mount namespace every
other file system is read-only; /dev, /proc and /sys stay as they are. Root creates the namespace and drops the
capabilities with which the command could leave the namespace; other users also need a user namespace. If the system
allows none (a kernel before 5.12, some containers), the command runs unconfined. exec replaces this process with the
command, so the command has this process's pid. Uses the standard library only: runs with `python -I -S`.
"""

import ctypes
import os
import signal
import struct
import sys
from contextlib import suppress

CLONE_NEWUSER, CLONE_NEWNS = 0x1000_0000, 0x0002_0000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
SYS_MOUNT_SETATTR = 442  # the same number on every architecture
AT_FDCWD, MOUNT_ATTR_RDONLY = -100, 1
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_SECUREBITS, NO_ROOT_LOCKED = 1, 24, 28, 0b11
# Capabilities with which root could write to files despite read-only mounts: by open_by_handle_at(2), kernel modules,
# raw memory, other processes' /proc/PID/root and memory, mount(2), new device nodes.
DROPPED = {"DAC_READ_SEARCH": 2, "SYS_MODULE": 16, "SYS_RAWIO": 17, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "MKNOD": 27}
LEFT_ALONE = ("/dev", "/proc", "/sys")  # their mounts stay as they are


class NotOfferedError(OSError):
    """The system does not allow a namespace, a mount or another of the calls here."""


def main(words: list[str]) -> None:
    """Confine this process and exec the command; exec it unconfined if the system offers no namespace."""
    separator = words.index("--")
    folders, command = words[:separator], words[separator + 1 :]
    supervisor = os.getppid()
    # A child process tries to confine itself first, because this process could not leave an incomplete namespace.
    if can_confine(folders):
        confine(folders)
        call_libc(
            "prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0
        )  # set again: the change of credentials has cleared it
        if os.getppid() != supervisor:
            os.kill(os.getpid(), signal.SIGKILL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(1, f"maxview: cannot start {command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def can_confine(folders: list[str]) -> bool:
    """Return whether `confine` succeeds, by a trial in a child process."""
    child = os.fork()
    if child == 0:
        try:
            confine(folders)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def confine(folders: list[str]) -> None:
    """Make all mounts but `+` folders and LEFT_ALONE read-only, for this process and its children. Raises OSError.

    Folders that do not exist are ignored.
    """
    here = os.getcwd()
    enter_namespace()
    call_libc("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    for folder in folders:  # binds each folder to itself, as a mount whose read-only attribute can be set
        path = os.path.realpath(folder[1:]).encode()
        if os.path.isdir(path):
            call_libc("mount", path, path, None, MS_BIND | MS_REC, None)
    for path in mounts():
        set_read_only(path, read_only=True)
    for folder in folders:
        path = os.path.realpath(folder[1:]).encode()
        if os.path.isdir(path):
            set_read_only(path, read_only=folder[0] == "-")
    for capability in DROPPED.values():  # the command, started by exec, cannot regain them
        call_libc("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.chdir(here)  # enters the folder through the new mounts


def enter_namespace() -> None:
    """Enter a new mount namespace. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    try:
        call_libc("unshare", CLONE_NEWNS)
        return
    except NotOfferedError:  # this process is not root: use a user namespace
        call_libc("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    call_libc("prctl", PR_SET_SECUREBITS, NO_ROOT_LOCKED, 0, 0, 0)  # gives no capabilities to user 0 in this namespace


def mounts() -> list[bytes]:
    """Return all mount points except those in LEFT_ALONE."""
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            path = line.split()[4].decode("unicode_escape").encode("latin-1")
            if not any(path == top.encode() or path.startswith(top.encode() + b"/") for top in LEFT_ALONE):
                found.append(path)
    return found


def set_read_only(path: bytes, *, read_only: bool) -> None:
    """Set or clear one mount's read-only attribute. Raises NotOfferedError."""
    attributes = (MOUNT_ATTR_RDONLY, 0) if read_only else (0, MOUNT_ATTR_RDONLY)
    packed = struct.pack("=QQQQ", *attributes, 0, 0)
    call_libc("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, path, 0, packed, len(packed))


def call_libc(name: str, *arguments: int | bytes | None) -> None:
    """Call the C library's function `name`. Raises NotOfferedError if it fails or does not exist."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    longs = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    if function is None or function(*longs) == -1:
        raise NotOfferedError(ctypes.get_errno(), name)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(sys.argv[1:])
