"""Reads the windows of one run's log, complete or growing: yields matched lines, and finally a `RunReading`."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tasks.records import Coverage, LogError, RunReading
from tasks.scrape.dialects.dialect import LogDialect, Match
from tasks.scrape.table.step_table import StepTable, gaps_between
from tasks.scrape.window import Window, find_all

UNREAD_SHOWN = 20  # most unread lines in a reading


class RunBuilder:
    """Builds the reading of one run. `live`: `table.single` has every row of each window, as `LogFollower` needs."""

    def __init__(self, dialect: LogDialect, *, live: bool = False) -> None:
        self.dialect, self.table, self.collector = dialect, StepTable(dialect, live=live), dialect.collector()

    def take(self, window: Window) -> Iterator[tuple[str, Match]]:
        """Read the next window; yields (pattern name, match) of every line that is not a row."""
        spans = self.table.add(window)
        if self.collector.death.ranks:  # an error with further rows after it did not end the run
            self.collector.death.forget(self.table.last_offset)
        for name, match in find_all(self.dialect.patterns, window, spans):
            self.collector.take(name, match, window, self.table)
            yield name, match
        self.collector.death.settle(window)
        self.collector.settle(window, self.table)

    def cause(self, window: Window) -> LogError | None:
        """Return the cause of death that the log shows so far, if any; `window` is the last one taken."""
        self.collector.death.settle(window, last=True)
        return self.collector.cause(self.table, self.table.last_offset)

    def finish(self, name: str, span: tuple[int, int]) -> RunReading:
        """Return the reading of the run in the byte range `span` of its file."""
        table = self.table
        records = self.collector.records(table.frame(), table)
        steps = records["steps"]
        ended, cut = records.pop("is_ended"), records.pop("is_cut")
        unread = sorted((*table.unread, *records.pop("unread", ())), key=lambda line: line.offset)
        glued: Any = table.glued if self.dialect.glued is None else {*table.glued, *records.pop("glued", ())}
        numbers = steps["step"].to_numpy()
        gaps = records.pop("gaps", None)
        interval = records.pop("interval", None) if self.dialect.glued is not None else 1
        if gaps is None:
            gaps = gaps_between(numbers.tolist(), interval) if (np.diff(numbers) != 1).any() else ()
        coverage = Coverage(
            step_lines_seen=table.seen, step_lines_parsed=table.parsed, gaps=gaps,
            rewinds=int(np.count_nonzero(np.diff(numbers) <= 0)), glued_lines=len(glued), truncated=cut,
            unknown_keys=table.forms.unknown, complete=ended and not unread and not cut,
            unread=tuple(unread[:UNREAD_SHOWN]),
        )  # fmt: skip
        return RunReading(name=name, format=self.dialect.name, span=span, coverage=coverage, **records)
