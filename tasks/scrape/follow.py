"""Reads a growing log and returns its steps, checkpoints and end as events."""

from typing import Any

from tasks.records.log_reading import CheckpointCommitted, CheckpointStarted, LogEvent, RunEnded, StepCompleted
from tasks.records.run_end import decide_fate
from tasks.scrape.dialects import MAXTEXT, recognise
from tasks.scrape.dialects.dialect import Match
from tasks.scrape.prefixes import PREFIX
from tasks.scrape.read_log import RunBuilder
from tasks.scrape.window import CONTEXT, Window, text_of
from tasks.scrape.wrappings.lines import Cleaner

MAX_UNKNOWN_BYTES = 4 << 20  # limit of bytes kept while no dialect is recognised
MAX_TEXT_LENGTH = 2_000  # limit of characters of a step line in an event


class LogFollower:
    """Reads a log in pieces that may end anywhere; reads a line as soon as the line is complete.

    Line numbers and offsets refer to the cleaned text (see `Cleaner`), like those in the reading of a plain log.
    """

    def __init__(self) -> None:
        self._data, self._base, self._line = b"", 0, 1
        # indices in _data: end of the text with returned events; end of the text that was searched for a dialect
        self._done = self._searched = 0
        self._saving: set[int] = set()  # steps with an announced save
        self._ended = False  # the exit code of the job's last attempt was read
        self._cleaner = Cleaner()
        self._builder: RunBuilder | None = None

    def feed(self, data: bytes) -> list[LogEvent]:
        """Read new bytes of the log; returns their events in order."""
        self._data += self._cleaner.feed(data)
        # the text is complete up to its last line break, or up to the last record that begins after this line break
        end = self._data.rfind(b"\n", self._done) + 1 or self._done
        return self._advance(max([end, *(match.start() for match in PREFIX.finditer(self._data, end))]), last=False)

    def close(self) -> list[LogEvent]:
        """End the log; returns the events of the last line, and of a death if the log has no exit code."""
        self._data += self._cleaner.feed(b"", last=True)
        events = self._advance(len(self._data), last=True)
        if self._ended or self._builder is None:
            return events
        error = self._builder.cause(self._window(self._done, last=True))
        return events if error is None else [*events, RunEnded(error=error, fate=error.kind)]

    def _window(self, end: int, *, last: bool) -> Window:
        return Window(self._data[:end], self._base, self._line, self._done, end, last=last)

    def _advance(self, end: int, *, last: bool) -> list[LogEvent]:
        if end <= max(self._done, self._searched) and not (last and self._builder is None):
            return []
        if self._builder is None or not self._builder.table.seen:
            text, before = self._data[self._searched : end], self._builder and self._builder.dialect
            dialect = recognise(text) or (MAXTEXT.load() if last else None)
            if dialect is not None and (before is None or (dialect is not before and dialect.row in text)):
                # a dialect with a row replaces a recognised dialect without rows
                self._builder = RunBuilder(dialect, live=True)
            self._searched = end
        if self._builder is None:
            if len(self._data) > MAX_UNKNOWN_BYTES:
                self._forget(end)
            return []
        window = self._window(end, last=last)
        builder = self._builder
        found = [(match.start(), self._event(name, match, window, builder)) for name, match in builder.take(window)]
        found += [(row["offset"] - self._base, [_completed(row)]) for row in builder.table.single]
        found.sort(key=lambda hit: hit[0])
        self._forget(end)
        return [event for _, events in found for event in events]

    def _event(self, name: str, match: Match, window: Window, builder: RunBuilder) -> list[LogEvent]:
        place = window.place(match.start())
        match name:
            case "save_path" | "save_announced":
                step = int(match[2] if name == "save_path" else match[1])
                if step in self._saving:
                    return []
                self._saving.add(step)
                return [CheckpointStarted(step=step, path=text_of(match[1]) if name == "save_path" else None, **place)]
            case "save_committed":
                return [CheckpointCommitted(step=int(match[2]), path=text_of(match[1]), **place)]
            case "start":
                self._ended = False  # the job was retried in the same log
            case "exit_code":
                self._ended = True
                code, error = int(match[1]), builder.cause(window)
                return [RunEnded(exit_code=code, error=error, fate=decide_fate(code, error))]
        return []

    def _forget(self, end: int) -> None:
        """Drop the text whose events were returned, except the context of the next line and incomplete tracebacks."""
        self._done, keep = end, end - CONTEXT
        if self._builder is not None and (pending := self._builder.collector.death.pending):
            keep = min(keep, pending[0] - self._base - CONTEXT)
        if keep > 0:
            self._line += self._data.count(b"\n", 0, keep)
            self._base, self._data, self._done = self._base + keep, self._data[keep:], self._done - keep
        self._searched = self._done


def _completed(row: dict[str, Any]) -> StepCompleted:
    seconds, loss = (value if isinstance(value := row.get(key), float) else None for key in ("seconds", "loss"))
    return StepCompleted(
        step=row["step"], seconds=seconds, loss=loss, text=row["_text"][:MAX_TEXT_LENGTH], line=row["line"],
        offset=row["offset"],
    )  # fmt: skip
