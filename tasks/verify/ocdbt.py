"""Reads the index of a checkpoint item: which arrays the item contains, and where their chunks are stored.

An item is an OCDBT database (a key-value store in a B-tree) or a folder of zarr files. Array data is not read.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import tensorstore as ts
from etils import epath

from tasks.records.checkpoint_proof import Problem
from tasks.verify.array_index import FileRange, Index, array_name
from tasks.verify.layout import MAX_BYTES, OCDBT_MANIFEST, DamagedFile, raise_if_unreachable, read_small

NODES = "cache_pool#nodes"
_LOCATION = re.compile(r"(btreenode|value):([^:]*):([^:]*):(\d+):(\d+)")


def kvstore_spec(folder: epath.Path) -> dict[str, Any] | str:
    """Return TensorStore's key-value store spec: a dict for a local folder, the URL for a bucket address."""
    text = str(folder)
    return text.rstrip("/") + "/" if "://" in text else {"driver": "file", "path": text.rstrip("/") + "/"}


def low_load_context() -> ts.Context:
    """Return a TensorStore context that keeps little in memory, because a trainer may be running.

    Only B-tree nodes are cached (NODES): otherwise, each opened array would decode the node that lists all arrays.
    """
    return ts.Context(
        {
            "cache_pool": {"total_bytes_limit": 0},
            NODES: {"total_bytes_limit": MAX_BYTES},
            "data_copy_concurrency": {"limit": 2},
            "gcs_request_retries": {"max_retries": 5, "max_delay": "10s"},  # by default: 15 minutes of retries
        }
    )


def read_index(folder: epath.Path, files: Mapping[str, int]) -> Index:
    """Return the index of the item in `folder`. files: path below the item → size in bytes.

    Damage becomes a problem in the index, with the check "ranges" and a path below the item. TensorStore checks the
    crc32c of the OCDBT manifest and of every B-tree node that is read.
    """
    if OCDBT_MANIFEST not in files and any(array_name(name) for name in files):
        return _index_plain_files(folder, files)
    return _DatabaseReader(folder, files).run()


def _index_plain_files(folder: epath.Path, files: Mapping[str, int]) -> Index:
    index = Index()
    for name in files:
        if array_name(name):
            try:
                index.add_metadata(name, read_small(folder / name), name)
            except DamagedFile as damage:
                index.whole = False
                index.problems.append(Problem(check="ranges", path=name, message=str(damage)))
    for spec in list(index.arrays.values()):
        if spec.chunk_count() > len(files):  # listing all missing chunks could take hours
            del index.arrays[spec.name]
            index.whole = False
            message = f"has {spec.chunk_count():,} chunks by its metadata, but only {len(files):,} files are there"
            index.problems.append(Problem(check="ranges", path=spec.name, message=message))
            continue
        for key in spec.chunk_keys():
            index.chunks[key] = FileRange(key, 0, 1)  # at least one byte; `check_ranges` checks the real length
    return index


class _DatabaseReader:
    """Reads the index of an OCDBT database, from its manifest down to the chunks."""

    def __init__(self, folder: epath.Path, files: Mapping[str, int]) -> None:
        self.folder, self.files = folder, files
        self.index = Index()
        self.seen: dict[str, FileRange] = {}

    def run(self) -> Index:
        size = self.files.get(OCDBT_MANIFEST)
        if not size:  # TensorStore would open an empty manifest as a new database
            state = "missing" if size is None else "empty"
            self._fail(OCDBT_MANIFEST, f"is {state}: nothing in the checkpoint can be found without it")
            return self.index
        if size > MAX_BYTES:  # TensorStore would read the whole file into memory
            self._fail(OCDBT_MANIFEST, f"is damaged: {size:,} bytes are no manifest")
            return self.index
        try:
            self.store = ts.KvStore.open(kvstore_spec(self.folder), context=low_load_context()).result()
            manifest = ts.ocdbt.dump(self.store).result()
            root = manifest["versions"][-1]["root"]
        except (ValueError, OSError, KeyError, IndexError, TypeError) as error:
            raise_if_unreachable(self.folder)
            self._fail(OCDBT_MANIFEST, f"is damaged: {shorten_message(error)}")
            return self.index
        if "location" in root:
            self._read_node(root["location"], b"")
        return self.index

    def _read_node(self, location: str, prefix: bytes) -> None:
        if place := self.seen.get(location):
            self._fail(place.file, f"refers to itself at byte {place.offset}: the database is damaged")
            return
        place = self._locate(location, OCDBT_MANIFEST)
        if place is None:
            return
        self.seen[location] = place
        node = self._read(location, place, "B-tree node")
        if node is None:
            return
        prefix += node.get("excluded_prefix", b"")
        for entry in node["entries"]:
            key = prefix + entry["key"]
            if "location" in entry:
                self._read_node(entry["location"], prefix + entry.get("subtree_common_prefix", b""))
            else:
                self._take_value(key.decode("utf-8", "replace"), entry, place.file)

    def _take_value(self, key: str, entry: Mapping[str, Any], node_file: str) -> None:
        place = None
        if "indirect_value" in entry and (place := self._locate(entry["indirect_value"], node_file)) is None:
            return
        if array_name(key) is None:
            self.index.chunks[key] = place
        elif place is None:
            self.index.add_metadata(key, entry["inline_value"], node_file)
        elif (text := self._read(entry["indirect_value"], place, "value")) is not None:
            self.index.add_metadata(key, text, place.file)

    def _locate(self, location: str, node_file: str) -> FileRange | None:
        match = _LOCATION.fullmatch(location)
        if match is None:
            self._fail(node_file, f"refers to something unknown: {location[:120]!r}")
            return None
        return FileRange(unquote(match[2]) + unquote(match[3]), int(match[4]), int(match[5]))

    def _read(self, location: str, place: FileRange, kind: str) -> Any:
        """Return a B-tree node or an array's metadata; None if unreadable. kind: noun for the message."""
        self.index.nodes.append(place)
        if self.files.get(place.file, -1) < place.offset + place.length:
            self.index.whole = False  # `check_ranges` reports each missing or short file once
            return None
        try:
            return ts.ocdbt.dump(self.store, location).result()
        except (ValueError, OSError) as error:
            raise_if_unreachable(self.folder)
            self._fail(
                place.file, f"is damaged: the {kind} at byte {place.offset} cannot be read: {shorten_message(error)}"
            )
            return None

    def _fail(self, path: str, message: str) -> None:
        self.index.whole = False
        self.index.problems.append(Problem(check="ranges", path=path, message=message))


def shorten_message(error: BaseException) -> str:
    """Return TensorStore's message on one line, without source locations and specs, cut to 200 characters."""
    text = re.sub(r"\s*\[(?:source locations|tensorstore_spec|.*_version)=.*", "", str(error), flags=re.DOTALL)
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:199] + "…"
