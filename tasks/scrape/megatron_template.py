"""Reads the many rows that look alike: one pattern made from a row that was read, columns from what it finds.

A row that is not exactly of that form is left to the grammar in `megatron_rows`, so nothing is read here that it would
not read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tasks.scrape.megatron_forms import Form, form_of
from tasks.scrape.megatron_rows import AVERAGE, EXPONENT, FREE, Field, Row, is_milliseconds, name_of
from tasks.scrape.ranks import DATE, is_glued, line_begin, rank_mark
from tasks.scrape.window import Window

_DIGITS = re.compile(rb"\d+")
_DATE = re.compile(DATE)
_OPEN = rb"|[-+]?nan|[-+]?inf"
_EXPONENT = EXPONENT.encode()
_ANY = (
    rb"[-+]?(?:[1-9](?:\.\d{1,12})?%s|0(?:\.0{1,12})?[eE]\+00|(?:0|[1-9]\d{0,14})(?:\.\d{1,12})?)" % _EXPONENT + _OPEN
)


@dataclass(frozen=True)
class Column:
    """What a group of the pattern holds: a "whole" number, a "number", a "time" in milliseconds, or a "word"."""

    name: str
    kind: str


@dataclass(frozen=True)
class Template:
    """The pattern of the rows of a form, whole lines. Its groups: the date if it has one, where the row starts, then
    one per column. `plain`: before the row stand a launcher's prefix and a date alone, in which nothing else can be."""

    form: Form
    row: Row
    pattern: re.Pattern[bytes]
    dated: bool
    plain: bool
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Block:
    """The rows of a window that a template found, ascending: begin and end of what was read, and their table."""

    spans: list[tuple[int, int]]
    frame: pl.DataFrame


def template_of(data: bytes, row: Row) -> Template | None:
    """The template of a row; None if it does not fill its line, or holds a value that others may print otherwise."""
    begin = line_begin(data, row.start)
    fills = not row.glued and not is_glued(data, row.start) and (not begin or data[begin - 1 : begin] == b"\n")
    if not fills or any("open" in field.shape.kind for field in row.fields):
        return None
    prefix, dated = _prefix(data[begin : row.start])
    plain = not re.search(rb"\w", _DATE.sub(b"", rank_mark(data[begin : row.start])[1]))
    head = row.step_field
    parts = [rb"(?m:^)", prefix, rb"()", re.escape(head.literal), _whole(head, row.tail), re.escape(row.tail)]
    columns = [Column("step", "whole")]
    for field in row.fields:
        pattern, kinds = _pattern(field)
        if "word" in kinds and any(isinstance(value, int | float) for _, value in field.values):
            return None
        names = [name_of(field.key), AVERAGE.format(name_of(field.key))]
        columns += [Column(name, kind) for name, kind in zip(names, kinds, strict=False)]
        parts += [re.escape(field.literal), pattern, rb" \|"]
    parts.append(rb"(?=[ \t]*\r?\n)")
    return Template(form_of(row), row, re.compile(b"".join(parts)), dated, plain, tuple(columns))


def _prefix(text: bytes) -> tuple[bytes, bool]:
    """The pattern of a line's prefix, in which numbers may be others, and whether it holds a date."""
    dates = list(_DATE.finditer(text))
    if not dates:
        return _likely(text), False
    begin, end = dates[-1].span()
    return _likely(text[:begin]) + rb"(" + _likely(text[begin:end]) + rb")" + _likely(text[end:]), True


def _likely(text: bytes) -> bytes:
    return _DIGITS.sub(lambda digits: rb"\d{%d,%d}" % _few(len(digits[0])), re.escape(text))


def _few(count: int) -> tuple[int, int]:
    return (count, count) if count in (2, 3, 4, 6, 8) else (1, 9)


def _whole(field: Field, after: bytes) -> bytes:
    """A whole number; one that is padded fills its column."""
    (width,) = field.shape.digits
    return rb"(?=[ \d]{%d}%s) *(0|[1-9]\d{0,14})" % (width, re.escape(after)) if width else rb"(0|[1-9]\d{0,14})"


def _pattern(field: Field) -> tuple[bytes, list[str]]:
    """The pattern of a field's value behind its literal, and what its groups hold."""
    shape = field.shape
    number = "time" if is_milliseconds(field.key) else "number"
    if field.key in FREE:
        return rb" {0,40}(%s)" % _ANY, ["number"]
    if shape.kind == "whole" and number != "time" and field.values[0][0] == field.key:
        return _whole(field, b" |"), ["whole"]
    if shape.kind == "whole":
        return rb" {0,40}(0|[1-9]\d{0,14})", [number]
    kinds = shape.kind.split("/")
    if not set(kinds) <= {"fixed", "exponent"}:
        return rb" {0,40}([^\s|]{1,80})", ["word"]  # of which no number is made
    tail = b"" if number == "time" else _OPEN
    parts = [rb"(%s%s)" % (_decimals(kind, count), tail) for kind, count in zip(kinds, shape.digits, strict=True)]
    padding = rb" {0,40}" if field.is_padded else b""
    return padding + b"/".join(parts), [number] * len(parts)


def _decimals(kind: str, count: int) -> bytes:
    point = rb"\.\d{%d}" % count if count else b""
    if kind == "exponent":
        zeros = rb"\.0{%d}" % count if count else b""
        return rb"[-+]?(?:[1-9]%s%s|0%s[eE]\+00)" % (point, _EXPONENT, zeros)
    return rb"[-+]?(?:0|[1-9]\d{0,14})" + point


def read_block(window: Window, template: Template, gaps: Sequence[tuple[int, int]]) -> Block:
    """The rows in these stretches of a window that fit a template."""
    first = 1 + template.dated  # the group that is empty where the row starts
    matches = [
        match
        for begin, end in gaps
        for match in template.pattern.finditer(window.data, line_begin(window.data, begin), end)
        if window.start <= match.start(first) < window.limit
    ]
    starts = np.fromiter((match.start(first) for match in matches), np.int64, len(matches))
    groups = [match.groups() for match in matches]
    data: dict[str, Any] = {}
    for index, column in enumerate(template.columns, start=first):
        data[column.name] = _series([group[index] for group in groups], column.kind)
    data["time"] = (
        _times([group[0] for group in groups]) if template.dated else pl.Series([None] * len(groups), dtype=pl.String)
    )
    data["line"] = window.line + np.searchsorted(window.breaks, starts)
    data["offset"] = window.base + starts
    spans = [(match.start() if template.plain else match.start(first), match.end()) for match in matches]
    return Block(spans, pl.DataFrame(data))


def _series(texts: list[bytes], kind: str) -> pl.Series:
    if kind == "time":  # the digits as they are printed, with the point moved
        texts = [text + b"e-3" for text in texts]
    words = pl.Series(texts, dtype=pl.Binary).cast(pl.String)
    if kind == "word":
        return words
    return words.cast(pl.Int64 if kind == "whole" else pl.Float64)


def _times(texts: list[bytes]) -> pl.Series:
    """Dates as ISO 8601."""
    words = pl.Series("", texts, dtype=pl.Binary).cast(pl.String).str.replace(",", ".", literal=True)
    if texts and texts[0][4:5] != b"-":
        words = words.str.replace(r"^(\d{4})(\d\d)", "$1-$2-")
    return words.str.slice(0, 10) + "T" + words.str.slice(11)
