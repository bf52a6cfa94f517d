"""Knows the forms in which a log prints its rows, and so tells a row that lost text from one of another form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tasks.records import UnreadLine
from tasks.scrape.table.rows import Field, Row, Shape

if TYPE_CHECKING:
    from tasks.scrape.window import Window

FORMS_MOST, KEYS_MOST = 400, 400  # more than any trainer prints: each key is a column of the table
FEW = 20  # rows of one form at one step
ALIKE = 3  # rows that end at one width


@dataclass
class Seen:
    """The rows of one form: one of them, how many, their first steps, and where they are while they are rare."""

    row: Row
    count: int = 0
    steps: set[int] = field(default_factory=set)
    places: list[UnreadLine] = field(default_factory=list)

    @property
    def rare(self) -> bool:
        """Whether it came at fewer steps than it takes to be believed."""
        return len(self.steps) < (2 if self.row.regular else 3)


class Forms:
    """The forms of the rows that were read so far. `known`: the columns that some version of the trainer prints;
    `unfinished`: those behind which every version prints more."""

    def __init__(self, known: frozenset[str], unfinished: frozenset[str]) -> None:
        self._known, self._unfinished = known, unfinished
        self._seen: dict[Any, Seen] = {}
        self._columns: dict[str, None] = {}
        self._widest = self._at_widest = 0  # bytes of the longest line, and how many lines have as many

    @property
    def unknown(self) -> tuple[str, ...]:
        """The keys that no known version prints."""
        keys = {one.key for seen in self._seen.values() for one in seen.row.fields[1:] if one.column not in self._known}
        return tuple(sorted(keys))

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
        if row.form in self._seen:
            return True
        fresh = sum(key not in self._columns for key in row.columns[1:])
        return len(self._seen) < FORMS_MOST and len(self._columns) + fresh <= KEYS_MOST

    def is_rare(self, row: Row) -> bool:
        """Whether the rows of this form came too seldom to be believed."""
        return row.form not in self._seen or self._seen[row.form].rare

    def count(self, row: Row) -> int:
        return self._seen[row.form].count if row.form in self._seen else 0

    def add(self, row: Row, steps: list[int], places: list[UnreadLine]) -> None:
        """Note rows of one form, of which `row` is one."""
        seen = self._seen.setdefault(row.form, Seen(row))
        self._columns.update(dict.fromkeys(row.columns[1:]))
        seen.count += len(steps)
        if seen.rare:
            seen.steps.update(steps)
            seen.places = [*seen.places, *places][:FEW] if seen.rare else []

    def odd(self, frame: pl.DataFrame) -> list[UnreadLine]:
        """The rows that lost text: those of a form that came at one step and does not go with the others; and those
        that may be cut, because they end where all long lines do. Their forms are forgotten."""
        trusted = [seen for seen in self._seen.values() if not seen.rare]
        odd = {form: seen for form, seen in self._seen.items() if seen.rare and self._is_odd(seen, trusted)}
        self._seen = {form: seen for form, seen in self._seen.items() if form not in odd}
        return [place for seen in odd.values() for place in seen.places] + self._cut(frame)

    def _is_odd(self, seen: Seen, trusted: list[Seen]) -> bool:
        if not trusted or not seen.row.regular:
            return not seen.row.regular
        row, usual = seen.row, max(trusted, key=lambda one: one.count)
        if row.total not in {one.row.total for one in trusted}:
            return True
        if not row.excused and set(usual.row.columns) - set(row.columns):
            return True
        shapes: dict[str, set[Shape]] = {}
        for one in trusted:
            for printed in one.row.fields:
                shapes.setdefault(printed.column, set()).add(printed.shape)
        return not all(_fits(printed, shapes.get(printed.column, {printed.shape})) for printed in row.fields)

    def _cut(self, frame: pl.DataFrame) -> list[UnreadLine]:
        """Rows whose last number may go on behind the width at which a terminal cuts."""
        if "_width" not in frame.columns:
            return []
        widest = frame.filter(pl.col("_width") == self._widest)
        last = {seen.row.fields[-1].column for seen in self._seen.values() if not seen.row.certain}
        others = self._at_widest > widest.height
        alone = last <= self._unfinished and frame["_width"].drop_nulls().n_unique() == 1
        if widest.height < ALIKE or not (others or alone):
            return []
        return [UnreadLine(line=line, offset=offset, text=f"step {step}, cut at {self._widest} characters")
                for step, line, offset in widest.select("step", "line", "offset").iter_rows()]  # fmt: skip


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
