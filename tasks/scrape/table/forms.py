"""Knows the forms in which a log prints its rows, and so tells a row that lost text from one of another form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tasks.records import UnreadLine
from tasks.scrape.table.rows import Field, Row, Shape

if TYPE_CHECKING:
    from tasks.scrape.window import Window

FORMS_MOST, KEYS_MOST = 400, 400  # more than any trainer prints: each key is a column of the table
ALIKE = 3  # rows that end at one width


class Forms:
    """The forms of the rows that were read so far, each with its number and one of its rows. `known`: the columns that
    some version of the trainer prints; `unfinished`: those behind which every version prints more."""

    def __init__(self, known: frozenset[str], unfinished: frozenset[str]) -> None:
        self._known, self._unfinished = known, unfinished
        self._numbers: dict[Any, int] = {}
        self._rows: dict[int, Row] = {}
        self._columns: dict[str, None] = {}
        self._widest = self._at_widest = 0  # bytes of the longest line, and how many lines have as many

    @property
    def unknown(self) -> tuple[str, ...]:
        """The keys that no known version prints."""
        fields = (one for row in self._rows.values() for one in row.fields[1:])
        return tuple(sorted({one.key for one in fields if one.column not in self._known}))

    def measure(self, window: Window) -> None:
        """Note how long the lines of a window are."""
        inside = window.breaks[(window.breaks >= window.start) & (window.breaks < window.limit)]
        lengths = np.diff(inside, prepend=window.start - 1) - 1
        if lengths.size and (most := int(lengths.max())) >= self._widest:
            count = int(np.count_nonzero(lengths == most))
            self._at_widest = count + (self._at_widest if most == self._widest else 0)
            self._widest = most

    def admits(self, row: Row) -> bool:
        """Whether a row's form and its keys are no more than a trainer prints."""
        if row.form in self._numbers:
            return True
        fresh = sum(key not in self._columns for key in row.columns[1:])
        return len(self._numbers) < FORMS_MOST and len(self._columns) + fresh <= KEYS_MOST

    def number_of(self, row: Row) -> int:
        """The number of a row's form, which its rows have in the table's column `_form`."""
        number = self._numbers.setdefault(row.form, len(self._numbers))
        self._rows.setdefault(number, row)
        self._columns.update(dict.fromkeys(row.columns[1:]))
        return number

    def odd(self, frame: pl.DataFrame) -> list[UnreadLine]:
        """The rows that lost text: those of a form that came at one step and does not go with the others; and those
        that may be cut, because they end where all long lines do. Their forms are forgotten."""
        forms = frame.group_by("_form", maintain_order=True).agg(rows=pl.len(), steps=pl.col("step").n_unique())
        trusted = forms.filter([steps >= (2 if self._rows[number].regular else 3) for number, _, steps in forms.rows()])
        rows = [self._rows[number] for number in trusted.sort("rows", descending=True, maintain_order=True)["_form"]]
        rare = forms.join(trusted, on="_form", how="anti")["_form"].to_list()
        odd = [number for number in rare if _is_odd(self._rows[number], rows)]
        self._rows = {number: row for number, row in self._rows.items() if number not in odd}
        return _unread(frame.filter(pl.col("_form").is_in(odd)), "printed like no other") + self._cut(frame)

    def _cut(self, frame: pl.DataFrame) -> list[UnreadLine]:
        """Rows whose last number may go on behind the width at which a terminal cuts."""
        if "_width" not in frame.columns:
            return []
        widest = frame.filter(pl.col("_width") == self._widest)
        last = {row.fields[-1].column for row in self._rows.values() if not row.certain}
        others = self._at_widest > widest.height
        alone = last <= self._unfinished and frame["_width"].drop_nulls().n_unique() == 1
        if widest.height < ALIKE or not (others or alone):
            return []
        return _unread(widest, f"cut at {self._widest} characters")


def _unread(rows: pl.DataFrame, why: str) -> list[UnreadLine]:
    return [
        UnreadLine(line=line, offset=offset, text=f"step {step}, {why}")
        for step, line, offset in rows.select("step", "line", "offset").iter_rows()
    ]


def _is_odd(row: Row, trusted: list[Row]) -> bool:
    """Whether a row of a rare form lost text. `trusted`: one row of each other form, the most frequent first."""
    if not trusted or not row.regular:
        return not row.regular
    if row.total not in {one.total for one in trusted}:
        return True
    if not row.excused and set(trusted[0].columns) - set(row.columns):
        return True
    shapes: dict[str, set[Shape]] = {}
    for printed in (printed for one in trusted for printed in one.fields):
        shapes.setdefault(printed.column, set()).add(printed.shape)
    return not all(_fits(printed, shapes.get(printed.column, {printed.shape})) for printed in row.fields)


def _fits(printed: Field, shapes: set[Shape]) -> bool:
    """Whether a number is printed as others of its key are."""
    kind, digits = printed.shape
    if printed.shape in shapes or kind in ("open", "free", "word") or {one for one, _ in shapes} <= {"open", "word"}:
        return True
    widths = {width for other, width in shapes if other == "whole"} - {0}
    # a whole number that fills or outgrows its column has no padding left
    if kind == "whole" and any(other == "whole" for other, _ in shapes):
        return not widths or (not digits and printed.end - printed.begin >= min(widths))
    return False
