"""Turns the objects of an export, of Cloud Logging or a container runtime, into entries: when, whose, which text."""

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import batched
from typing import Any

import polars as pl

BLOCK = 50_000  # entries that are taken at a time where they come one by one
_OBJECT = re.compile(r"\n[ \t]{0,16}\{")  # where the next one starts; those inside of others follow a key
_SKIP = re.compile(r"[\s,\[\]\x1e]*")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|[+]00:?00)?")
PAYLOADS = ("message", "log", "msg", "MESSAGE")
# what begins a step line in any dialect
STEP = re.compile(r"completed step:? *\d|\bstep: *\d+  [a-z]|\biteration[ =] *\d+ */")
MARKS = re.compile(rb'"(?:textPayload|jsonPayload|log|message|msg)"\s*:')

# `stamp`, then `order` (the insertId), then `number` is the order in which Cloud Logging itself shows entries;
# what follows an `open` text continues its line
ENTRIES = pl.Schema({
    "stamp": pl.String, "order": pl.String, "number": pl.Int64, "source": pl.String, "text": pl.String,
    "open": pl.Boolean,
})  # fmt: skip
type Entry = tuple[str, str, int, str, str, bool]


def read_json(chunks: Iterable[bytes], lose: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """The objects of a JSON array or of JSON lines; a damaged one, or one that the end cuts, is given to `lose`."""

    def unite(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(items)
        if len(value) < len(items):  # two that lost what stood between them: the later text is kept
            for key, text in items:
                if isinstance(text, str) and text != value[key] and STEP.search(text):
                    lose(text)
        return value

    decoder, utf8 = json.JSONDecoder(object_pairs_hook=unite), codecs.getincrementaldecoder("utf-8")("replace")
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
            except (ValueError, RecursionError):  # no JSON, an endless number, or nested without end
                following = _OBJECT.search(text, begin + 1)
                if chunk and following is None:
                    break  # it goes on in the next chunk
                lose(text[begin : following.start() if following else len(text)])
                if following is None:
                    return
                begin = following.end() - 1
                continue
            if isinstance(value, dict):
                yield value


def read_csv(chunks: Iterable[bytes], lose: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """The rows of a CSV export as objects like those of a JSON export; why a damaged one is none is given to `lose`."""
    rows = csv.DictReader(_text_lines(chunks))
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:  # a carriage return between fields, or a field without end: on with the next line
            lose(str(error))
            continue
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


def frames_of(
    values: Iterable[dict[str, Any]], first: int = 0, lose: Callable[[str], None] | None = None
) -> Iterator[pl.DataFrame]:
    """Exported objects as frames of `ENTRIES`. `first`: the number of the first.

    Those without text are left out; of those that hold a step line under another key, `lose` is given the line.
    """
    entries = (
        entry
        for number, value in enumerate(values, first)
        if (entry := _entry_or_loss(value, number, lose)) is not None
    )
    for block in batched(entries, BLOCK):
        yield pl.DataFrame(block, schema=ENTRIES, orient="row")


def _entry_or_loss(value: dict[str, Any], number: int, lose: Callable[[str], None] | None) -> Entry | None:
    entry = _entry_of(value, number)
    if (entry is None or not entry[4]) and lose is not None:
        for text in value.values():
            if isinstance(text, str) and STEP.search(text):
                lose(text)
    return entry


def _entry_of(value: dict[str, Any], number: int) -> Entry | None:
    """An exported object as an entry; None if it holds no text."""
    payload = value.get("jsonPayload")
    fields = payload if isinstance(payload, dict) else value
    text, key = value.get("textPayload"), "textPayload"
    if not text:
        text, key = next(((fields[key], key) for key in PAYLOADS if isinstance(fields.get(key), str)), (text, key))
    if not isinstance(text, str):
        return None
    labels = (value.get("resource") or {}).get("labels") if isinstance(value.get("resource"), dict) else None
    source = labels.get("pod_name", "") if isinstance(labels, dict) else ""
    stamp = value.get("timestamp") or value.get("time") or value.get("receiveTimestamp") or ""
    order, is_open = str(value.get("insertId") or ""), False
    split = value.get("split")
    if isinstance(split, dict) and split.get("uid"):  # one text in several entries
        index, total = int(split.get("index") or 0), int(split.get("totalSplits") or 0)
        order, is_open = f"{split['uid']}/{index:09d}", index + 1 < total
    elif key == "log" and fields is value:  # docker cuts lines that are longer than 16 KiB
        is_open = not text.endswith("\n")
    return (sortable(str(stamp)), _sound(order), number, _sound(str(source or "")), _sound(text), is_open)


def _sound(text: str) -> str:
    """The text without lone halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def sortable(stamp: str) -> str:
    """An RFC 3339 time in UTC with nine decimals, so that text order is time order; "" if it is none."""
    match = _STAMP.fullmatch(stamp)
    if match:
        return f"{match[1]}T{match[2]}.{(match[3] or '').ljust(9, '0')}"
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000")
    except ValueError:
        return ""
