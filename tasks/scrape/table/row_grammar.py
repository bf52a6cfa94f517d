"""Reads rows (lines of steps) fast: from one row, a pattern (`Layout`) is derived that matches all rows printed alike.

A dialect's `RowGrammar` parses single rows slowly; `layout_of` derives the pattern; `read_layout` reads the matches.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import polars as pl

from tasks.scrape.prefixes import is_plain

_DIGITS = re.compile(rb"\d+")
SEPARATOR = b"\x1f"
# matches after a row if the next line may be the rest of the row's last number: a terminal folded the row there
FOLDED = re.compile(rb"[ \t]*\r?\n[ \t]{0,8}[\d.][\d.,]{0,19}[ \t]*(?:\||\r?(?:\n|\Z))")
# lower-case texts of numbers that are not finite
_OPEN = (b"nan", b"inf", b"infinity")
# numbers in Python's format `.4`; whole numbers have no point
GENERAL = re.compile(
    rb"[-+]?(?:0|[1-9]\d{0,17}|0\.0{0,3}[1-9](?:\d{0,2}[1-9])?|[1-9]\.(?:0|\d{0,2}[1-9])|[1-9]\d\.(?:0|\d?[1-9])|"
    rb"[1-9]\d\d\.\d|[1-9](?:\.\d{0,2}[1-9])?e(?:-(?:0[5-9]|[1-9]\d)|\+(?:0[3-9]|[1-9]\d)))"
)
_EXPONENT = rb"[eE](?:\+\d\d|-(?!00)\d\d|[-+](?:[12]\d\d|30[0-7]))"
_PATTERNS = {
    "whole": rb"0|[1-9]\d{0,17}",
    "fixed": rb"[-+]?(?:0|[1-9]\d{0,14})%s",
    "padded": rb"[-+]?(?:0|[1-9]\d{0,14})%s",
    "exponent": rb"[-+]?\d%s" + _EXPONENT,
    "thousands": rb"(?:[1-9]\d{0,2}(?:,\d{3}){1,4}|0|[1-9]\d{0,2})%s",
    "open": rb"(?i:[-+]?(?:nan|inf(?:inity)?))",
    "general": GENERAL.pattern,
    "free": rb"(?i:[-+]?(?:(?:0|[1-9]\d{0,14})(?:\.\d{1,20})?(?:e[-+]?\d{1,3})?|nan|inf(?:inity)?))",
}

type Shape = tuple[str, int]
type Value = float | int | str


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a row.

    The shape is the number format: ("whole", width to which the number is padded, or 0); ("fixed", decimals);
    ("exponent", decimals); ("thousands", decimals); ("padded", decimals): fixed, after a blank if only one digit is
    before the point; ("general", 0): Python's format `.4`; ("free", 0): any number; ("open", 0): NaN or infinite;
    ("word", 0): no number.
    """

    column: str
    value: Value
    begin: int  # of the value's text; a position like `Row.begin`
    end: int
    shape: Shape
    key: str = ""  # the printed key, which may differ from the column's name
    milli: bool = False  # the column contains the printed number ÷ 1000


@dataclass(frozen=True, slots=True)
class Row:
    """A complete row."""

    step: int
    fields: tuple[Field, ...]  # the step first
    begin: int  # position of the row's head (see `RowGrammar`) in the text from which the row was read
    end: int  # position after the last field
    certain: bool = True  # the row shows that its last number is complete
    regular: bool = True  # the numbers have the formats of all known versions
    excused: bool = False  # the row may lack fields that other rows have
    whole: bool = False  # the row's syntax shows that it lost no text, as that of JSON does
    total: int | None = None  # printed number of steps of the run; None if not printed
    tail: bytes = field(default=rb"[ \t]*\r?$", repr=False)  # pattern of the text allowed after the row

    @property
    def form(self) -> tuple[int | None, tuple[tuple[str, str, Shape], ...]]:
        """The form: equal for rows with the same total, columns, keys and number formats."""
        return self.total, tuple((one.column, one.key, one.shape) for one in self.fields)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(one.column for one in self.fields)

    def ends_early(self, like: "Row | None") -> bool:
        """Whether the row `like` has the columns of this row and then further ones; False if `like` is None."""
        count = len(self.fields)
        return like is not None and len(like.fields) > count and like.columns[:count] == self.columns


@dataclass(frozen=True, eq=False)
class Layout:
    """The pattern that matches all rows printed like one row."""

    pattern: re.Pattern[bytes]  # groups: the time before the row; "" at its head; the value of each field
    following: re.Pattern[bytes]  # matches after a row: the row on the next line, else ""
    row: Row  # the row from which the pattern was derived
    timed: bool  # rows have a time before them
    plain: bool  # the text before the row is plain (see `is_plain`) and is not searched for other records


@dataclass(frozen=True, kw_only=True)
class RowGrammar:
    """Describes how a trainer prints its rows."""

    head: re.Pattern[bytes]  # start of every row; each match counts as a seen row
    parse: Callable[[bytes, int, Row | None, bool], Row | None]  # (line, head's position, earlier row, is log's end)
    time: re.Pattern[bytes]  # group 1: a time in the text before a row; the last match is used
    known: frozenset[str] = frozenset()  # all columns that known versions print
    keys: frozenset[str] = frozenset()  # all keys that known versions print before a number
    late: frozenset[str] = frozenset()  # columns that the first rows may lack
    unfinished: frozenset[str] = frozenset()  # columns in which a row's last number, if not `certain`, may be cut
    body: re.Pattern[bytes] | None = None  # matches in a row after its head; elsewhere it shows a lost head
    evaluation: re.Pattern[bytes] | None = None  # start of an evaluation's line, in which `body` matches too
    record: re.Pattern[bytes] | None = None  # start of a log record within a line; None: records begin at line breaks
    rank: re.Pattern[bytes] | None = None  # start of the text before a row; group 1: the rank
    glued: Callable[[bytes], bool] | None = None  # whether the text before a row contains another record


def shape_of(text: bytes, width: int = 0) -> Shape:
    """Return the shape of a value's text. `width`: of the text with its padding, if it may be padded; else 0."""
    plain = text.lstrip(b"+-")
    if plain.isdigit():
        return "whole", width if width > len(text) else 0
    mantissa, _, exponent = plain.lower().partition(b"e")
    whole, point, decimals = mantissa.partition(b".")
    if whole.isdigit() and (decimals.isdigit() or not point) and (not exponent or exponent.lstrip(b"+-").isdigit()):
        return ("exponent" if exponent else "fixed"), len(decimals)
    return ("open" if plain.lower() in _OPEN else "word"), 0


def layout_of(line: bytes, row: Row, time: re.Pattern[bytes], start: bytes) -> Layout | None:
    """Return the layout of a row; None if a value is a word or the row's `tail` does not follow.

    start: pattern that matches before the row's line or record.
    """
    if any(one.shape[0] == "word" for one in row.fields) or not re.match(b"(?m:" + row.tail + b")", line[row.end :]):
        return None
    before = line[: row.begin]
    stamp = next(iter(list(time.finditer(before))[-1:]), None)
    first, stop = stamp.span(1) if stamp else (0, 0)
    parts = [start, _likely(before[:first]), b"(", _likely(before[first:stop]), b")", _likely(before[stop:]), b"()"]
    at = row.begin
    for one in row.fields:
        parts += [_literal(line[at : one.begin], one), b"(" + _number(one.shape) + b")"]
        at = one.end
    parts += [re.escape(line[at : row.end]), row.tail, b"" if row.certain else b"(?!%s)" % FOLDED.pattern]
    pattern = b"".join(parts)
    following = re.compile(rb"(?m)[\s\S]%s|" % pattern)
    return Layout(re.compile(b"(?m)" + pattern), following, row, stamp is not None, is_plain(before))


def _literal(text: bytes, one: Field) -> bytes:
    """Return a pattern that matches the text before a field, with the blanks that pad narrower or wider numbers."""
    plain = text.rstrip(b" ")
    kind, width = one.shape
    if kind == "whole" and width:
        blanks = width - (one.end - one.begin)
        return re.escape(text[: len(text) - blanks]) + rb"(?=[ \d]{%d}\d(?!\d)) *" % (width - 1)
    if kind == "padded":
        return re.escape(plain) + rb" (?: (?=\d\.)|(?=[-+\d]\d))"
    return re.escape(plain) + (b" " if text[len(plain) :] == b" " else b" +" if text.endswith(b" ") else b"")


def _likely(text: bytes) -> bytes:
    """Return a pattern for the text before a row: this text, also with other numbers.

    Numbers of 2, 3, 4, 6 or 8 digits (times and dates) keep their number of digits.
    """

    def likely_digits(found: re.Match[bytes]) -> bytes:
        count = len(found[0])
        return rb"\d{%d}" % count if count in (2, 3, 4, 6, 8) else rb"\d{1,%d}" % max(9, count)

    return _DIGITS.sub(likely_digits, re.escape(text))


def _number(shape: Shape) -> bytes:
    kind, digits = shape
    pattern = _PATTERNS[kind]
    return pattern % (rb"\.\d{%d}" % digits if digits else b"") if b"%s" in pattern else pattern


def read_layout(layout: Layout, rows: Sequence[bytes]) -> pl.DataFrame:
    """Return the rows as a table without `line` and `offset`. rows: the groups of each match, joined by SEPARATOR."""
    fields = {one.column: one for one in layout.row.fields}
    kinds = {"time": pl.String, "_": pl.String, **{name: _kind(one) for name, one in fields.items()}}
    frame = pl.read_csv(
        b"\n".join(rows), separator=SEPARATOR.decode(), has_header=False, quote_char=None, new_columns=list(kinds),
        schema_overrides=kinds, encoding="utf8-lossy",
    ).drop("_")  # fmt: skip
    texts = [] if layout.timed else [pl.lit(None, pl.String).alias("time")]
    for name, one in fields.items():
        if _is_scaled(one):  # avoids the rounding error of a division by 1000
            texts.append((pl.col(name) + "e-3").cast(pl.Float64))
        elif kinds[name] == pl.String:
            texts.append(pl.col(name).str.replace_all(",", "").str.to_lowercase().cast(pl.Float64))
    return frame.with_columns(texts)


def _is_scaled(one: Field) -> bool:
    return one.milli and one.shape[0] in ("whole", "fixed")


def _kind(one: Field) -> pl.DataType | type[pl.DataType]:
    if one.shape[0] in ("thousands", "open", "free") or _is_scaled(one):
        return pl.String
    return pl.Int64 if isinstance(one.value, int) else pl.Float64
