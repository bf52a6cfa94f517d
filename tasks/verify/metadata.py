"""Finds contradictions between the files that describe the arrays of a checkpoint item, and the stored data.

Orbax writes three descriptions: `_METADATA` lists all leaves of the tree; `array_metadatas/process_*` contains the
chunk and write shapes of every jax.Array; `_sharding` contains the layout of every jax.Array over devices. A restore
takes the leaves from `_METADATA` alone, and silently omits a leaf that is missing there.
"""

import base64
from collections.abc import Mapping
from typing import Any

from etils import epath

from tasks.records.checkpoint_proof import Problem
from tasks.verify.array_index import Index, name_some
from tasks.verify.layout import TREE_METADATA, DamagedFile, read_metadata


class MetadataCheck:
    """The check of one item. Paths of problems are relative to the item's folder."""

    def __init__(self, folder: epath.Path, files: Mapping[str, int], index: Index) -> None:
        self.folder, self.files, self.index = folder, files, index
        self.problems: list[Problem] = []
        self.leaves: dict[str, Mapping[str, Any]] = {}

    def run(self) -> list[Problem]:
        """Return the problems: contradictions, and missing or damaged files."""
        tree = self._read(TREE_METADATA)
        if tree is not None:
            try:
                self.leaves = _leaves(tree)
            except (KeyError, TypeError, AttributeError) as error:
                self._report(TREE_METADATA, f"is damaged: {type(error).__name__}: {error}")
                tree = None
        described = self._read_array_metadatas()
        if tree is not None:
            self._compare_with_data(bool(tree.get("store_array_data_equal_to_fill_value")))
            self._compare_array_metadatas(described)
            self._check_sharding()
            if any(leaf["value_type"] == "string" for leaf in self.leaves.values()):
                self._read("_strings.json")
        return self.problems

    def _compare_with_data(self, chunks_all_stored: bool) -> None:
        index = self.index
        named = {name for name, leaf in self.leaves.items() if leaf["value_type"] != "string"}
        if index.whole and named - set(index.arrays):
            self._report(TREE_METADATA, f"names {name_some(named - set(index.arrays))}, which the data does not hold")
        if set(index.arrays) - named:
            message = f"does not name {name_some(set(index.arrays) - named)}: a restore silently omits that"
            self._report(TREE_METADATA, message)
        expected = {key for spec in index.arrays.values() for key in spec.chunk_keys()}
        if index.whole and chunks_all_stored and expected - set(index.chunks):
            self._report("manifest.ocdbt", f"does not list the chunks {name_some(expected - set(index.chunks))}")
        if index.whole and set(index.chunks) - expected:
            self._report("manifest.ocdbt", f"lists {name_some(set(index.chunks) - expected)}, which belong to no array")

    def _read_array_metadatas(self) -> dict[str, tuple[str, dict[str, list[int]]]]:
        """Return array name → (file, {"write_shape", "chunk_shape"}), from the files of all processes."""
        described: dict[str, tuple[str, dict[str, list[int]]]] = {}
        for path in sorted(name for name in self.files if name.startswith("array_metadatas/")):
            content = self._read(path)
            try:
                for entry in [] if content is None else content["array_metadatas"]:
                    metadata = entry["array_metadata"]
                    if not isinstance(metadata["param_name"], str):
                        raise TypeError(f"the array name {metadata['param_name']!r} is no text")
                    described[metadata["param_name"]] = (
                        path,
                        {key: list(map(int, metadata[key])) for key in ("write_shape", "chunk_shape")},
                    )
            except (KeyError, TypeError, ValueError, OverflowError) as error:  # OverflowError: int(inf)
                self._report(path, f"is damaged: {type(error).__name__}: {error}")
        return described

    def _compare_array_metadatas(self, described: Mapping[str, tuple[str, dict[str, list[int]]]]) -> None:
        files = sorted({path for path, _ in described.values()}) or ["array_metadatas/process_0"]
        # Orbax copies write_shape from these files into _METADATA, so these files must describe each array
        # with a write_shape.
        missing = {n for n, leaf in self.leaves.items() if leaf.get("write_shape") is not None} - set(described)
        if missing and not any(problem.path.startswith("array_metadatas/") for problem in self.problems):
            self._report(files[0], f"does not describe {name_some(missing)}" if described else "is missing")
        if set(described) - set(self.leaves):
            message = f"does not name {name_some(set(described) - set(self.leaves))}, which {files[0]} describes"
            self._report(TREE_METADATA, message)
        for name, (path, metadata) in sorted(described.items()):
            spec, leaf = self.index.arrays.get(name), self.leaves.get(name, {})
            written, chunk = metadata["write_shape"], metadata["chunk_shape"]
            if spec is not None and chunk != list(spec.read_shape):
                self._report(path, f"says chunk_shape {chunk} of {name}, the data says {list(spec.read_shape)}")
            elif len(written) != len(chunk) or any(w % max(c, 1) for w, c in zip(written, chunk, strict=True)):
                self._report(path, f"says that {name} was written by {written}, which its chunks {chunk} do not fill")
            if leaf.get("write_shape", written) != written:
                message = f"says write_shape {leaf['write_shape']} of {name}, {path} says {written}"
                self._report(TREE_METADATA, message)

    def _check_sharding(self) -> None:
        arrays = {name for name, leaf in self.leaves.items() if leaf["value_type"] == "jax.Array"}
        if not arrays and "_sharding" not in self.files:
            return
        content = self._read("_sharding")
        if content is None:
            return
        try:
            names = {base64.urlsafe_b64decode(key).decode() for key in content}
        except ValueError as error:  # no base64, no ASCII or no UTF-8
            self._report("_sharding", f"is damaged: a key is no base64 name ({error})")
            return
        if arrays - names:
            self._report("_sharding", f"has no layout for {name_some(arrays - names)}")
        if names - set(self.leaves):
            self._report(
                TREE_METADATA, f"does not name {name_some(names - set(self.leaves))}, which _sharding lays out"
            )

    def _read(self, path: str) -> Mapping[str, Any] | None:
        try:
            return read_metadata(self.folder / path)
        except DamagedFile as damage:
            self._report(path, str(damage))
            return None

    def _report(self, path: str, message: str) -> None:
        self.problems.append(Problem(check="metadata", path=path, message=message))


def _leaves(tree: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return leaf name → value metadata, without the leaves None, {} and [], which have no data."""
    leaves: dict[str, Mapping[str, Any]] = {}
    for entry in tree["tree_metadata"].values():
        value = entry["value_metadata"]
        if not value["skip_deserialize"]:
            leaves[".".join(str(key["key"]) for key in entry["key_metadata"])] = {
                "value_type": value["value_type"],
                **value,
            }
    return leaves
