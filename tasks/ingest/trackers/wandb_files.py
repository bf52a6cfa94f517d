"""Weights & Biases: the files `run-ID.wandb` of offline runs, and of synced ones that are still on the disk.

Such a file is a log of LevelDB's form with records of W&B's protocol. The reader in Python was removed from the package
`wandb`, so the few fields that are needed are declared here: protocol buffers never reuse the number of a field.
"""

import json
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tasks.ingest.trackers.tracked_run import TrackedRun, iso_of
from tasks.scrape.dialects.json_rows import flatten, number_of
from tasks.scrape.window import LogFormatError

FILES = "run-*.wandb"
_HEADER, _BLOCK, _HEAD = 7, 32768, struct.Struct("<IHB")  # the file's header; LevelDB's blocks and heads of chunks
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4  # LevelDB's kinds of chunks
# message → (field, number, type or message); "*" marks repeated fields
_MESSAGES = {
    "Item": (("key", 1, "string"), ("nested_key", 2, "*string"), ("value_json", 16, "string")),
    "Step": (("num", 1, "int64"),),
    "History": (("item", 1, "*Item"), ("step", 2, "Step")),
    "Config": (("update", 1, "*Item"),),
    "Time": (("seconds", 1, "int64"),),
    "Run": (
        ("run_id", 1, "string"), ("config", 4, "Config"), ("display_name", 8, "string"), ("start_time", 17, "Time"),
    ),
    "Exit": (("exit_code", 1, "int32"), ("runtime", 2, "int32")),
    "Record": (("history", 2, "History"), ("config", 5, "Config"), ("run", 17, "Run"), ("exit", 18, "Exit")),
}  # fmt: skip


def list_files(place: Path) -> list[Path]:
    """Return W&B's files of a place; its link to the latest run is left out."""
    return sorted(place.rglob(FILES)) if place.is_dir() else [place] * place.match(FILES)


def read_runs(place: Path) -> list[TrackedRun]:
    """Return the run of each file. Raises LogFormatError for a damaged file."""
    return [_read_run(path) for path in list_files(place) if "latest-run" not in path.parent.name]


def _read_run(path: Path) -> TrackedRun:
    run = TrackedRun(path.stem, "W&B", 1, path)
    try:
        for data in _read_records(path):
            record = _record_class().FromString(data)
            if record.HasField("history"):
                _add_history(run, record.history)
            elif record.HasField("run"):
                run.key, run.name = record.run.run_id, record.run.display_name or run.name
                run.started = iso_of(record.run.start_time.seconds or None)
                _add_config(run, record.run.config)
            elif record.HasField("config"):
                _add_config(run, record.config)
            elif record.HasField("exit"):
                run.exit_code, run.finished = record.exit.exit_code, record.exit.exit_code == 0
    except (DecodeError, ValueError) as error:
        raise LogFormatError(f"{path}: is a damaged W&B file: {error}; copy it again") from error
    return run


def _add_history(run: TrackedRun, history: Any) -> None:
    values = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in history.item}
    step = int(values.get("_step", history.step.num))
    wall = number_of(values.get("_timestamp"))
    for tag, value in flatten(values):
        number = number_of(value)
        if number is not None and not tag.startswith("_"):
            run.add(step, tag, number, wall)


def _add_config(run: TrackedRun, config: Any) -> None:
    items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in config.update}
    run.config |= {key: str(value) for key, value in flatten(items) if not key.startswith("_wandb")}


def _read_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a file; a truncated last one is left out. Raises ValueError."""
    data = path.read_bytes()
    if not data.startswith(b":W&B"):
        raise ValueError("it does not begin with :W&B")
    place, parts = _HEADER, b""
    while place + _HEAD.size <= len(data):
        if _BLOCK - place % _BLOCK < _HEAD.size:  # a block's last bytes are empty
            place += _BLOCK - place % _BLOCK
            continue
        _crc, length, kind = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        chunk = data[place : place + length]
        if kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            raise ValueError(f"byte {place - 1} is no kind of a chunk")
        if len(chunk) < length:
            return
        parts = chunk if kind in (_FULL, _FIRST) else parts + chunk
        place += length
        if kind in (_FULL, _LAST):
            yield parts


@cache
def _record_class() -> Any:
    """Return the message class `Record`."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

    file = descriptor_pb2.FileDescriptorProto(name="maxview/wandb.proto", package="maxview.wandb", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, of in fields:
            added = message.field.add(name=field, number=number)
            added.label = kinds.LABEL_REPEATED if of.startswith("*") else kinds.LABEL_OPTIONAL
            of = of.lstrip("*")
            if of in _MESSAGES:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".maxview.wandb.{of}"
            else:
                added.type = getattr(kinds, f"TYPE_{of.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("maxview.wandb.Record"))
