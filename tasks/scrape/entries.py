"""Reads exports of Cloud Logging (JSON, JSON lines, CSV) and of container runtimes into entries, in their true order.

Entries are ordered by timestamp and then by insertId, as Cloud Logging itself does; exports are often newest first.
"""

import codecs
import csv
import heapq
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import IO, Any

BLOCK = 100_000  # entries that are ordered in memory at a time
_SKIP = re.compile(r"[\s,\[\]\x1e]*")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|[+]00:?00)?")
PAYLOADS = ("message", "log", "msg", "MESSAGE")
MARKS = re.compile(rb'"(?:textPayload|jsonPayload|log|message|msg)"\s*:')

type Entry = tuple[str, str, int, str, str]  # timestamp, insertId, number, source, text


def read_json(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a JSON array or of JSON lines; a damaged one is left out, as is one that the end cuts."""
    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8")("replace")
    text, begin = "", 0
    for chunk in _closed(chunks):
        text, begin = text[begin:] + utf8.decode(chunk, final=not chunk), 0
        while True:
            skipped = _SKIP.match(text, begin)
            begin = skipped.end() if skipped else begin
            if begin >= len(text):
                break
            try:
                value, begin = decoder.raw_decode(text, begin)
            except json.JSONDecodeError:
                following = text.find("\n{", begin + 1)
                if chunk and following < 0:
                    break  # it goes on in the next chunk
                if following < 0:
                    return
                begin = following + 1
                continue
            if isinstance(value, dict):
                yield value


def read_csv(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The rows of a CSV export as objects like those of a JSON export."""
    for row in csv.DictReader(_text_lines(chunks)):
        text = row.get("textPayload") or next((row[key] for key in row if key and _is_payload(key) and row[key]), "")
        labels = {"pod_name": row.get("resource.labels.pod_name") or ""}
        yield {**row, "textPayload": text, "resource": {"labels": labels}}


def _is_payload(key: str) -> bool:
    return key.startswith("jsonPayload.") and key.removeprefix("jsonPayload.") in PAYLOADS


def _text_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    utf8, rest = codecs.getincrementaldecoder("utf-8-sig")("replace"), ""
    for chunk in _closed(chunks):
        *lines, rest = (rest + utf8.decode(chunk, final=not chunk)).replace("\0", "").split("\n")
        yield from (f"{line}\n" for line in lines)
    if rest:
        yield rest


def _closed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    yield from (chunk for chunk in chunks if chunk)
    yield b""


def entry_of(value: dict[str, Any], number: int) -> Entry | None:
    """An exported object as an entry; None if it holds no text."""
    payload = value.get("jsonPayload")
    fields = payload if isinstance(payload, dict) else value
    text = value.get("textPayload") or next((fields[key] for key in PAYLOADS if isinstance(fields.get(key), str)), None)
    if not isinstance(text, str):
        return None
    labels = (value.get("resource") or {}).get("labels") if isinstance(value.get("resource"), dict) else None
    source = labels.get("pod_name", "") if isinstance(labels, dict) else ""
    stamp = value.get("timestamp") or value.get("time") or value.get("receiveTimestamp") or ""
    return (sortable(str(stamp)), str(value.get("insertId") or ""), number, str(source or ""), text)


def sortable(stamp: str) -> str:
    """An RFC 3339 time in UTC with nine decimals, so that text order is time order; "" if it is none."""
    match = _STAMP.fullmatch(stamp)
    if match:
        return f"{match[1]}T{match[2]}.{(match[3] or '').ljust(9, '0')}"
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000")
    except ValueError:
        return ""


class OrderedEntries:
    """All entries of an export, in order, as often as asked; more than a block are kept in temporary files."""

    def __init__(self, values: Iterable[dict[str, Any]], stack: ExitStack) -> None:
        self.sources: dict[str, None] = {}
        self._files: list[IO[str]] = []
        block: list[Entry] = []
        for number, value in enumerate(values):
            entry = entry_of(value, number)
            if entry is None:
                continue
            self.sources.setdefault(entry[3])
            block.append(entry)
            if len(block) >= BLOCK:
                block.sort()
                file = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))  # noqa: SIM115
                file.writelines(json.dumps(row) + "\n" for row in block)
                self._files.append(file)
                block = []
        block.sort()
        self._block = block

    def text(self, source: str) -> Iterator[bytes]:
        """The text of one source in chunks; every entry ends its line."""
        for file in self._files:
            file.seek(0)
        parts: list[bytes] = []
        size = 0
        for entry in heapq.merge(*(_load(file) for file in self._files), self._block):
            if entry[3] == source:
                line = entry[4].rstrip("\n").encode("utf-8", "surrogatepass") + b"\n"
                parts.append(line)
                size += len(line)
                if size > 1 << 20:
                    yield b"".join(parts)
                    parts, size = [], 0
        yield b"".join(parts)


def _load(file: IO[str]) -> Iterator[Entry]:
    for line in file:
        stamp, insert_id, number, source, text = json.loads(line)
        yield (stamp, insert_id, number, source, text)
