"""Metadata made to break a reader: the problem names each false file, and no read is endless."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from flows.cli.app import call_command
from tasks.verify.array_index import parse_array
from tasks.verify.verification import verify_checkpoint

pytestmark = pytest.mark.flows

NONSENSE = (7, -1, 1e999, 10**30, "", None, True, [], {}, [[1]], [1e999], "\ud800")


@pytest.fixture
def plain(save: Any, tmp_path: Path) -> Path:
    """A step whose arrays are zarr files, so that their metadata can be edited by hand."""
    return Path(shutil.copytree(save("--layout", "plain-zarr3"), tmp_path / "run")) / "checkpoints" / "9"


def put(document: Any, path: tuple[Any, ...], value: Any) -> str:
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("array_metadatas/process_0", ("array_metadatas", 0, "array_metadata", "param_name")),
        ("array_metadatas/process_0", ("array_metadatas", 0, "array_metadata", "write_shape")),
        ("array_metadatas/process_0", ("array_metadatas", 0, "array_metadata", "chunk_shape")),
        ("_METADATA", ("tree_metadata",)),
        ("zeros/zarr.json", ("shape",)),
        ("zeros/zarr.json", ("chunk_grid", "configuration", "chunk_shape")),
        ("zeros/zarr.json", ("codecs", 0, "configuration", "chunk_shape")),
        ("zeros/zarr.json", ("data_type",)),
    ],
)
def test_nonsense_in_metadata_is_damage_of_that_file(plain: Path, name: str, path: tuple[Any, ...]) -> None:
    file = plain / "items" / name
    text = file.read_text()
    if path[0] == "array_metadatas":  # of an array with dimensions: `[]` is right for a scalar
        entries = json.loads(text)["array_metadatas"]
        path = (path[0], next(n for n, e in enumerate(entries) if e["array_metadata"]["write_shape"]), *path[2:])
    for value in NONSENSE:
        file.write_text(put(json.loads(text), path, value))
        problems = verify_checkpoint(plain).problems
        assert any(name in problem.path + problem.message or "zeros" in problem.message for problem in problems), value


@pytest.mark.parametrize("value", NONSENSE)
def test_a_separator_of_chunk_keys_is_a_dot_or_a_slash(value: Any) -> None:
    metadata = {"shape": [4], "chunks": [2], "dtype": "<f4", "compressor": None, "dimension_separator": value}
    with pytest.raises(ValueError, match="the separator of chunk keys is"):
        parse_array("a/.zarray", json.dumps(metadata))


def test_a_manifest_with_nonsense_is_damage(plain: Path) -> None:
    recorded = Path(str(verify_checkpoint(plain, mode="record").manifest))
    text = recorded.read_text()
    for key, value in (("bytes", 1e999), ("bytes", "5"), ("bytes", True), ("crc32c", 5), ("crc32c", "xyz")):
        recorded.write_text(put(json.loads(text), ("files", "items/_METADATA", key), value))
        proof = verify_checkpoint(plain, mode="check")
        assert [(p.path, p.message.partition(":")[0]) for p in proof.problems] == [(str(recorded), "is damaged")]


def test_a_file_of_another_length_is_not_read(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sparse terabyte would be read for minutes."""
    assert call_command(["verify", str(plain), "--record"]) == 0
    data = plain / "items" / "zeros" / "c" / "0" / "0"
    length = data.stat().st_size
    os.truncate(data, 1 << 40)
    read: list[int] = []
    proof = verify_checkpoint(plain, mode="check", on_progress=lambda check, done, total: read.append(total))
    assert max(read) < 1 << 20
    reported = f"has 1,099,511,627,776 bytes, {length:,} when the manifest was recorded"
    assert ("items/zeros/c/0/0", reported) in {(problem.path, problem.message) for problem in proof.problems}


def write_one_chunk(step: Path, shape: list[int], chunk: list[int]) -> Path:
    metadata = step / "items" / "zeros" / "zarr.json"
    document = json.loads(metadata.read_text())
    document |= {"shape": shape, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
    document["chunk_grid"]["configuration"]["chunk_shape"] = chunk
    metadata.write_text(json.dumps(document))
    shutil.rmtree(metadata.with_name("c"))
    (metadata.with_name("c")).mkdir()
    return metadata.with_name("c") / "0"


def test_a_chunk_larger_than_memory_is_not_decoded(plain: Path) -> None:
    data = write_one_chunk(plain, [1 << 38], [1 << 38])
    data.touch()
    os.truncate(data, 4 << 38)
    problems = verify_checkpoint(plain, deep=True).problems
    assert any(p.check == "values" and "one chunk has 1,099.5 GB" in p.message for p in problems)


def test_an_array_with_more_chunks_than_files_is_damage(plain: Path) -> None:
    """Naming ten million missing files takes minutes."""
    write_one_chunk(plain, [9_999_999], [1])
    files = sum(path.is_file() for path in (plain / "items").rglob("*"))
    reported = f"has 9,999,999 chunks by its metadata, but only {files} files are there"
    assert ("items/zeros", reported) in {(p.path, p.message) for p in verify_checkpoint(plain).problems}
