"""Reads exports of Cloud Logging and container runtimes: the text of each source (a pod).

An export consists of entries, usually one for each line of a log, in any order; each entry should have a time.
"""

import codecs
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import batched, chain, pairwise
from typing import Any

BLOCK = 20_000  # limit of entries in a chunk of text
# a line that begins with `{`: the next entry after a damaged one. The `{` of a nested object follows its key on the
# same line, except in an array.
_OBJECT = re.compile(r"\n[ \t]{0,16}\{")
_SKIP = re.compile(r"[\s,\[\]\x1e]*")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|[+]00:?00)?")
# keys of the text of an entry without `textPayload`, in order of preference
PAYLOADS = ("message", "log", "msg", "MESSAGE")
STAMPS = ("timestamp", "time", "receiveTimestamp")  # keys of an entry's time, in order of preference
# start of a step line in any dialect
STEP = re.compile(r"completed step:? *\d|\bstep: *\d+  [a-z]|\biteration[ =] *\d+ */")
# a later part of most step lines; shows a line that lost its start
_BODY = re.compile(r"/s/device: *\d|elapsed time per iteration|train_loss: |\bloss: +-?\d\S* +(?:grad_norm|memory):")
ENTRY_KEY = re.compile(rb'"(?:textPayload|jsonPayload|log|message|msg)"\s*:')

type Objects = Iterable[dict[str, Any]]
type ReportLost = Callable[[str], None]  # called with a damaged entry's text


def count_steps(text: str) -> int:
    """Return the number of step lines in a text; 1 if the text contains only the later part of a step line."""
    return len(STEP.findall(text)) or int(_BODY.search(text) is not None)


def read_json(chunks: Iterable[bytes], report_lost: ReportLost) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array or of JSON lines; calls `report_lost` for each damaged or cut object."""
    decoder, text, begin = json.JSONDecoder(object_pairs_hook=_reject_repeated_keys), "", 0
    for more in chain(_decoded(chunks), [None]):
        text, begin = text[begin:] + (more or ""), 0
        while (begin := _SKIP.match(text, begin).end()) < len(text):  # type: ignore[union-attr]
            try:
                value, begin = decoder.raw_decode(text, begin)
            except (ValueError, RecursionError):  # invalid JSON, a repeated key, a huge number, or nested too deeply
                following = _OBJECT.search(text, begin + 1)
                if more is not None and following is None:
                    break  # continues in the next chunk
                end = following.end() - 1 if following else len(text)
                report_lost(text[begin:end])
                begin = end
                continue
            if isinstance(value, dict):
                yield value


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Raises ValueError for a repeated key, which shows that damage merged two entries."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key twice")
    return value


def _decoded(chunks: Iterable[bytes]) -> Iterator[str]:
    return codecs.iterdecode(chunks, "utf-8-sig", "replace")


class Entries:
    """The entries of an export, per source, in order of time, ID and position in the file. SQLite limits memory.

    The ID is the `insertId`: Cloud Logging orders entries of equal time by it. For a part of a line that was
    split over several entries, the ID is the line's `uid` and the part's index.
    """

    def __init__(self, values: Objects, report_lost: ReportLost) -> None:
        self._database = sqlite3.connect("")
        key = "source, stamp, id, number"
        self._database.execute(f"CREATE TABLE entries ({key}, text, next_id, PRIMARY KEY ({key})) WITHOUT ROWID")
        self._database.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", _rows_of(values, report_lost))
        sources = self._database.execute("SELECT source FROM entries GROUP BY source ORDER BY min(number)")
        self.sources = [source for (source,) in sources]

    def read_chunks(self, source: str) -> Iterator[bytes]:
        """Yield the UTF-8 text of a source in chunks. An entry ends with a line break unless another continues it."""
        query = "SELECT text, id, next_id FROM entries WHERE source = ? ORDER BY stamp, id, number"
        rows = self._database.execute(query, (source,))
        lines = (
            text if next_id is not None and (after is None or next_id in ("", after[1])) else text.rstrip("\n") + "\n"
            for (text, _, next_id), after in pairwise(chain(rows, [None]))
        )
        for block in batched(lines, BLOCK):
            yield "".join(block).encode()

    def close(self) -> None:
        self._database.close()


def _rows_of(values: Objects, report_lost: ReportLost) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the table in `Entries`: source, time, ID, number of the entry, text, `next_id`.

    `next_id` is the ID of the entry that continues the line; "" if the next entry does; None if no entry does. Entries
    without text are left out; `report_lost` is called if their other fields contain step lines.
    """
    for number, value in enumerate(values):
        payload = value.get("jsonPayload")
        fields = payload if isinstance(payload, dict) else value
        text, key = value.get("textPayload"), "textPayload"
        if not text:
            text, key = next(((fields[key], key) for key in PAYLOADS if isinstance(fields.get(key), str)), (text, key))
        if not isinstance(text, str):
            if count_steps(whole := json.dumps(value)):
                report_lost(whole)
            continue
        labels = (value.get("resource") or {}).get("labels") if isinstance(value.get("resource"), dict) else None
        source = labels.get("pod_name", "") if isinstance(labels, dict) else ""
        stamp = next((value[key] for key in STAMPS if value.get(key)), "")
        entry_id, next_id, split = str(value.get("insertId") or ""), None, value.get("split")
        if isinstance(split, dict) and split.get("uid"):  # one line split over several entries
            index, total = (_count(split.get(key)) for key in ("index", "totalSplits"))
            entry_id = f"{split['uid']}/{index:09d}"
            next_id = f"{split['uid']}/{index + 1:09d}" if index + 1 < total else None
        elif key == "log" and fields is value and not text.endswith("\n"):  # docker splits lines longer than 16 KiB
            next_id = ""
        source, entry_id, text = map(_replace_surrogates, (str(source or ""), entry_id, text))
        yield source, sortable(str(stamp)), entry_id, number, text, next_id and _replace_surrogates(next_id)


def _count(value: Any) -> int:
    """Parse a whole number of JSON, or of protobuf JSON, which prints it as a string; 0 if missing or damaged."""
    return int(value) if re.fullmatch(r"\d{1,9}", str(value), re.ASCII) else 0


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON allows and UTF-8 does not."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def sortable(stamp: str) -> str:
    """Return an RFC 3339 time as text in UTC with nine decimals, so that times sort as text; "" for an invalid time."""
    match = _STAMP.fullmatch(stamp)
    if match:
        return f"{match[1]}T{match[2]}.{(match[3] or '').ljust(9, '0')}"
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000")
    except (ValueError, OverflowError):  # not a time, or before year 1
        return ""
