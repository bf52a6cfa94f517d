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
STAMPS = ("timestamp", "time", "receiveTimestamp")
# what an entry is made of: no writer puts one of these twice into an object
PARTS = frozenset({"textPayload", "jsonPayload", "insertId", *PAYLOADS, *STAMPS})
_WORDS, _TIMES = ("insertId", "logName", "severity"), ("timestamp", "receiveTimestamp")  # all of Cloud Logging
_BLANK = re.compile(r"\s")
# what begins a step line in any dialect
STEP = re.compile(r"completed step:? *\d|\bstep: *\d+  [a-z]|\biteration[ =] *\d+ */")
# what stands behind that in most of them: of a line that lost its begin
_BODY = re.compile(r"/s/device: *\d|elapsed time per iteration|\bloss: +-?\d\S* +(?:grad_norm|memory):")
MARKS = re.compile(rb'"(?:textPayload|jsonPayload|log|message|msg)"\s*:')

# `stamp`, then `order` (the insertId), then `number` is the order in which Cloud Logging itself shows entries;
# what follows an `open` text continues its line
ENTRIES = pl.Schema({
    "stamp": pl.String, "order": pl.String, "number": pl.Int64, "source": pl.String, "text": pl.String,
    "open": pl.Boolean,
})  # fmt: skip
type Entry = tuple[str, str, int, str, str, bool]


def count_steps(text: str) -> int:
    """How many step lines a text holds, or pieces of one."""
    return len(STEP.findall(text)) or int(_BODY.search(text) is not None)


def read_json(chunks: Iterable[bytes], lose: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """The objects of a JSON array or of JSON lines; a damaged one, or one that the end cuts, is given to `lose`.

    Of two that lost what stood between them, and so are one with a key twice, the later values are kept; the others
    are given to `lose`: what stood between them may have been the text.
    """
    replaced: list[str] = []  # in the object that is read now

    def unite(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(items)
        if len(value) < len(items):
            replaced.extend(
                str(item)
                for key, item in items
                if item != value[key] and (key in PARTS or (isinstance(item, str) and count_steps(item)))
            )
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
            replaced.clear()
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
            if replaced:
                lose("\n".join(replaced))
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
        cells = [cell for value in row.values() for cell in (value if isinstance(value, list) else [value]) if cell]
        misplaced = [cell for cell in cells if cell != text and count_steps(cell)]
        if misplaced:  # a quote or a line break was lost, or a comma is one too many: the text went into other columns
            lose(",".join(misplaced))
        elif None in row.values() or None in row:
            lose(",".join(cells))  # a row of another length: the text may be in any of its cells, or lack some
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

    Those without text are left out; of those that hold a step line under another key, or text where none can be,
    `lose` is given it.
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
        found = [text for key, text in _texts_in(value) if _is_misplaced(key, text)]
        if found:
            lose("\n".join(found))
    return entry


def _texts_in(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """All that is text in an object, by its key; what stands deeper, under a key that may be damaged, under none."""
    waiting: list[tuple[str, Any]] = list(value.items())
    while waiting:
        key, item = waiting.pop()
        if isinstance(item, str):
            yield key, item
        elif isinstance(item, dict | list):
            waiting += (("", inner) for inner in (item.values() if isinstance(item, dict) else item))


def _is_misplaced(key: str, text: str) -> bool:
    """Whether a value is part of a log's text: of two entries, the first until there and the second from there on."""
    odd = (key in _WORDS and _BLANK.search(text)) or (key in _TIMES and text and not sortable(text))
    return bool(odd or count_steps(text))


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
    stamp = next((value[key] for key in STAMPS if value.get(key)), "")
    order, is_open = str(value.get("insertId") or ""), False
    split = value.get("split")
    if isinstance(split, dict) and split.get("uid"):  # one text in several entries
        index, total = (_count(split.get(key)) for key in ("index", "totalSplits"))
        order, is_open = f"{split['uid']}/{index:09d}", index + 1 < total
    elif key == "log" and fields is value:  # docker cuts lines that are longer than 16 KiB
        is_open = not text.endswith("\n")
    return (sortable(str(stamp)), _sound(order), number, _sound(str(source or "")), _sound(text), is_open)


def _count(value: Any) -> int:
    """A number as JSON or as protobuf's JSON writes it; 0 if damage made it none."""
    return int(value) if re.fullmatch(r"\d{1,9}", str(value), re.ASCII) else 0


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
    except (ValueError, OverflowError):  # no time, or one before the first year
        return ""
