"""Turns a log that is still growing into events, as its bytes arrive."""

from typing import Any

from configs.schema import Frozen
from tasks.records import LogError
from tasks.scrape.builder import RunBuilder
from tasks.scrape.dialects import DIALECTS, recognise
from tasks.scrape.dialects.dialect import Match
from tasks.scrape.prefixes import PREFIX
from tasks.scrape.window import CONTEXT, Window
from tasks.scrape.wrappings.clean import LiveText

UNKNOWN_MOST = 4 << 20  # bytes in which no known trainer has written a line
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

    Lines and offsets are those of the text without what is taken off it (see `LiveText`), as in a reading.
    """

    def __init__(self) -> None:
        self._data = b""
        self._base, self._line = 0, 1
        self._looked = 0  # up to where a dialect was looked for
        self._done = 0  # everything before this position was reported
        self._saving: set[int] = set()  # steps whose save was announced
        self._ended = False
        self._live = LiveText()
        self._builder: RunBuilder | None = None

    def feed(self, data: bytes) -> list[LogEvent]:
        """Take in what the log gained; returns what happened in it, in order."""
        self._data += self._live.feed(data)
        return self._advance(self._find_end(), last=False)

    def close(self) -> list[LogEvent]:
        """The log gains nothing more: what its last, unfinished line and a missing end tell."""
        self._data += self._live.close()
        events = self._advance(len(self._data), last=True)
        if self._builder is not None and not self._ended:
            events += self._died(Window(self._data, self._base, self._line, self._done, self._done, last=True))
        return events

    def _find_end(self) -> int:
        """Up to where the text is whole: the last line break, or the last record on a line that has lost them."""
        end = self._data.rfind(b"\n", self._done) + 1 or self._done
        for match in PREFIX.finditer(self._data, end):
            end = max(end, match.start())
        return end

    def _advance(self, end: int, *, last: bool) -> list[LogEvent]:
        if end <= max(self._done, self._looked) and not (last and self._builder is None):
            return []
        if self._builder is None:
            dialect = recognise(self._data[self._looked : end]) or (DIALECTS[-1] if last else None)
            self._builder = None if dialect is None else RunBuilder(dialect, live=True)
            self._looked = end
        if self._builder is None and len(self._data) <= UNKNOWN_MOST:
            return []
        found: list[tuple[int, list[LogEvent]]] = []
        if self._builder is not None:
            window = Window(self._data[:end], self._base, self._line, self._done, end, last=last)
            found = [(match.start(), self._event(name, match, window)) for name, match in self._builder.take(window)]
            found += [(row["offset"] - self._base, [_completed(row)]) for row in self._builder.table.single]
        found.sort(key=lambda hit: hit[0])
        self._forget(end)
        return [event for _, events in found for event in events]

    def _event(self, name: str, match: Match, window: Window) -> list[LogEvent]:
        source = window.source(match.start())
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
        error = self._builder.cause(window) if self._builder is not None else None
        return [] if error is None else [Died(error=error)]

    def _forget(self, end: int) -> None:
        """Drop what was reported, but for what stands before the next line and for a traceback under way."""
        self._done = self._looked = end
        keep = end - CONTEXT
        if self._builder is not None and (pending := self._builder.told.death.pending):
            keep = min(keep, pending[0] - self._base - CONTEXT)
        if keep > 0:
            self._line += self._data.count(b"\n", 0, keep)
            self._base += keep
            self._data = self._data[keep:]
            self._done = self._looked = self._done - keep


def _completed(row: dict[str, Any]) -> StepCompleted:
    seconds, loss = (value if isinstance(value := row.get(key), float) else None for key in ("seconds", "loss"))
    text = row["_text"][:LONGEST_TEXT]
    return StepCompleted(
        step=row["step"], seconds=seconds, loss=loss, text=text, line=row["line"], offset=row["offset"]
    )
