"""Collects Megatron's rows, window by window, into one table, and keeps account of what it could not read."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.records import STEP_SCHEMA, UnreadLine
from tasks.scrape.megatron_forms import RowForms, form_of
from tasks.scrape.megatron_rows import BODY, KNOWN, Row, find_heads, parse_row
from tasks.scrape.megatron_template import Template, read_block, template_of
from tasks.scrape.ranks import is_glued, time_before
from tasks.scrape.row_table import frame_of
from tasks.scrape.step_frames import combine
from tasks.scrape.window import Window

type Span = tuple[int, int]

# below this many rows a pattern of their own costs more than it saves
TEMPLATE_FROM = 100
TEMPLATES_PER_WINDOW = 4
TEMPLATES_KEPT = 8
SAMPLE = 40
ROW_LENGTH = 4096  # a damaged row does not reach further
FEW = 100  # rows of one form at one iteration
FINAL = "number of nan iterations"


@dataclass
class RowTable:
    """The rows read so far. `offsets` and `steps` are those of the current window, ascending."""

    template_from: int = TEMPLATE_FROM
    seen: int = 0
    unread: list[UnreadLine] = field(default_factory=list)
    glued: set[int] = field(default_factory=set)
    cut: bool = False
    total: int | None = None
    last_step: int | None = None
    last_offset: int = -1
    until: int = 0  # offset behind the last row
    before_window: int | None = None  # the step of the last row before the current window
    offsets: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    steps: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _forms: RowForms = field(default_factory=RowForms)
    _templates: list[Template] = field(default_factory=list)
    _damaged: int = -ROW_LENGTH  # offset of the last head that was not read

    def add(self, window: Window) -> list[Span]:
        """Read the rows of a window; returns the stretches between them, in which other things may stand."""
        begin = max(window.start, self.until - window.base)
        gaps = [(begin, len(window.data))] if begin < len(window.data) else []
        frames: list[pl.DataFrame] = []
        for template in list(self._templates):
            gaps = self._read_template(window, template, gaps, frames)
        heads = _heads(window, gaps)
        for _ in range(TEMPLATES_PER_WINDOW):
            if len(heads) < self.template_from:
                break
            new = self._find_template(window, heads)
            if new is None:
                break
            self._templates = [new, *self._templates][:TEMPLATES_KEPT]
            gaps = self._read_template(window, new, gaps, frames)
            heads = _heads(window, gaps)
        rows: list[dict[str, Any]] = []
        spans: list[Span] = []
        damaged: list[int] = []
        for position in heads:
            if spans and position < spans[-1][1]:
                continue
            row = parse_row(window.data, position, last=window.last, final=self._final())
            if row is None or not self._forms.admits(row):
                damaged.append(position)
                self._refuse(window, position)
                continue
            spans.append((row.start, row.end))
            rows.append(self._take(window, row))
        if rows:
            frames.append(frame_of(rows))
        self._note_frames(frames)
        gaps = _without(gaps, spans)
        self._refuse_headless(window, gaps, damaged)
        if gaps:
            self.until = max(self.until, window.base + gaps[-1][0])
        return gaps

    def _read_template(
        self, window: Window, template: Template, gaps: list[Span], frames: list[pl.DataFrame]
    ) -> list[Span]:
        block = read_block(window, template, gaps)
        found = block.spans
        if not found:
            return gaps
        frames.append(block.frame)
        places = [
            UnreadLine(line=line, offset=offset, text=_begin(window.data, offset - window.base))
            for line, offset in block.frame.select("line", "offset").head(FEW).iter_rows()
        ]
        self._forms.add(template.form, template.row, block.frame["step"].to_list(), places)
        self.seen += len(found)
        self.total = template.row.total or self.total
        return _without(gaps, found)

    def _find_template(self, window: Window, heads: list[int]) -> Template | None:
        """The template of most of the first rows that are left; None if there is none that was not tried."""
        tried = {template.form for template in self._templates}
        rows: dict[Any, list[Row]] = {}
        for position in heads[:SAMPLE]:
            row = parse_row(window.data, position, last=window.last, final=self._final())
            if row is not None and not row.glued and self._forms.admits(row):
                rows.setdefault(form_of(row), []).append(row)
        for form, _ in Counter({form: len(alike) for form, alike in rows.items()}).most_common():
            template = template_of(window.data, rows[form][0]) if form not in tried else None
            if template is not None:
                return template
        return None

    def _take(self, window: Window, row: Row) -> dict[str, Any]:
        source = window.source(row.start)
        if row.glued or is_glued(window.data, row.start):
            self.glued.add(source.line)
        self.seen += 1
        self.total = row.total or self.total
        place = UnreadLine(line=source.line, offset=source.offset, text=_begin(window.data, row.start))
        self._forms.add(form_of(row), row, [row.step], [place])
        time = time_before(window, row.start)
        return {"step": row.step, **row.values, "time": time, "line": source.line, "offset": source.offset}

    def _refuse(self, window: Window, position: int) -> None:
        self.seen += 1
        source = window.source(position)
        self.unread.append(UnreadLine(line=source.line, offset=source.offset, text=_begin(window.data, position)))
        self._damaged = source.offset
        self.cut |= window.last and window.is_last_line(position)

    def _refuse_headless(self, window: Window, gaps: list[Span], damaged: list[int]) -> None:
        """Count the rows that lost their head; of a damaged head, the next body is its own."""
        heads = sorted([*damaged, self._damaged - window.base]) if damaged or self._damaged >= 0 else []
        own: set[tuple[int, bytes]] = set()
        for begin, end in gaps:
            for match in BODY.finditer(window.data, begin, end):
                if match.start() >= window.limit:
                    break
                kind = match[match.lastindex or 0]
                index = bisect_left(heads, match.start()) - 1
                near = index >= 0 and match.start() - heads[index] < ROW_LENGTH
                if near and (heads[index], kind) not in own:
                    own.add((heads[index], kind))
                    continue
                self._refuse(window, match.start())
                heads.insert(index + 1, match.start())
                own.add((match.start(), kind))

    def _note_frames(self, frames: list[pl.DataFrame]) -> None:
        self.before_window = self.last_step
        if not frames:
            self.offsets, self.steps = np.empty(0, np.int64), np.empty(0, np.int64)
            return
        frame = combine(frames).sort("offset")
        self._frames.append(frame)
        self.offsets, self.steps = frame["offset"].to_numpy(), frame["step"].to_numpy()
        self.last_step, self.last_offset = int(self.steps[-1]), int(self.offsets[-1])

    def _final(self) -> str:
        usual = self._forms.usual()
        return usual.row.keys[-1] if usual else FINAL

    def step_before(self, offset: int) -> int | None:
        """The iteration of the last row before an offset of the current window; None before the first."""
        index = int(np.searchsorted(self.offsets, offset)) - 1
        return int(self.steps[index]) if index >= 0 else self.before_window

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """The keys that no known version of the trainer prints."""
        return tuple(sorted({key for form in self._forms.seen for key in form.keys if key not in KNOWN}))

    def frame(self) -> pl.DataFrame:
        """All rows in the order of the log, without those that lost text."""
        if not self._frames:
            return pl.DataFrame(schema=STEP_SCHEMA)
        odd = self._forms.odd()
        frame = combine(self._frames)
        self.unread += [place for seen in odd for place in seen.places]
        gone = [place.offset for seen in odd for place in seen.places]
        if gone:
            frame = frame.filter(~pl.col("offset").is_in(gone))
            frame = frame.select(key for key in frame.columns if frame[key].null_count() < frame.height)
        self._frames = [_arranged(frame)]
        return self._frames[0]


def _arranged(frame: pl.DataFrame) -> pl.DataFrame:
    missing = [pl.lit(None, kind).alias(key) for key, kind in STEP_SCHEMA.items() if key not in frame.columns]
    frame = frame.with_columns(*missing)
    last = ["time", "line", "offset"]
    named = [key for key in STEP_SCHEMA if key not in last]
    other = [key for key in frame.columns if key not in STEP_SCHEMA]
    return frame.select(
        *(pl.col(key).cast(STEP_SCHEMA[key]) for key in named),
        *other,
        *(pl.col(key).cast(STEP_SCHEMA[key]) for key in last),
    )


def _heads(window: Window, gaps: list[Span]) -> list[int]:
    return [
        position for begin, end in gaps for position in find_heads(window.data, begin, end) if position < window.limit
    ]


def _without(gaps: list[Span], spans: list[Span]) -> list[Span]:
    """What is left of the gaps, apart from bare line breaks."""
    if not spans:
        return gaps
    edges = sorted(spans)
    left: list[Span] = []
    index = 0
    for begin, end in gaps:
        while index < len(edges) and edges[index][0] < end:
            first, last = edges[index]
            if first - begin > 2:
                left.append((begin, first))
            begin = max(begin, last)
            index += 1
        if end - begin > 2:
            left.append((begin, end))
    return left


def _begin(data: bytes, position: int) -> str:
    """How a line begins."""
    return data[position : position + 200].split(b"\n")[0].decode("utf-8", "replace")
