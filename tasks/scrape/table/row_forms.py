"""Counts the forms of a log's rows. A row that lost text has a rare form.

A row is the line of a step. Its form is the printed number of all steps, and the key, column and number format of each
field.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from tasks.records.log_reading import UnreadLine
from tasks.scrape.table.row_grammar import Field, Row, RowGrammar, Shape
from tasks.scrape.window import Window

MAX_FORMS, MAX_KEYS = 400, 400  # most forms and most columns of a log; no trainer reaches them, and they bound memory
ALIKE = 3  # a terminal may have cut the lines if at least this number of rows is as long as the longest line
LOOSE = frozenset({"open", "general", "free", "word"})  # kinds that may stand beside any other kind in a column

type Way = tuple[str, Shape]  # how a number is printed: (key before the number, shape of the number)


class RowForms:
    """The forms of the rows read so far. Each form has a number and an example row."""

    def __init__(self, dialect: RowGrammar) -> None:
        self._known, self._unfinished = dialect.known, dialect.unfinished
        self._known_keys, self._late = dialect.keys, dialect.late
        self._numbers: dict[Any, int] = {}
        self._rows: dict[int, Row] = {}
        self._columns: dict[str, None] = {}
        self._widest = self._at_widest = 0  # length of the longest line in bytes; number of lines with this length

    @property
    def unknown(self) -> tuple[str, ...]:
        """The keys whose column no known version of the trainer prints, sorted."""
        fields = (one for row in self._rows.values() for one in row.fields[1:])
        return tuple(sorted({one.key for one in fields if one.column not in self._known}))

    def forget_known(self, is_known: Callable[[str], bool]) -> None:
        """Omit keys from `unknown` that the dialect knows by a rule."""
        fields = (one for row in self._rows.values() for one in row.fields)
        self._known |= {one.column for one in fields if is_known(one.key)}

    def measure_lines(self, window: Window) -> None:
        """Update the largest line length with the lines of a window."""
        inside = window.breaks[(window.breaks >= window.start) & (window.breaks < window.limit)]
        lengths = np.diff(inside, prepend=window.start - 1) - 1
        if lengths.size and (most := int(lengths.max())) >= self._widest:
            count = int(np.count_nonzero(lengths == most))
            self._at_widest = count + (self._at_widest if most == self._widest else 0)
            self._widest = most

    def admits(self, row: Row) -> bool:
        """Whether the limits on forms and keys allow this row."""
        if row.form in self._numbers:
            return True
        fresh = sum(key not in self._columns for key in row.columns[1:])
        return len(self._numbers) < MAX_FORMS and len(self._columns) + fresh <= MAX_KEYS

    def number_of(self, row: Row) -> int:
        """Return the number of a row's form: the value in the table's column `_form`."""
        number = self._numbers.setdefault(row.form, len(self._numbers))
        self._rows.setdefault(number, row)
        self._columns.update(dict.fromkeys(row.columns[1:]))
        return number

    def find_damaged(self, frame: pl.DataFrame) -> list[UnreadLine]:
        """Return the rows that lost text or may have been cut by a terminal.

        The keys of rows that lost text are omitted from `unknown` from then on.
        """
        step, rows = pl.col("step"), self._rows
        forms = (
            frame.select("_form", "step")
            .group_by("_form", maintain_order=True)
            .agg(pl.len(), first=step.min(), last=step.max(), steps=step.n_unique())
        )
        trusted = forms.filter([row["steps"] >= (2 if rows[row["_form"]].regular else 3) for row in forms.to_dicts()])
        usual = [rows[number] for number in trusted.sort("len", descending=True, maintain_order=True)["_form"]]
        ways = self._find_ways((rows[number], {first, last}) for number, _, first, last, _ in forms.rows())
        rare = [one for one in forms.join(trusted, on="_form", how="anti")["_form"] if not rows[one].whole]
        keys = {one.key for row in usual or rows.values() for one in row.fields}
        columns = self._find_columns(usual)
        odd = [
            number for number in rare
            if _is_damaged(rows[number], usual, ways) or self._repeats_letter(rows[number], keys)
            or _lacks_fields(rows[number], columns, is_short=not usual) or (usual and _has_torn_key(rows[number], keys))
        ]  # fmt: skip
        self._rows = {number: row for number, row in self._rows.items() if number not in odd}
        is_odd = pl.col("_form").is_in(odd)
        return _unread(frame.filter(is_odd), "printed like no other") + self._find_cut(frame.filter(~is_odd))

    def _find_columns(self, usual: Sequence[Row]) -> set[str]:
        """Return the columns that each row must have: of the most frequent form; all known ones if none is frequent."""
        most = set(usual[0].columns) if usual else set(self._columns).intersection(self._known)
        return most - self._late

    def _repeats_letter(self, row: Row, keys: set[str]) -> bool:
        """Whether a key of the row is one of `keys` or a known key with a letter printed twice, as in `mmemory`."""
        unknown = {one.key for one in row.fields} - self._known_keys
        twice = ((key, at) for key in unknown for at in range(1, len(key)) if key[at - 1] == key[at])
        return any(key[:at] + key[at + 1 :] in keys | self._known_keys for key, at in twice)

    def _find_ways(self, rows: Iterable[tuple[Row, set[int]]]) -> dict[str, set[Way]]:
        """Return column → accepted ways: those seen at more than one step.

        If no way of a column was seen twice, all its ways are accepted, or none if it is known and they contradict.
        """
        came: dict[str, dict[Way, set[int]]] = defaultdict(lambda: defaultdict(set))
        for row, steps in rows:
            for one in row.fields:
                came[one.column][one.key, one.shape] |= steps
        ways = {column: {way for way, steps in some.items() if len(steps) > 1} for column, some in came.items()}
        for column in (column for column, found in ways.items() if not found):
            known = column in self._known or column == "step"
            ways[column] = set() if known and _contradict([shape for _, shape in came[column]]) else set(came[column])
        return ways

    def _find_cut(self, frame: pl.DataFrame) -> list[UnreadLine]:
        """Return the rows as long as the longest line, if a terminal may have cut the last number of these rows."""
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


def _contradict(shapes: Sequence[Shape]) -> bool:
    """Whether numbers of these shapes cannot be in one column."""
    kinds = [kind for kind, _ in shapes if kind not in LOOSE]
    return len({width for _, width in shapes} - {0}) > 1 or (len(kinds) > 1 and set(kinds) != {"whole"})


def _is_damaged(row: Row, usual: list[Row], ways: dict[str, set[Way]]) -> bool:
    """Whether a row of a rare form lost text. `usual`: a row of each frequent form, the most frequent first."""
    other_run = usual and row.total not in {one.total for one in usual}
    return bool(not row.regular or other_run) or not all(_fits(one, ways[one.column]) for one in row.fields)


def _lacks_fields(row: Row, columns: set[str], *, is_short: bool) -> bool:
    """Whether the row lacks one of `columns` or, in a short log, any loss: all versions of all trainers print one."""
    lacks_loss = is_short and not any("loss" in column for column in row.columns)
    return not row.excused and (lacks_loss or not columns <= set(row.columns))


def _has_torn_key(row: Row, keys: set[str]) -> bool:
    """Whether a key of the row joins the start of one of `keys` and the end of another (either may be empty)."""
    return any(
        any(
            any(known.startswith(key[:at]) for known in keys) and any(known.endswith(key[at:]) for known in keys)
            for at in range(len(key) + 1)
        )
        for key in {one.key for one in row.fields} - keys
    )


def _fits(printed: Field, ways: set[Way]) -> bool:
    """Whether a number's key and shape are an accepted way of its column, or compatible with one."""
    kind, digits = printed.shape
    shapes = {shape for key, shape in ways if key == printed.key}  # another key of the column may have another unit
    kinds = {one for one, _ in shapes}
    if not shapes or printed.shape in shapes or kind in LOOSE or kinds <= {"open", "word"}:
        return bool(shapes)
    widths = {width for other, width in shapes if other == "whole"} - {0}
    # if a column pads whole numbers, a number without padding must fill the width
    outgrows = not widths or (not digits and printed.end - printed.begin >= min(widths))
    return kind == "whole" and ("general" in kinds or ("whole" in kinds and outgrows))
