"""Collects the step lines of a log, window by window, into one table, and keeps account of what it could not read."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from tasks.records import STEP_SCHEMA, UnreadLine
from tasks.scrape.consistent import Agreement, find_contradicting
from tasks.scrape.digits import Positions
from tasks.scrape.headless import headless_in
from tasks.scrape.layout import layout_of
from tasks.scrape.places import LEAST_ROWS, Place, find_place, read_places
from tasks.scrape.prefix import ABSL, prefix_of_step
from tasks.scrape.rows import read_rows
from tasks.scrape.step_columns import StepColumns, merge
from tasks.scrape.step_forms import StepForms, begin_of, find_usual, lacks
from tasks.scrape.step_line import KNOWN_KEYS, StepLine, column_name, parse_step
from tasks.scrape.step_pieces import LEARN_FROM, Known, Piece, join_pieces, make_piece, read_known
from tasks.scrape.stretches import find_gaps, loose_in, size_of, spans_of
from tasks.scrape.widths import read_widths, template_of
from tasks.scrape.window import Window

_PREFIX = re.compile(ABSL)
# a head whose fields were lost before the next one: there may be millions
_EMPTY = re.compile(rb"completed step: ?\d{0,18},?[ \t]*completed step")
# what comes after a line that was not cut off by the end
_FOLLOWED = re.compile(rb"\n|%s|completed step|XPK End:|EXIT_CODE=" % ABSL)
# below this many lines a new layout costs more than it saves
COLUMNS_FROM = 32
LAYOUTS = 32  # of a sample
TEMPLATES = 4
SAMPLE = 512
ROUNDS = 16
PLACES = 256
UNREAD_SHOWN = 20
KEYS_MOST = 400
_SEVERITY = np.isin(np.arange(256), np.frombuffer(b"IWEF", np.uint8))
_DIGIT = np.isin(np.arange(256), np.frombuffer(b"0123456789", np.uint8))
_NO_SPACE = ~np.isin(np.arange(256), np.frombuffer(b" \t\r\n", np.uint8))


@dataclass
class StepTable:
    """The step lines read so far."""

    columns_from: int = COLUMNS_FROM
    seen: int = 0
    parsed: int = 0
    glued: int = 0
    unread: list[UnreadLine] = field(default_factory=list)
    cut: bool = False  # the last step line was cut off by the end of the text
    source_file: str | None = None
    keys: dict[str, None] = field(default_factory=dict)
    first_day: datetime | None = None  # of the run, as far as it is known
    in_order: bool = False  # it is known that each step is the one after that before it; told by `frame`
    _pieces: list[Piece] = field(default_factory=list)
    _read: tuple[Window, list[StepColumns], list[dict[str, Any]]] | None = None  # not yet made a piece
    _forms: StepForms = field(default_factory=StepForms)
    _odd: list[int] = field(default_factory=list)  # offsets of lines that were taken back
    _before: StepLine | None = None
    _places: dict[tuple[bytes, int, int], Place] = field(default_factory=dict)

    def places(self) -> tuple[Place, ...]:
        """Where lines of known layouts are looked for."""
        return tuple(reversed(self._places.values()))  # the newest first: a log's numbers grow

    def add(self, window: Window, known: Known | None = None) -> list[tuple[int, int]]:
        """Read the step lines of a window; returns the stretches between them, in which other things may stand.

        `known`: what `read_known` found in the window; it is looked for here if not given.
        """
        self._make_piece(self.first_day)
        if self._before is None:
            self._before = find_usual(window)
        known = known or read_known(window, self.places(), self.first_day)
        columns, gaps = known.columns, known.gaps
        for _ in range(ROUNDS):
            if size_of(gaps, window) < LEARN_FROM:
                break
            taken = [some.record for some in columns]
            learned = read_places(window, self._learn(window, gaps))
            fresh = [
                some.pick(~np.isin(some.record, np.concatenate(taken), kind="table")) if taken else some
                for some in learned
            ]
            if not any(len(some.record) for some in fresh):
                break
            columns = merge([*columns, *(some for some in fresh if len(some.record))])
            gaps = find_gaps(spans_of(columns), window)
        rest = known.rest if columns is known.columns else None
        if rest is None:
            rest = np.array(list(loose_in(window, gaps)), np.int64)
        found: list[StepColumns] = []
        for _ in range(TEMPLATES):
            if rest.size < self.columns_from:
                break
            more, rest = self._read_any_width(window, rest)
            if not more:
                break
            found += more
        if found:
            columns = merge([*columns, *found])
        for some in columns:
            self._account(window, some)
        self.seen += rest.size
        single: list[tuple[int, int]] = []
        rows = [row for p in rest.tolist() if (row := self._read_one(window, p, single)) is not None]
        self.parsed += len(rows) + sum(len(some.start) for some in columns)
        if known.piece is not None:
            self._pieces.append(known.piece)
        else:  # later, when what else the window holds may have told the day
            self._read = window, columns, rows
        if rows or found:
            spans = [*spans_of(columns), *((np.array([begin]), np.array([end])) for begin, end in single)]
            gaps = find_gaps(spans, window)
        for begin, end in gaps:
            self.glued += _count_glued(window, begin, min(end, window.limit))
        read = {row["offset"] - window.base for row in rows}
        for position in headless_in(window, gaps, [p for p in rest.tolist() if p not in read]):
            self.seen += 1
            self.unread = [*self.unread, begin_of(window, position)][:UNREAD_SHOWN]
        return gaps

    def _make_piece(self, day: datetime | None) -> None:
        """Make a piece of the table of what was read last, if it is none yet."""
        if self._read is not None and (piece := make_piece(*self._read, day)) is not None:
            self._pieces.append(piece)
        self._read = None

    def _account(self, window: Window, columns: StepColumns) -> None:
        self.seen += len(columns.start)
        text, record = np.frombuffer(window.data, np.uint8), columns.record
        apart = np.ones(len(record), np.bool_)  # a row right behind the byte that ended another is not glued
        np.not_equal(record[1:], columns.end[:-1] + 1, out=apart[1:])
        before = record[apart] - 1
        self.glued += int(np.count_nonzero(_NO_SPACE[text[before[before >= 0]]]))
        first = int(columns.start[0])
        if window.data[first - 3 : first] != b"], ":  # rampup steps lack fields by design
            self._forms.add(window, first, columns.keys, columns.step)

    def _learn(self, window: Window, gaps: list[tuple[int, int]]) -> list[Place]:
        """Where lines like the first ones in the gaps stand."""
        rest = np.array(list(islice(loose_in(window, gaps), SAMPLE)), np.int64)
        places: list[Place] = []
        for _ in range(LAYOUTS):
            if len(rest) < max(LEAST_ROWS, self.columns_from):
                break
            line = parse_step(window.data, int(rest[0]), last=window.last, before=self._before)
            layout = layout_of(window.data, line) if line else None
            if line is None or layout is None:
                rest = rest[1:]
                continue
            lines = window.line + np.searchsorted(window.breaks, rest)
            found, used = read_rows(window, [layout], rest - layout.head, lines)
            self._note(window, line)
            rest = rest[~used]
            place = find_place(window, layout, found[0]) if found else None
            if place is not None:
                places.append(place)
                if len(self._places) < PLACES:
                    self._places.setdefault(place.key, place)
        return places

    def _read_any_width(self, window: Window, rest: Positions) -> tuple[list[StepColumns], Positions]:
        """The lines with keys and decimals like the longest of the first lines, and the positions of the others."""
        lines = (parse_step(window.data, p, last=window.last, before=self._before) for p in rest[:20].tolist())
        longest = max((line for line in lines if line), key=lambda line: len(line.fields), default=None)
        template = template_of(window.data, longest) if longest else None
        if longest is None or template is None:
            return [], rest
        self._note(window, longest)
        columns, used = read_widths(window, template, rest)
        return ([columns] if len(columns.start) else []), rest[~used]

    def _note(self, window: Window, line: StepLine) -> None:
        """Remember what a line that was read tells about the others."""
        if self._before is None or not lacks(line.keys, self._before.keys):
            self._before = line
        self.keys.update(dict.fromkeys(line.keys))
        if self.source_file is None:
            prefix = prefix_of_step(window.data, line.start)
            self.source_file = prefix.source if prefix else None

    def _read_one(self, window: Window, position: int, spans: list[tuple[int, int]]) -> dict[str, Any] | None:
        line = None
        if not _EMPTY.match(window.data, position):
            line = parse_step(window.data, position, last=window.last, before=self._before)
        if line is None or self._brings_too_many(line):
            if len(self.unread) < UNREAD_SHOWN:
                self.unread.append(begin_of(window, position))
            self.cut |= window.last and not _FOLLOWED.search(window.data, position + 1)
            return None
        prefix = prefix_of_step(window.data, position)
        begin = prefix.start if prefix else position
        source = window.source(position)
        self.glued += begin > 0 and not window.data[begin - 1 : begin].isspace()
        self._note(window, line)
        # profiler and rampup steps lack fields by design
        if window.data.startswith(b"completed step", position) and window.data[position - 3 : position] != b"], ":
            self._forms.add(window, position, line.keys, [line.step])
        spans.append((begin, line.end))
        row: dict[str, Any] = {column_name(f.key): f.value for f in line.fields}
        return {"step": line.step, **row, "time": prefix and prefix.time, "line": source.line, "offset": source.offset}

    def _brings_too_many(self, line: StepLine) -> bool:
        """Whether a line's keys are more than a trainer prints: each is a column of the table."""
        fresh = sum(key not in self.keys for key in line.keys)
        return fresh > 0 and len(self.keys) + fresh > KEYS_MOST

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """The keys that no known version of the trainer prints."""
        return tuple(sorted(key for key in self.keys if key not in KNOWN_KEYS))

    def frame(self, first_day: datetime | None) -> pl.DataFrame:
        """All step lines in the order of the log; `time` is ISO 8601 if the day of the run's start is known."""
        self._make_piece(first_day)
        frame, agreement = join_pieces(self._pieces, first_day)
        if agreement is None:
            return frame
        kept = self._without_contradicting(self._without_odd_lines(frame), agreement)
        self.in_order = agreement.in_order and kept.height == frame.height
        return kept

    def _without_contradicting(self, frame: pl.DataFrame, agreement: Agreement) -> pl.DataFrame:
        """Take back the lines whose numbers cannot be right next to those of the others."""
        wrong = find_contradicting(frame, agreement)
        if not wrong.any():
            return frame
        rows = frame.filter(wrong).select("step", "line", "offset").rows()
        self._odd += [offset for _, _, offset in rows]
        self.parsed -= len(rows)
        unread = [UnreadLine(line=line, offset=offset, text=f"completed step: {step}") for step, line, offset in rows]
        self.unread = sorted([*self.unread, *unread], key=lambda line: line.offset)[:UNREAD_SHOWN]
        return frame.filter(~wrong)

    def _without_odd_lines(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Take back the lines from which text was lost; a key that only they had was no key."""
        odd = self._forms.take_odd()
        lines = [line for places in odd.values() for line in places]
        self._odd += [line.offset for line in lines]
        if not self._odd:
            return frame
        self.parsed -= len(lines)
        self.unread = sorted([*self.unread, *lines], key=lambda line: line.offset)[:UNREAD_SHOWN]
        frame = frame.filter(~pl.col("offset").is_in(self._odd))
        gone = {key for keys in odd for key in keys if frame[column_name(key)].null_count() == frame.height}
        for key in gone:
            self.keys.pop(key, None)
        return frame.drop([column_name(key) for key in gone if column_name(key) not in STEP_SCHEMA])


def _count_glued(window: Window, begin: int, end: int) -> int:
    """How many records in a stretch start right behind other text. Found by three bytes first: few places have them."""
    text = np.frombuffer(window.data, np.uint8)[max(begin, 1) - 1 : end + 1]
    if len(text) < 3:
        return 0
    maybe = np.flatnonzero(_SEVERITY[text[1:-1]] & _DIGIT[text[2:]] & _NO_SPACE[text[:-2]]) + max(begin, 1)
    return sum(1 for position in maybe.tolist() if _PREFIX.match(window.data, position))
