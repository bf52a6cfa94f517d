"""Turns a log that is still growing into events, as its bytes arrive."""

import re

import polars as pl

from configs.schema import Frozen
from tasks.records import LogError
from tasks.scrape.anchors import find_anchors
from tasks.scrape.death import DeathLog
from tasks.scrape.dialects import Dialect, open_reader, recognise
from tasks.scrape.live import LiveText
from tasks.scrape.maxtext import FORMAT as MAXTEXT
from tasks.scrape.prefix import PREFIX, prefix_of_step
from tasks.scrape.step_line import LOOSE, StepLine, parse_step
from tasks.scrape.window import CONTEXT, Window

LONGEST_TEXT = 2_000  # bytes of a step's line that an event carries


class StepCompleted(Frozen):
    """A step line; seconds and loss are None where the line has none. `text` is the line without its prefix."""

    step: int
    seconds: float | None
    loss: float | None
    text: str
    line: int
    offset: int


class CheckpointStarted(Frozen):
    """A save began. It may never be committed."""

    step: int
    path: str | None
    line: int
    offset: int


class CheckpointCommitted(Frozen):
    """The log shows that a checkpoint is complete."""

    step: int
    path: str
    line: int
    offset: int


class Died(Frozen):
    """The run ended badly, and its log says why."""

    error: LogError


class Ended(Frozen):
    """The frame around the run closed."""

    exit_code: int
    line: int
    offset: int


type LogEvent = StepCompleted | CheckpointStarted | CheckpointCommitted | Died | Ended


class LogFollower:
    """Reads a log in pieces that may be cut anywhere. A line counts once it is whole, so nothing is read by half.

    Lines and offsets are those of the text without what is taken off it (see `live`), as in a reading.
    """

    def __init__(self) -> None:
        self._data = b""
        self._base = 0
        self._line = 1
        self._done = 0  # everything before this position was reported
        self._before: StepLine | None = None
        self._saving: set[int] = set()  # steps whose save was announced and not yet committed
        self._death = DeathLog()
        self._last_step = -1
        self._ordered = False  # the step lines have the logger's prefix
        self._ended = False
        self._live = LiveText()
        self._dialect: Dialect | None = None  # of other trainers than MaxText

    def feed(self, data: bytes) -> list[LogEvent]:
        """Take in what the log gained; returns what happened in it, in order."""
        self._data += self._live.feed(data)
        return self._advance(self._find_end(), last=False)

    def close(self) -> list[LogEvent]:
        """The log gains nothing more: what its last, unfinished line and a missing end tell."""
        self._data += self._live.close()
        events = self._advance(len(self._data), last=True)
        if not self._ended:
            window = Window(self._data, self._base, self._line, self._done, self._done, last=True)
            events += self._died(window)
        return events

    def _find_end(self) -> int:
        """Up to where the text is whole: the last line break, or the last record on a line that has lost them."""
        end = self._data.rfind(b"\n", self._done) + 1 or self._done
        for match in PREFIX.finditer(self._data, end):
            end = max(end, match.start())
        return end

    def _advance(self, end: int, *, last: bool) -> list[LogEvent]:
        if end <= self._done:
            return []
        window = Window(self._data, self._base, self._line, self._done, end, last=last)
        found: list[tuple[int, list[LogEvent]]] = []
        for match in LOOSE.finditer(self._data, self._done, end):
            found.append((match.start(), self._take_step(window, match.start(), last=last)))
        for name, match in find_anchors(window, self._done, end):
            found.append((match.start(), self._take_anchor(name, match, window)))
        found += self._read_rows(end)
        found.sort(key=lambda hit: hit[0])
        self._death.settle(window)
        self._forget(end)
        return [event for _, events in found for event in events]

    def _take_step(self, window: Window, position: int, *, last: bool) -> list[LogEvent]:
        # the line to hold it against may itself be the damaged one
        line = parse_step(window.data, position, last=last, before=self._before) or parse_step(
            window.data, position, last=last, before=None
        )
        if line is None:
            return []
        self._before = line
        source = window.source(position)
        self._last_step = source.offset
        self._ordered |= prefix_of_step(window.data, line.start) is not None
        values = {field.key: field.value for field in line.fields}
        seconds, loss = (value if isinstance(value := values.get(key), float) else None for key in ("seconds", "loss"))
        text = window.data[line.start : line.end].decode("utf-8", "replace")
        return [
            StepCompleted(step=line.step, seconds=seconds, loss=loss, text=text, line=source.line, offset=source.offset)
        ]

    def _read_rows(self, end: int) -> list[tuple[int, list[LogEvent]]]:
        """The steps and checkpoints of other dialects: their readers read what is new, with the lines before it."""
        dialect = recognise(self._data[self._done : end]) if self._dialect is None and self._before is None else None
        if dialect is not None and dialect.format != MAXTEXT:
            self._dialect = dialect
        if self._dialect is None:
            return []
        begin = self._data.rfind(b"\n", 0, max(0, self._done - CONTEXT)) + 1
        line = self._line + self._data.count(b"\n", 0, begin)
        reader = open_reader(self._dialect)
        reader.feed(Window(self._data[begin:end], self._base + begin, line, 0, end - begin, last=True))
        run = reader.finish(name="", span=(begin, end))
        found: list[tuple[int, list[LogEvent]]] = []
        for row in run.steps.filter(pl.col("offset") >= self._base + self._done).iter_rows(named=True):
            position = row["offset"] - self._base
            self._last_step = row["offset"]
            text = self._data[position : position + LONGEST_TEXT].split(b"\n")[0].decode("utf-8", "replace").rstrip()
            event = StepCompleted(
                step=row["step"], seconds=row["seconds"], loss=row["loss"], text=text, line=row["line"],
                offset=row["offset"],
            )  # fmt: skip
            found.append((position, [event]))
        return found

    def _take_anchor(self, name: str, match: re.Match[bytes], window: Window) -> list[LogEvent]:
        source = window.source(match.start())
        self._death.take(name, match, window)
        match name:
            case "save_path" | "save_announced":
                step = int(match[2] if name == "save_path" else match[1])
                if step in self._saving:
                    return []
                self._saving.add(step)
                path = match[1].decode("utf-8", "replace") if name == "save_path" else None
                return [CheckpointStarted(step=step, path=path, line=source.line, offset=source.offset)]
            case "save_committed":
                step, path = int(match[2]), match[1].decode("utf-8", "replace")
                return [CheckpointCommitted(step=step, path=path, line=source.line, offset=source.offset)]
            case "start":
                self._ended = False  # tried again in the same log
            case "exit_code":
                code, self._ended = int(match[1]), True
                ended = Ended(exit_code=code, line=source.line, offset=source.offset)
                return [*self._died(window), ended]
        return []

    def _died(self, window: Window) -> list[LogEvent]:
        """The cause of death, if there is one. Tracebacks are read only now that they are whole."""
        self._death.settle(window, last=True)
        error = self._death.cause(last_step=self._last_step, ordered=self._ordered)
        return [] if error is None else [Died(error=error)]

    def _forget(self, end: int) -> None:
        """Drop what was reported, but for what stands before the next line and for a traceback under way."""
        self._done = end
        keep = end - CONTEXT
        if self._death.pending:
            keep = min(keep, self._death.pending[0] - self._base - CONTEXT)
        if keep > 0:
            self._line += self._data.count(b"\n", 0, keep)
            self._base += keep
            self._data = self._data[keep:]
            self._done -= keep
