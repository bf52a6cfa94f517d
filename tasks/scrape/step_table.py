"""Collects the step lines of a log, window by window, into one table, and keeps account of what it could not read."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from tasks.records import STEP_SCHEMA, UnreadLine
from tasks.scrape.digits import Positions
from tasks.scrape.prefix import ABSL, prefix_of_step
from tasks.scrape.step_columns import StepColumns, Template, find_candidates, read_columns, template_of
from tasks.scrape.step_forms import StepForms, begin_of, find_usual, lacks
from tasks.scrape.step_frames import arrange, combine, frame_of_columns, frame_of_rows
from tasks.scrape.step_line import KNOWN_KEYS, LOOSE, StepLine, column_name, parse_step
from tasks.scrape.window import Window

_GLUED_PREFIX = re.compile(rb"(?<=\S)%s" % ABSL)
# what comes after a line that was not cut off by the end
_FOLLOWED = re.compile(rb"\n|%s|completed step|XPK End:|EXIT_CODE=" % ABSL)
# below this many lines the columns cost more than they save
COLUMNS_FROM = 200
TEMPLATES_PER_WINDOW = 4
UNREAD_SHOWN = 20
_SPACES = np.frombuffer(b" \t\r\n", np.uint8)


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
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _forms: StepForms = field(default_factory=StepForms)
    _before: StepLine | None = None
    _template: Template | None = None

    def add(self, window: Window) -> list[tuple[int, int]]:
        """Read the step lines of a window; returns the stretches between them, in which other things may stand."""
        data = window.data
        if self._before is None:
            self._before = find_usual(window)
        spans: list[tuple[Positions, Positions]] = []
        frames: list[pl.DataFrame] = []
        for columns in self._read_columns(window):
            self.seen += len(columns.start)
            spans.append((columns.record, columns.end))
            frames.append(frame_of_columns(window, columns))
            before = np.frombuffer(window.data, np.uint8)[columns.record - 1]
            self.glued += int(np.count_nonzero(~np.isin(before, _SPACES)))
        rest = [
            match.start()
            for begin, end in _gaps(spans, window)
            for match in LOOSE.finditer(data, begin, end)
            if match.start() < window.limit
        ]
        self.seen += len(rest)
        single: list[tuple[int, int]] = []
        rows = [row for p in rest if (row := self._read_one(window, p, single)) is not None]
        if rows:
            frames.append(frame_of_rows(rows))
            spans.append((np.array([begin for begin, _ in single]), np.array([end for _, end in single])))
        if frames:
            frame = frames[0] if len(frames) == 1 else combine(frames).sort("offset")
            self.parsed += frame.height
            self._frames.append(frame)
        gaps = _gaps(spans, window)
        for begin, end in gaps:
            found = _GLUED_PREFIX.finditer(data, begin, end)
            self.glued += sum(1 for match in found if match.start() < window.limit)
        return gaps

    def _read_columns(self, window: Window) -> list[StepColumns]:
        """The lines that fit the template of the lines before; where many do not, a new template is tried."""
        commas, candidates = find_candidates(window)
        found: list[StepColumns] = []
        for _ in range(TEMPLATES_PER_WINDOW):
            if len(candidates) < self.columns_from:
                break
            if self._template is None:
                self._template = self._find_template(window, commas, candidates)
                if self._template is None:
                    break
            columns, used = read_columns(window, self._template, commas, candidates)
            if columns.start.size:
                found.append(columns)
                self._forms.add(window, int(columns.start[0]), self._template.keys, len(columns.start))
            candidates = candidates[~used]
            if len(candidates) >= self.columns_from:
                self._template = None
        return found

    def _find_template(self, window: Window, commas: np.ndarray[Any, Any], candidates: Any) -> Template | None:
        """The template of the longest of the first lines that are left."""
        lines = []
        for comma in commas[candidates[:20]].tolist():
            head = window.data.rfind(b"completed", max(0, comma - 60), comma)
            line = parse_step(window.data, head, last=window.last, before=self._before) if head >= 0 else None
            if line is not None:
                lines.append(line)
        if not lines:
            return None
        longest = max(lines, key=lambda line: len(line.fields))
        self._note(window, longest)
        return template_of(window.data, longest)

    def _note(self, window: Window, line: StepLine) -> None:
        """Remember what a line that was read tells about the others."""
        if self._before is None or not lacks(line.keys, self._before.keys):
            self._before = line
        self.keys.update(dict.fromkeys(line.keys))
        if self.source_file is None:
            prefix = prefix_of_step(window.data, line.start)
            self.source_file = prefix.source if prefix else None

    def _read_one(self, window: Window, position: int, spans: list[tuple[int, int]]) -> dict[str, Any] | None:
        line = parse_step(window.data, position, last=window.last, before=self._before)
        prefix = prefix_of_step(window.data, position)
        begin = prefix.start if prefix else position
        source = window.source(position)
        if line is None:
            if len(self.unread) < UNREAD_SHOWN:
                self.unread.append(begin_of(window, position))
            self.cut |= window.last and not _FOLLOWED.search(window.data, position + 1)
            return None
        self.glued += begin > 0 and not window.data[begin - 1 : begin].isspace()
        self._note(window, line)
        # profiler and rampup steps lack fields by design
        if window.data.startswith(b"completed step", position) and window.data[position - 3 : position] != b"], ":
            self._forms.add(window, position, line.keys)
        spans.append((begin, line.end))
        row: dict[str, Any] = {column_name(f.key): f.value for f in line.fields}
        return {"step": line.step, **row, "time": prefix and prefix.time, "line": source.line, "offset": source.offset}

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """The keys that no known version of the trainer prints."""
        return tuple(sorted(key for key in self.keys if key not in KNOWN_KEYS))

    def frame(self, first_day: datetime | None) -> pl.DataFrame:
        """All step lines in the order of the log; `time` is ISO 8601 if the day of the run's start is known."""
        if not self._frames:
            return pl.DataFrame(schema=STEP_SCHEMA)
        self._frames = [self._without_odd_lines(combine(self._frames))]
        return arrange(self._frames[0], first_day)

    def _without_odd_lines(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Take back the lines from which text was lost; a key that only they had was no key."""
        odd = self._forms.take_odd()
        if not odd:
            return frame
        self.parsed -= len(odd)
        self.unread = sorted([*self.unread, *odd.values()], key=lambda line: line.offset)[:UNREAD_SHOWN]
        frame = frame.filter(~pl.col("offset").is_in([line.offset for line in odd.values()]))
        gone = {key for keys in odd for key in keys if frame[column_name(key)].null_count() == frame.height}
        for key in gone:
            self.keys.pop(key, None)
        return frame.drop([column_name(key) for key in gone if column_name(key) not in STEP_SCHEMA])


def _gaps(spans: list[tuple[Positions, Positions]], window: Window) -> list[tuple[int, int]]:
    """What lies between the spans of a window and is more than a line break."""
    size = len(window.data)
    if not spans:
        return [(window.start, size)] if window.start < window.limit else []
    starts = np.concatenate([span[0] for span in spans])
    ends = np.concatenate([span[1] for span in spans])
    order = np.argsort(starts, kind="stable")
    begins = np.concatenate([[window.start], ends[order]])
    stops = np.concatenate([starts[order], [size]])
    wide = stops - begins > 2
    wide[-1] = begins[-1] < window.limit
    return list(zip(begins[wide].tolist(), stops[wide].tolist(), strict=True))
