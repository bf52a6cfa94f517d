"""Reads JSON exports in blocks of whole objects: polars reads a sound block at once, the careful reader any other."""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from tasks.scrape.entries import ENTRIES, PARTS, PAYLOADS, STAMPS, frames_of, read_json, sortable

BLOCK_BYTES = 8 << 20
GIVE_UP_BYTES = 64 << 20  # without the end of an object in so many bytes, the careful reader takes over
_TEXTS = dict.fromkeys(PAYLOADS, pl.String)
_LABELS = pl.Struct({"pod_name": pl.String})
_SPLIT = pl.Struct({"uid": pl.String, "index": pl.Int64, "totalSplits": pl.Int64})
_SCHEMA: dict[str, Any] = {
    "textPayload": pl.String, "jsonPayload": pl.Struct(_TEXTS), **_TEXTS, **dict.fromkeys(STAMPS, pl.String),
    "insertId": pl.String, "resource": pl.Struct({"labels": _LABELS}), "split": _SPLIT,
}  # fmt: skip
_PAYLOAD_KEYS = tuple(f'"{key}"'.encode() for key in ("textPayload", "jsonPayload", *PAYLOADS))
_USUAL_STAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$"
# what may have been no text in the JSON, but a number, an object or an array
_NO_TEXT = r"^(?:\{(?:\}|\".*\})|\[(?:\]|(?:[\"\[{\d-]|true|false|null).*\])|-?\d[\d.eE+-]*|true|false)$"


@dataclass(frozen=True)
class _Edge:
    """What stands between two objects of the export's form, and how many bytes of it belong to the first."""

    text: bytes
    own: int
    is_lines: bool


def read_json_blocks(chunks: Iterable[bytes], lose: Callable[[str], None]) -> Iterator[pl.DataFrame]:
    """The entries of a JSON array, of JSON lines, or of objects one after another, as frames of `ENTRIES`.

    The text of objects that are damaged is given to `lose`.
    """
    pending, size, number = [], 0, 0  # pieces of a block
    edge: _Edge | None = None
    incoming = iter(chunks)
    for chunk in incoming:
        pending.append(chunk)
        size += len(chunk)
        if size < BLOCK_BYTES:
            continue
        edge = edge or _find_edge(b"".join(pending))
        cut = _last_edge(pending, edge)
        if edge is None or (cut is None and size > GIVE_UP_BYTES):
            yield from frames_of(read_json(chain(pending, incoming), lose), number, lose)
            return
        if cut is None:
            continue
        block, rest = b"".join([*pending[:-1], chunk[:cut]]), chunk[cut:]
        for frame in _read_block(block, edge, number, lose):
            number = max(number, int(frame["number"][-1]) + 1) if frame.height else number
            yield frame
        pending, size = [rest], len(rest)
    last = b"".join(pending)
    yield from _read_block(last, edge or _find_edge(last), number, lose)


def _last_edge(pieces: list[bytes], edge: _Edge | None) -> int | None:
    """Where in the last piece a block can end; None if there is no place."""
    if edge is None:
        return None
    before = b"".join(pieces[-2:-1])[-len(edge.text) :]  # an edge may lie across two pieces
    cut = (before + pieces[-1]).rfind(edge.text) + edge.own - len(before)
    return cut if cut > 0 else None


def _find_edge(text: bytes) -> _Edge | None:
    """How objects follow one another here, judging by the first."""
    head = re.match(rb"(?:\xef\xbb\xbf)?\s*(\[?)[^\S\n]*(\n?[^\S\n]*)\{", text)
    if head is None:
        return None
    indent = head[2].removeprefix(b"\n")
    first_line = text[head.end() - 1 : text.find(b"\n", head.end())].rstrip()
    if not head[1]:
        return _Edge(b"}\n" + indent + b"{", 2, is_lines=True) if first_line.endswith(b"}") else None
    close = b"" if first_line.endswith((b"}", b"},")) else b"\n" + indent
    return _Edge(close + b"},\n" + indent + b"{", len(close) + 2, is_lines=False)


def _read_block(block: bytes, edge: _Edge | None, number: int, lose: Callable[[str], None]) -> Iterator[pl.DataFrame]:
    """The entries of whole objects, numbered from `number` on."""
    frame = None
    if edge is not None:
        try:
            raw = _parse(block, edge)
            frame = _entries_of(raw, number)
            # two entries that lost what stood between them, or one without text: damaged, or of another kind?
            merged = any(block.count(key) > raw.height for key in _telling_keys(block, edge))
            if frame is not None and (merged or frame.height < raw.height):
                frame = None
        except PolarsError:  # a damaged object, or one of another shape
            frame = None
    if frame is not None:
        yield frame
    else:
        yield from frames_of(read_json([block], lose), number, lose)


def _telling_keys(block: bytes, edge: _Edge) -> list[bytes]:
    """The keys of which two entries that became one have two, unless what they lost was read by nobody.

    That is the text's, and what stands behind it, judging by the first: each count goes through the whole block.
    """
    first = block[: block.find(edge.text) + 1 or len(block)]
    places = {quoted: first.find(quoted) for quoted in (f'"{key}"'.encode() for key in PARTS)}
    begin = min((places[quoted] for quoted in _PAYLOAD_KEYS if places[quoted] >= 0), default=0)
    return [quoted for quoted, place in places.items() if place >= begin]


def _parse(block: bytes, edge: _Edge) -> pl.DataFrame:
    if edge.is_lines:
        return pl.read_ndjson(io.BytesIO(block), schema=_SCHEMA)
    inner = block.strip().removeprefix(b"\xef\xbb\xbf").strip().removeprefix(b"[").removesuffix(b"]").strip()
    return pl.read_json(io.BytesIO(b"[" + inner.strip(b",") + b"]"), schema=_SCHEMA)


def _entries_of(raw: pl.DataFrame, number: int) -> pl.DataFrame | None:
    """The entries of parsed objects; None if some must be looked at one by one."""
    payload, whole = pl.col("jsonPayload"), pl.col("textPayload").replace("", None)
    fields = [payload.struct.field(key) for key in PAYLOADS]
    top = [pl.when(payload.is_null()).then(pl.col(key)) for key in PAYLOADS]
    split = pl.col("split")
    index, is_split = split.struct.field("index").fill_null(0), split.struct.field("uid").is_not_null()
    from_log = whole.is_null() & payload.is_null() & pl.col("message").is_null() & pl.col("log").is_not_null()
    frame = raw.select(
        stamp=pl.coalesce(*(pl.col(key).replace("", None) for key in STAMPS), pl.lit("")),
        order=pl.when(is_split)
        .then(pl.format("{}/{}", split.struct.field("uid"), index.cast(pl.String).str.zfill(9)))
        .otherwise(pl.col("insertId").fill_null("")),
        number=pl.int_range(number, number + pl.len(), dtype=pl.Int64),
        source=pl.col("resource").struct.field("labels").struct.field("pod_name").fill_null(""),
        text=pl.coalesce(whole, *fields, *top),
        open=pl.when(is_split)
        .then(index + 1 < split.struct.field("totalSplits").fill_null(0))
        .otherwise(from_log & ~pl.col("log").str.ends_with("\n").fill_null(value=True)),
    ).filter(pl.col("text").is_not_null())
    # polars turns lone halves of surrogate pairs, and what was no text, into something else
    if frame["text"].str.contains("\0", literal=True).any() or frame["text"].str.contains(_NO_TEXT).any():
        return None
    usual = frame["stamp"].str.contains(_USUAL_STAMP)
    if not usual.all():
        if frame["stamp"].str.contains("step|iteration").any():
            return None  # text that damage has put there
        return frame.with_columns(pl.Series("stamp", [sortable(stamp) for stamp in frame["stamp"]], dtype=pl.String))
    bare = pl.col("stamp").str.strip_suffix("Z")
    dotted = pl.when(bare.str.len_bytes() == len("2026-04-18T00:00:00")).then(bare + ".").otherwise(bare)
    return frame.with_columns(stamp=dotted.str.pad_end(len("2026-04-18T00:00:00.") + 9, "0")).cast(ENTRIES)
