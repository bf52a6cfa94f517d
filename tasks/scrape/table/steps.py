"""Collects the rows of a log, window by window, into one table, and keeps account of what it could not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tasks.records import STEP_SCHEMA, UnreadLine
from tasks.scrape.prefixes import is_plain
from tasks.scrape.table.forms import Forms
from tasks.scrape.table.rows import Layout, Row, layout_of, read_layout

if TYPE_CHECKING:
    from tasks.scrape.dialects.dialect import Dialect
    from tasks.scrape.window import Window

BULK = 1 << 14  # bytes from which on a pattern of their own is worth its while
LAYOUTS, SAMPLE, ROUNDS = 16, 50, 4
LINE = 8192  # bytes of a row, and of what is read with it
BEFORE = 400  # bytes before a row in which its line begins
_PLACES = ("time", "line", "offset")

type Span = tuple[int, int]


class StepTable:
    """The rows read so far. `begun`: those of the current window, as (head, row, place) where they were asked for."""

    def __init__(self, dialect: Dialect, *, live: bool = False) -> None:
        self.dialect, self._bulk = dialect, 1 << 62 if live else BULK
        self.seen = self.parsed = 0
        self.unread: list[UnreadLine] = []
        self.glued: list[int] = []  # the lines of rows that share theirs
        self.cut = False  # the last row was cut off by the end of the text
        self.total: int | None = None  # steps that the run will make
        self.before = b""  # what stands before the first row that has something before it
        self.last_step: int | None = None
        self.first_offset = self.last_offset = (
            self.until
        ) = -1  # where the first and the last row begin, and the last ends
        self.single: list[dict[str, Any]] = []  # the rows of the current window that were read one by one
        self.forms = Forms(dialect.known, dialect.unfinished)
        self._usual: Row | None = None
        self._layouts: dict[Any, Layout] = {}
        self._frames: list[pl.DataFrame] = []
        self._steps, self._offsets = np.empty(0, np.int64), np.empty(0, np.int64)  # of the current window
        self._step_before: int | None = None  # the last of the windows before

    def add(self, window: Window) -> list[Span]:
        """Read the rows that start in a window; returns the stretches between them, in which other things may stand."""
        self.forms.measure(window)
        begin = max(window.start, self.until - window.base)
        frames: list[pl.DataFrame] = []
        gaps, self.single = [(begin, len(window.data))], []
        fresh = list(self._layouts.values())
        for _ in range(ROUNDS):
            for layout in fresh:
                gaps = self._read_alike(window, layout, gaps, frames)
            fresh = self._learn(window, gaps) if sum(min(b, window.limit) - a for a, b in gaps) > self._bulk else []
            if not fresh:
                break
        left = [gap for one in gaps for gap in self._read_singly(window, *one)]
        if self.single:
            frames.append(frame_of(self.single))
        self._keep(frames)
        return left

    def step_before(self, offset: int) -> int | None:
        """The step of the last row before an offset of the current window; None before the first."""
        index = int(np.searchsorted(self._offsets, offset)) - 1
        return int(self._steps[index]) if index >= 0 else self._step_before

    def frame(self) -> pl.DataFrame:
        """All rows in the order of the log, in the columns of `STEP_SCHEMA` with the other keys before the places."""
        frames, self._frames = self._frames, []
        frame = pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame(schema=STEP_SCHEMA)
        odd = self.forms.odd(frame)
        if odd:
            frame = frame.filter(~pl.col("offset").is_in([line.offset for line in odd]))
            gone = [key for key in frame.columns if key not in STEP_SCHEMA and frame[key].null_count() == frame.height]
            frame = frame.drop(gone)
            self.parsed -= len(odd)
            self.unread = sorted([*self.unread, *odd], key=lambda line: line.offset)
        frame = arrange(frame.drop("_width", strict=False))
        self._frames = [frame]
        return frame

    def _keep(self, frames: list[pl.DataFrame]) -> None:
        self._step_before = self.last_step
        self._steps, self._offsets = np.empty(0, np.int64), np.empty(0, np.int64)
        if not frames:
            return
        frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed").sort("offset")
        self._frames.append(frame)
        self.parsed += frame.height
        self._steps, self._offsets = frame["step"].to_numpy(), frame["offset"].to_numpy()
        self.first_offset = self.first_offset if self.first_offset >= 0 else int(self._offsets[0])
        self.last_step, self.last_offset = int(self._steps[-1]), int(self._offsets[-1])

    def _read_alike(self, window: Window, layout: Layout, gaps: list[Span], frames: list[pl.DataFrame]) -> list[Span]:
        """Read the rows of a layout; the stretches that are left."""
        left: list[Span] = []
        for begin, end in gaps:
            spans, heads, frame = read_layout(layout, window.data, begin, min(end, window.limit))
            if not spans:
                left.append((begin, end))
                continue
            place = np.array(heads, np.int64)
            lines, offsets = window.breaks.searchsorted(place) + window.line, place + window.base
            width = [b - a for a, b in spans] if not layout.row.certain else None
            frame = frame.with_columns(line=pl.Series(lines), offset=pl.Series(offsets))
            if self.dialect.rank is not None:
                ranks = [self._rank_of(window.data[a:b]) for (a, _), b in zip(spans, heads, strict=True)]
                frame = frame.with_columns(_rank=pl.Series(ranks, dtype=pl.Int64))
            if width:
                frame = frame.with_columns(_width=pl.Series(width, dtype=pl.Int64))
            frames.append(frame)
            self.seen += len(spans)
            self.total = layout.row.total or self.total
            self.until = max(self.until, spans[-1][1] + window.base)
            places = [self._begin_of(window, head) for head in heads[:20]] if self.forms.is_rare(layout.row) else []
            self.forms.add(layout.row, frame["step"].head(2000).to_list(), places)
            edges = np.array([(begin, begin), *spans, (end, end)], np.int64)
            wide = np.flatnonzero(edges[1:, 0] - edges[:-1, 1] > 1)
            left += zip(edges[wide, 1].tolist(), edges[wide + 1, 0].tolist(), strict=True)
        return left

    def _learn(self, window: Window, gaps: list[Span]) -> list[Layout]:
        """The layouts of the first rows that are left, but for those that are known."""
        fresh: dict[Any, Layout] = {}
        heads = (head for gap in gaps for head in self.dialect.head.finditer(window.data, *gap))
        for head in islice(heads, SAMPLE):
            if head.start() >= window.limit or len(self._layouts) + len(fresh) >= LAYOUTS:
                break
            begin, line, row = self._row_at(window, head.start())
            if row is None or row.form in self._layouts or row.form in fresh or not self.forms.admits(row):
                continue
            self.before = self.before or line[: row.begin]
            before = line[: row.begin]
            fits = (begin == 0 or window.data[begin - 1 : begin].isspace()) and not self.dialect.head.search(before)
            fits &= self.dialect.glued is None or not self.dialect.glued(before)
            is_record = self.dialect.record is not None and self.dialect.record.match(line)
            start = rb"(?<!\S)" if is_record else rb"^"
            if fits and (layout := layout_of(line, row, self.dialect.time, start, plain=is_plain(before))):
                fresh[row.form] = layout
        self._layouts |= fresh
        return list(fresh.values())

    def _row_at(self, window: Window, position: int) -> tuple[int, bytes, Row | None]:
        """(where its line or its record begins, the line, the row in it) of a row's head."""
        data = window.data
        begin = max(data.rfind(b"\n", max(0, position - BEFORE), position) + 1, position - BEFORE, 0)
        if self.dialect.record is not None:
            begin = max((match.start() for match in self.dialect.record.finditer(data, begin, position)), default=begin)
        stop = data.find(b"\n", position, position + LINE) + 1 or min(len(data), position + LINE)
        line, is_end = data[begin:stop], window.last and stop == len(data)
        if self._usual is None and self.dialect.first is not None:
            self._usual = self.dialect.first(list(self._first_rows(window)))
        return begin, line, self.dialect.parse(line, position - begin, self._usual, is_end)

    def _first_rows(self, window: Window) -> Iterator[tuple[bytes, int]]:
        for head in islice(self.dialect.head.finditer(window.data, window.start, window.limit), SAMPLE):
            stop = window.data.find(b"\n", head.start(), head.start() + LINE) + 1
            yield window.data[head.start() : stop or min(len(window.data), head.start() + LINE)], 0

    def _read_singly(self, window: Window, begin: int, end: int) -> Iterator[Span]:
        """Read the rows of a stretch one by one; what lies between them."""
        data, edge, known = window.data, begin, begin
        for head in self.dialect.head.finditer(data, begin, end):
            position = head.start()
            if position >= window.limit:
                break
            if position < known:
                continue
            first, line, row = self._row_at(window, position)
            self._refuse_headless(window, known, position)
            if row is None or not self.forms.admits(row):
                stop = data.find(b"\n", position, position + LINE)
                self._refuse(window, position)
                known = len(data) if stop < 0 else stop
                if following := self.dialect.head.search(data, head.end(), known):  # glued, it is another's
                    known = following.start()
                continue
            first = max(first, edge)
            self._take(window, position, first, line, row)
            known = position + row.end - row.begin
            if first - edge > 1:
                yield edge, first
            edge = known
        self._refuse_headless(window, known, min(end, window.limit))
        self.until = max(self.until, window.base + edge)
        if end - edge > 1:
            yield edge, end

    def _take(self, window: Window, position: int, first: int, line: bytes, row: Row) -> None:
        before, source = line[: row.begin], window.source(position)
        if self._usual is None or not _lacks(row.columns, self._usual.columns):
            self._usual = row
        self.before = self.before or before
        self.seen += 1
        self.total = row.total or self.total
        self.forms.add(row, [row.step], [self._begin_of(window, position)])
        is_glued = self.dialect.glued or (lambda _: first > 0 and not window.data[first - 1 : first].isspace())
        rest, record = line[row.end :], self.dialect.record
        # a record right behind it that is no row itself, or whatever follows where only that can be
        follows = record.match(rest) and not self.dialect.head.search(rest) if record else rest.strip()
        self.glued += [source.line] * (
            bool(is_glued(before)) + bool(follows) if record else bool(is_glued(before) or follows)
        )
        times = self.dialect.time.findall(before)
        text = line[row.begin : row.end].decode("utf-8", "replace")
        place: dict[str, Any] = {
            "time": times[-1].decode() if times else None, "line": source.line, "offset": source.offset,
        }  # fmt: skip
        if self.dialect.rank is not None:
            place["_rank"] = self._rank_of(before)
        if not row.certain:
            place["_width"] = row.end
        self.single.append({**{one.column: one.value for one in row.fields}, **place, "_text": text})

    def _rank_of(self, before: bytes) -> int | None:
        found = self.dialect.rank.match(before) if self.dialect.rank is not None else None
        return int(found[1]) if found else None

    def _refuse(self, window: Window, position: int) -> None:
        self.seen += 1
        self.unread.append(self._begin_of(window, position))
        self.cut |= window.last and window.is_last_line(position)

    def _refuse_headless(self, window: Window, begin: int, end: int) -> None:
        """Count the rows that lost their head, one a line."""
        if self.dialect.body is None:
            return
        while (found := self.dialect.body.search(window.data, begin, end)) is not None:
            self._refuse(window, found.start())
            begin = window.data.find(b"\n", found.start(), end)
            if begin < 0:
                return

    def _begin_of(self, window: Window, position: int) -> UnreadLine:
        source = window.source(position)
        text = window.data[position : position + 200].split(b"\n")[0].decode("utf-8", "replace")
        return UnreadLine(line=source.line, offset=source.offset, text=text)


def frame_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows to columns; a column in which any value is a word holds words."""
    keys = dict.fromkeys(key for row in rows for key in row if key != "_text")
    columns = {}
    for key in keys:
        values = [row.get(key) for row in rows]
        if any(isinstance(value, str) for value in values) and key not in STEP_SCHEMA:
            values = [None if value is None else str(value) for value in values]
        columns[key] = pl.Series(key, values, dtype=STEP_SCHEMA.get(key), strict=False)
    return pl.DataFrame(columns)


def arrange(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with the schema's columns in their order and the log's own between them."""
    other = [key for key in frame.columns if key not in STEP_SCHEMA]
    missing = [pl.lit(None, kind).alias(key) for key, kind in STEP_SCHEMA.items() if key not in frame.columns]
    named = [key for key in STEP_SCHEMA if key not in _PLACES]
    frame = frame.with_columns(*missing).select(*named, *other, *_PLACES)
    return frame.with_columns(pl.col(key).cast(kind, strict=False) for key, kind in STEP_SCHEMA.items())


def _lacks(keys: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether the keys are some of the others, but not all, in their order."""
    rest = iter(others)
    return len(keys) < len(others) and all(key in rest for key in keys)


def usual_jump(steps: Sequence[int]) -> int | None:
    """How many steps most often lie between two rows; None if nothing came twice: what happened once is no habit."""
    forward = Counter(after - before for before, after in pairwise(steps) if after > before)
    usual = min(forward, key=lambda jump: (-forward[jump], jump), default=1)
    return usual if forward[usual] > 1 else None


def gaps_between(steps: Sequence[int], interval: int | None = None) -> tuple[tuple[int, int], ...]:
    """(first, last) missing step of every gap. `interval`: how many steps a line stands for; None: the usual jump."""
    interval = interval or usual_jump(steps) or 1
    return tuple(
        (before + interval, after - interval) for before, after in pairwise(steps) if after - before > interval
    )
