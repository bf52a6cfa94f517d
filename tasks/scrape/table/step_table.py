"""Collects the rows (the lines of steps) of a log, window by window, into one table, and counts the unreadable rows.

A dialect's grammar reads the first rows of each form; a layout that is derived from such a row then reads the
rows printed like it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import polars as pl

from tasks.records.log_reading import STEP_SCHEMA, UnreadLine
from tasks.scrape.prefixes import is_plain, line_before, line_begin
from tasks.scrape.table.row_forms import RowForms
from tasks.scrape.table.row_grammar import FOLDED, SEPARATOR, Layout, Row, RowGrammar, layout_of, read_layout
from tasks.scrape.window import Window

LAYOUTS, LEARNT_FROM = 16, 3  # limit of layouts; a form's layout is derived from its third row
LINE = 8192  # limit of bytes of a row from the beginning of its head
_PLACES = ("time", "line", "offset")

type Span = tuple[int, int]
type Alike = tuple[list[bytes], list[int], list[int]]  # values, positions, end positions of rows with the same layout


class StepTable:
    """The rows read so far. `live`: the grammar reads every row, so that `single` contains all rows of a window."""

    def __init__(self, dialect: RowGrammar, *, live: bool = False) -> None:
        self.dialect, self._live = dialect, live
        self.seen = self.parsed = 0  # number of rows, readable or not; number of rows in the table
        self.unread: list[UnreadLine] = []
        self.glued: list[int] = []  # line numbers of rows that share their line with another record
        self.total: int | None = None  # printed number of steps of the run; None if not printed
        self.before = b""  # the first non-empty text before a row on its line, of the rows that the grammar read
        self.first_offset = self.last_offset = -1  # offsets of the first and of the last row; -1 without rows
        self.single: list[dict[str, Any]] = []  # rows of the current window that the grammar read
        self.forms = RowForms(dialect)
        self._until = -1  # offset of the end of the last row
        self._usual: Row | None = None  # the row to which the grammar compares others
        self._layouts: list[Layout] = []
        self._form_counts: Counter[Any] = Counter()  # row form → number of rows that the grammar read
        self._frames: list[pl.DataFrame] = []
        self._steps, self._offsets = np.empty(0, np.int64), np.empty(0, np.int64)  # of the rows in the current window
        self._step_before: int | None = None  # last step of the earlier windows

    def add(self, window: Window) -> list[Span]:
        """Read the rows that start in a window; returns the (begin, end) of the texts between rows."""
        self.forms.measure_lines(window)
        data, left, alike = window.data, list[Span](), dict[Layout, Alike]()
        edge = known = max(window.start, self._until - window.base)  # end of the last row; start of the next search
        self.single = []
        while (head := self.dialect.head.search(data, known)) and (position := head.start()) < window.limit:
            begin, layout, match = self._find_layout(data, position)
            if layout is not None and match is not None:
                first = begin if layout.plain else position
                self._refuse_headless(window, known, first)
                end = self._take_alike(window, layout, match, alike.setdefault(layout, ([], [], [])))
            else:
                self._refuse_headless(window, known, position)
                stop = data.find(b"\n", position, position + LINE) + 1 or min(len(data), position + LINE)
                line = data[begin:stop]
                row = self.dialect.parse(line, position - begin, self._usual, window.last and stop == len(data))
                folded = row is not None and not row.certain and FOLDED.match(data, begin + row.end)
                if row is None or folded or not self.forms.admits(row):
                    self._refuse(window, position)
                    known = stop - 1 if data[stop - 1 : stop] == b"\n" else len(data)
                    if following := self.dialect.head.search(data, head.end(), known):  # another row on this line
                        known = following.start()
                    continue
                first, end = max(begin, edge), position + row.end - row.begin
                self._take(window, position, first, line, row)
                first = first if is_plain(data[first:position]) else position
            if first - edge > 1:
                left.append((edge, first))
            edge = known = end
        self._refuse_headless(window, known, window.limit)
        self._until = max(self._until, window.base + edge)
        self._keep(window, alike)
        return [*left, (edge, len(data))] if len(data) - edge > 1 else left

    def step_before(self, offset: int) -> int | None:
        """Return the step of the last row before an offset in the current window; None before the first row."""
        index = int(np.searchsorted(self._offsets, offset)) - 1
        return int(self._steps[index]) if index >= 0 else self._step_before

    def frame(self) -> pl.DataFrame:
        """Return the undamaged rows in log order, with the columns of `arrange`; damaged rows become unread lines."""
        frames, self._frames = self._frames, []
        frame = pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame(schema=STEP_SCHEMA)
        if frames and (odd := self.forms.find_damaged(frame)):
            frame = frame.filter(~pl.col("offset").is_in([line.offset for line in odd]))
            gone = [key for key in frame.columns if key not in STEP_SCHEMA and frame[key].null_count() == frame.height]
            frame = frame.drop(gone)
            self.parsed -= len(odd)
            self.unread += odd
        frame = arrange_columns(frame.drop("_form", "_width", strict=False))
        self._frames = [frame]
        return frame

    def _find_layout(self, data: bytes, position: int) -> tuple[int, Layout | None, re.Match[bytes] | None]:
        """Return (start of a row's line or record, layout that matches the row or None, its match or None)."""
        begin = line_begin(data, position)
        if self.dialect.record is not None:  # of several records on a line, the last one is the row's
            begin = max((match.start() for match in self.dialect.record.finditer(data, begin, position)), default=begin)
        for layout in self._layouts:
            if (match := layout.pattern.match(data, begin)) and match.start(2) == position:
                return begin, layout, match
        return begin, None, None

    def _take_alike(self, window: Window, layout: Layout, match: re.Match[bytes], rows: Alike) -> int:
        """Read a row and the rows of the same layout right after it; returns the end of the last of these rows."""
        texts, heads, ends = rows
        following = layout.following.finditer(window.data, match.end()) if layout.plain else ()
        for one in chain([match], following):
            if not 0 <= (head := one.start(2)) < window.limit:
                break
            texts.append(SEPARATOR.join(one.groups()))
            heads.append(head)
            ends.append(one.end())
        return ends[-1]

    def _take(self, window: Window, position: int, first: int, line: bytes, row: Row) -> None:
        """Add a row that the grammar read. position: of the row's head; first: of the row's line or record."""
        before, source = line[: row.begin], window.source(position)
        if self._usual is None or not set(row.columns) < set(self._usual.columns):
            self._usual = row
        self.before = self.before or before
        self.seen += 1
        self.total = row.total or self.total
        is_glued = self.dialect.glued or (lambda _: first > 0 and not window.data[first - 1 : first].isspace())
        rest, record = line[row.end :], self.dialect.record
        # whether another record is after the row on the row's line
        follows = record.match(rest) and not self.dialect.head.search(rest) if record else rest.strip()
        glued = bool(is_glued(before))
        self.glued += [source.line] * (glued + bool(follows) if record else bool(glued or follows))
        times = self.dialect.time.findall(before)
        place: dict[str, Any] = {
            "time": times[-1].decode() if times else None, "line": source.line, "offset": source.offset,
            "_form": self.forms.number_of(row), "_text": line[row.begin : row.end].decode("utf-8", "replace"),
        }  # fmt: skip
        if self.dialect.rank is not None:
            place["_rank"] = self._rank_of(before)
        if not row.certain:
            place["_width"] = row.end
        self.single.append({**{one.column: one.value for one in row.fields}, **place})
        if not glued and not self.dialect.head.search(before) and first == position - row.begin:
            self._learn(line, row)

    def _learn(self, line: bytes, row: Row) -> None:
        """Derive the layout of a row if its form occurs for the LEARNT_FROM-th time; never if `live`."""
        self._form_counts[row.form] += 1
        if self._live or len(self._layouts) >= LAYOUTS or self._form_counts[row.form] != LEARNT_FROM:
            return
        is_record = self.dialect.record is not None and self.dialect.record.match(line)
        layout = layout_of(line, row, self.dialect.time, rb"(?<!\S)" if is_record else rb"^")
        self._layouts += [layout] if layout else []

    def _keep(self, window: Window, alike: dict[Layout, Alike]) -> None:
        """Add the rows of a window to the table: those that the grammar read, and those that a layout matched."""
        frames = [frame_of(self.single)] if self.single else []
        for layout, rows in alike.items():
            frames.append(self._with_places(window, layout, rows))
            self.seen += frames[-1].height
            self.total = layout.row.total or self.total
        self._step_before = self.step_before(window.base + len(window.data))
        self._steps, self._offsets = np.empty(0, np.int64), np.empty(0, np.int64)
        if not frames:
            return
        frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed").sort("offset")
        self._frames.append(frame)
        self.parsed += frame.height
        self._steps, self._offsets = frame["step"].to_numpy(), frame["offset"].to_numpy()
        self.first_offset = self.first_offset if self.first_offset >= 0 else int(self._offsets[0])
        self.last_offset = int(self._offsets[-1])

    def _with_places(self, window: Window, layout: Layout, rows: Alike) -> pl.DataFrame:
        texts, heads, ends = rows
        place = np.array(heads, np.int64)
        columns: dict[str, Any] = {
            "line": window.breaks.searchsorted(place) + window.line, "offset": place + window.base,
        }  # fmt: skip
        if self.dialect.rank is not None:
            before = (line_before(window.data, head) for head in heads)
            columns["_rank"] = pl.Series(map(self._rank_of, before), dtype=pl.Int64)
        if not layout.row.certain:
            widths = [end - line_begin(window.data, head) for head, end in zip(heads, ends, strict=True)]
            columns["_width"] = pl.Series(widths)
        form = pl.lit(self.forms.number_of(layout.row), pl.Int64)
        # rechunk: polars would copy columns with different chunks when the windows are concatenated
        return read_layout(layout, texts).with_columns(**columns, _form=form).rechunk()

    def _rank_of(self, before: bytes) -> int | None:
        found = self.dialect.rank.match(before) if self.dialect.rank is not None else None
        return int(found[1]) if found else None

    def _refuse(self, window: Window, position: int) -> None:
        self.seen += 1
        self.unread.append(window.unread(position))

    def _refuse_headless(self, window: Window, begin: int, end: int) -> None:
        """Refuse the rows without a head between two positions, at most one per line."""
        evaluation = self.dialect.evaluation
        while self.dialect.body and (found := self.dialect.body.search(window.data, begin, end)):
            before = line_begin(window.data, found.start())
            if evaluation is None or not evaluation.search(window.data, before, found.end()):
                self._refuse(window, max(begin, before))
            begin = window.data.find(b"\n", found.start(), end)
            if begin < 0:
                return


def frame_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Return rows as a table; a column outside STEP_SCHEMA that contains a word becomes text."""
    keys = dict.fromkeys(key for row in rows for key in row if key != "_text")
    columns = {}
    for key in keys:
        values = [row.get(key) for row in rows]
        if any(isinstance(value, str) for value in values) and key not in STEP_SCHEMA:
            values = [None if value is None else str(value) for value in values]
        columns[key] = pl.Series(key, values, dtype=STEP_SCHEMA.get(key), strict=False)
    return pl.DataFrame(columns)


def arrange_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table with the columns of STEP_SCHEMA in order, and the log's other keys before _PLACES."""
    other = [key for key in frame.columns if key not in STEP_SCHEMA]
    missing = [pl.lit(None, kind).alias(key) for key, kind in STEP_SCHEMA.items() if key not in frame.columns]
    named = [key for key in STEP_SCHEMA if key not in _PLACES]
    frame = frame.with_columns(*missing).select(*named, *other, *_PLACES)
    return frame.with_columns(pl.col(key).cast(kind, strict=False) for key, kind in STEP_SCHEMA.items())


def usual_jump(steps: Sequence[int]) -> int | None:
    """Return the most frequent positive distance of the steps of consecutive rows; None if no distance occurs twice."""
    forward = Counter(after - before for before, after in pairwise(steps) if after > before)
    usual = min(forward, key=lambda jump: (-forward[jump], jump), default=1)
    return usual if forward[usual] > 1 else None


def gaps_between(steps: Sequence[int], interval: int | None = None) -> tuple[tuple[int, int], ...]:
    """Return the (first, last) missing step of every gap. interval: steps from row to row; None: `usual_jump` or 1."""
    interval = interval or usual_jump(steps) or 1
    return tuple(
        (before + interval, after - interval) for before, after in pairwise(steps) if after - before > interval
    )
