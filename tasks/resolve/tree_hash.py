"""Computes git's tree hash of a folder without calling git, whose settings and index could be manipulated."""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

type Entry = tuple[bytes, bytes]  # git's file mode, hash
FOLDER, LINK, PROGRAM, FILE, SUBMODULE = b"40000", b"120000", b"100755", b"100644", b"160000"


def hash_object(kind: str, content: bytes, algorithm: str) -> bytes:
    """Return git's hash of an object. kind: "blob", "tree" or "commit"; algorithm: "sha1" or "sha256"."""
    return hashlib.new(algorithm, f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).digest()


def hash_folder(
    folder: Path, algorithm: str, *, submodules: Mapping[str, str] | None = None, ignored: str = ""
) -> bytes:
    """Return git's tree hash of a folder; equal to a commit's tree hash if no file is added, removed or changed.

    submodules: path → commit; their folders are empty. ignored: path of a file to leave out.
    """
    return _hash_folder(folder, "", algorithm, submodules or {}, ignored) or hash_object("tree", b"", algorithm)


def _hash_folder(
    folder: Path, inside: str, algorithm: str, submodules: Mapping[str, str], ignored: str
) -> bytes | None:
    entries: dict[bytes, Entry] = {}
    with os.scandir(folder) as found:
        for item in found:
            path = f"{inside}{item.name}"
            if path == ignored:
                continue
            if item.is_dir(follow_symlinks=False):
                below = _hash_folder(Path(item.path), f"{path}/", algorithm, submodules, ignored)
                if below is not None:
                    entries[os.fsencode(item.name)] = FOLDER, below
                elif path in submodules:
                    entries[os.fsencode(item.name)] = SUBMODULE, bytes.fromhex(submodules[path])
            else:
                entries[os.fsencode(item.name)] = _hash_file(item, algorithm)
    if not entries:
        return None  # git does not store empty folders
    # git sorts entries as if the names of folders ended with a slash
    order = sorted(entries, key=lambda name: name + b"/" if entries[name][0] == FOLDER else name)
    lines = (b"%s %s\0%s" % (entries[name][0], name, entries[name][1]) for name in order)
    return hash_object("tree", b"".join(lines), algorithm)


def _hash_file(item: "os.DirEntry[str]", algorithm: str) -> Entry:
    mode = item.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return LINK, hash_object("blob", os.fsencode(os.readlink(item.path)), algorithm)
    if not stat.S_ISREG(mode):
        return b"0", b""  # a pipe or a device: an entry that no commit contains
    return (PROGRAM if mode & stat.S_IXUSR else FILE), hash_object("blob", Path(item.path).read_bytes(), algorithm)
