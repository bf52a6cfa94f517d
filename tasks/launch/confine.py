"""Becomes a command that can write in a few folders alone: `confine.py [+-]FOLDER… -- COMMAND…`.

A folder with `+` before it is opened for writing, one with `-` is closed again; those below come after those above.
The process that the supervisor started becomes the command: signals, exit code and process id stay. A namespace with
its own mounts makes every file system read-only but for these folders; devices, /proc and /sys stay as they are. Root
may make one and loses the right to change it; others get one inside a new user namespace. Where the system offers none
(a kernel older than 5.12, a container that forbids it) the command starts unconfined. Standard library only: it runs
with `python -I -S`.
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
CAP_SYS_ADMIN = 21
LEFT_ALONE = ("/dev", "/proc", "/sys")


class NotOfferedError(OSError):
    """The system refuses a namespace or a mount."""


def main(words: list[str]) -> None:
    """Confine this process and become the command; where that is not offered, become it all the same."""
    separator = words.index("--")
    folders, command = words[:separator], words[separator + 1 :]
    supervisor = os.getppid()
    # a namespace whose mounts cannot be finished must not be kept: a child tries it first
    if can_confine(folders):
        confine(folders)
        call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # other credentials have cleared it
        if os.getppid() != supervisor:
            os.kill(os.getpid(), signal.SIGKILL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(1, f"maxview: cannot start {command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def can_confine(folders: list[str]) -> bool:
    """Whether a process can be confined here."""
    child = os.fork()
    if child == 0:
        try:
            confine(folders)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def confine(folders: list[str]) -> None:
    """Make every mount read-only for this process and its children, but for `+` folders. Raises OSError."""
    here = os.getcwd()
    enter_namespace()
    call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    for folder in folders:  # a mount of its own each, whose attributes can be set
        path = os.path.realpath(folder[1:]).encode()
        if os.path.isdir(path):
            call("mount", path, path, None, MS_BIND | MS_REC, None)
    for path in mounts():
        set_read_only(path, read_only=True)
    for folder in folders:
        path = os.path.realpath(folder[1:]).encode()
        if os.path.isdir(path):
            set_read_only(path, read_only=folder[0] == "-")
    call("prctl", PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0)  # what comes after `exec` cannot undo it
    os.chdir(here)  # the folder that this process held is that of the mounts before


def enter_namespace() -> None:
    """Get mounts of one's own. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    try:
        call("unshare", CLONE_NEWNS)
        return
    except NotOfferedError:  # not root
        call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    call("prctl", PR_SET_SECUREBITS, NO_ROOT_LOCKED, 0, 0, 0)  # no rights in this namespace for user 0 either


def mounts() -> list[bytes]:
    """Where the file systems are mounted that a command could write to."""
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            path = line.split()[4].decode("unicode_escape").encode("latin-1")
            if not any(path == top.encode() or path.startswith(top.encode() + b"/") for top in LEFT_ALONE):
                found.append(path)
    return found


def set_read_only(path: bytes, *, read_only: bool) -> None:
    """Set the attribute of one mount. Raises NotOfferedError."""
    attributes = (MOUNT_ATTR_RDONLY, 0) if read_only else (0, MOUNT_ATTR_RDONLY)
    packed = struct.pack("=QQQQ", *attributes, 0, 0)
    call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, path, 0, packed, len(packed))


def call(name: str, *arguments: int | bytes | None) -> None:
    """A function of the C library. Raises NotOfferedError where it fails, or does not exist."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    longs = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    if function is None or function(*longs) == -1:
        raise NotOfferedError(ctypes.get_errno(), name)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(sys.argv[1:])
