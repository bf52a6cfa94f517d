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

from tasks.scrape.errors import LogFormatError

BLOCK = 20_000  # entries that are taken at a time where they come one by one
_OBJECT = re.compile(r"\n[ \t]{0,16}\{")  # where the next one starts; those inside of others follow a key
_SKIP = re.compile(r"[\s,\[\]\x1e]*")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|[+]00:?00)?")
PAYLOADS = ("message", "log", "msg", "MESSAGE")
STAMPS = ("timestamp", "time", "receiveTimestamp")
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
    """The objects of a JSON array or of JSON lines; a damaged one, or one that the end cuts, is given to `lose`."""
    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8-sig")("replace")
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
        if None in row.values() or None in row:  # of another length: the text may be in any of its cells, or lack some
            lose(",".join(str(cell) for cell in row.values()))
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


def frames_of(values: Iterable[dict[str, Any]], lose: Callable[[str], None]) -> Iterator[pl.DataFrame]:
    """Exported objects as frames of `ENTRIES`; those without text are left out, and told if they hold a step line."""

    def entries() -> Iterator[Entry]:
        for number, value in enumerate(values):
            entry = _entry_of(value, number)
            if entry is not None:
                yield entry
            elif count_steps(text := json.dumps(value)):
                lose(text)

    for block in batched(entries(), BLOCK):
        yield pl.DataFrame(block, schema=ENTRIES, orient="row")


def read_notebook(chunks: Iterable[bytes]) -> dict[str, bytes]:
    """What each cell of a Jupyter notebook printed, and the traceback with which it ended, by the cell's number."""
    try:
        cells = json.loads(b"".join(chunks))["cells"]
        outputs = {f"cell {number}": cell.get("outputs") or () for number, cell in enumerate(cells, 1)}
        return {name: "".join(map(_printed, some)).encode("utf-8", "replace") for name, some in outputs.items() if some}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogFormatError(f"is a notebook that cannot be read: {error}; save it again") from error


def _printed(output: dict[str, Any]) -> str:
    """The text of one output of a cell, with what it shows where it printed nothing."""
    if "traceback" in output:
        return "\n".join([*output["traceback"], ""])
    text = output.get("text") or output.get("data", {}).get("text/plain") or ""
    return text if isinstance(text, str) else "".join(text)


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
