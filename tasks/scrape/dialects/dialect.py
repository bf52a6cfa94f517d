"""Defines `LogDialect`, a trainer's log format, and `EventCollector`, which collects lines that are not rows.

A row is the line of a step. A log is read in overlapping parts, the windows. To add a dialect, write a
`LogDialect` and its `DialectMark` in `dialects/__init__.py`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tasks.records.checkpoint_proof import CheckpointEvent
from tasks.records.log_reading import Environment, Parameters, Stall, UnreadLine
from tasks.records.run_end import LogError
from tasks.records.shared_fields import Source
from tasks.scrape.death.causes import DEATHS, RANK_DEATHS
from tasks.scrape.death.death_log import DeathLog
from tasks.scrape.dialects.schedule import ScheduleLog
from tasks.scrape.prefixes import PREFIX, iso_dates
from tasks.scrape.table.row_grammar import RowGrammar
from tasks.scrape.table.stalls import find_stalls
from tasks.scrape.table.step_table import StepTable
from tasks.scrape.window import Window

type Match = re.Match[bytes]


class EventCollector:
    """Collects the lines of a log other than its rows, in order; at the end returns the fields of the `RunReading`.

    This class handles endings: the pattern "finished" matches the trainer's final message, "exit_code" the exit code
    that a wrapper script prints after the trainer. Subclasses extend `take` and `reading_fields`.
    """

    ranks = True  # several ranks under one launcher may write the log

    def __init__(self) -> None:
        self.death = DeathLog(self.ranks)
        self.schedule = ScheduleLog()
        self.finished_at: int | None = None  # offset of the trainer's final message
        self.is_cut = False  # the text ends within a line
        self.started: str | None = None  # time of the run's start, in ISO 8601
        self.environment, self.parameters = Environment(), Parameters()
        self.facts: dict[str, Any] = {}  # name → {"value": …, "line": …, "offset": …}
        self.evals: list[dict[str, Any]] = []  # values of each evaluation
        self.checkpoints: list[CheckpointEvent] = []
        self.unread: list[UnreadLine] = []

    @property
    def ended_well(self) -> bool:
        """Whether the run ended well, so that another run may follow in the log."""
        return self.death.exit_code == 0 or (self.death.exit_code is None and self.finished_at is not None)

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        """Collect a match of the dialect's pattern `name`."""
        self.death.take(name, match, window)
        if name == "finished":
            self.finished_at = self.finished_at or window.base + match.start()
        elif name == "operation" and not self.schedule.take(match.start(), window, table):
            self.refuse(match, window)

    def refuse(self, match: Match, window: Window) -> None:
        """Add a damaged line to the unread lines of the coverage."""
        self.unread.append(window.unread(match.start()))

    def note_fact(self, key: str, value: Any, source: Source) -> None:
        """Store the first value of a fact, and its place in the log; further values are ignored."""
        self.facts.setdefault(key, {"value": value, "line": source.line, "offset": source.offset})

    def end_window(self, window: Window, table: StepTable) -> None:
        """Finish a window, after `take` of all its matches."""
        self.death.read_pending(window)
        self.is_cut |= window.last and bool(window.data) and not window.data.endswith(b"\n")

    def cause(self, table: StepTable, last_step: int) -> LogError | None:
        """Return the cause of death so far, or None; `last_step`: offset of the last row, -1 without one."""
        # rows with a logger's prefix go to standard error, like errors, so rows and errors are in order
        ordered = self.ranks or PREFIX.search(table.before) is not None
        return self.death.cause(last_step=last_step, ordered=ordered, finished=self.finished_at)

    def ending(self, steps: pl.DataFrame, table: StepTable, planned: int | None) -> dict[str, LogError | None]:
        """Return `error`, the cause of death, and `survived`, an exception after the last step with exit code 0.

        planned: the number of the last planned step; None if unknown. A run that stopped before that step, or before
        its first step, died of this exception although its exit code is 0, so the exception is then in `error`.
        """
        last_step = int(steps["offset"][-1]) if steps.height else -1
        error, survived = self.cause(table, last_step), self.death.survived(last_step=last_step)
        is_short = not steps.height or (planned is not None and int(steps["step"][-1]) < planned)
        if error is None and not is_short:
            return {"error": None, "survived": survived}
        return {"error": error or survived, "survived": None}

    def stalls(self, steps: pl.DataFrame) -> tuple[Stall, ...]:
        """Return the steps that took far longer than their neighbours, with the causes."""
        saves = [event.offset for event in self.checkpoints]
        return find_stalls(
            steps, saving=lambda begin, end: any(begin <= offset < end for offset in saves),
            eval_offsets=[row["offset"] for row in self.evals],
        )  # fmt: skip

    def reading_fields(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        """Return the fields of the `RunReading`, and of its coverage: "unread", "is_ended" (the log shows the end),
        "is_cut" (the log ends within a line), and, if the dialect needs them, "gaps", "interval" and "glued" (the
        numbers of lines with several records).
        """
        steps = steps.with_columns(time=iso_dates(pl.col("time")))
        ending = self.ending(steps, table, table.total)
        ended = (
            self.death.exit_code is not None or self.finished_at is not None or ending["error"] is not None
            or (steps.height > 0 and steps["step"][-1] == table.total)
        )  # fmt: skip
        return {
            "steps": steps, "exit_code": self.death.exit_code, "started": self.started, **ending,
            "evals": tuple(self.evals), "environment": self.environment, "parameters": self.parameters,
            "checkpoints": tuple(self.checkpoints), "stalls": self.stalls(steps), "facts": self.facts,
            "schedule": tuple(self.schedule.events),
            "unread": tuple(self.unread), "is_ended": ended, "is_cut": not ended and self.is_cut,
        }  # fmt: skip


def compile_patterns(own: Mapping[str, bytes]) -> dict[str, re.Pattern[bytes]]:
    """Return name → pattern: a dialect's `own` patterns, and those of deaths in logs that several ranks may write."""
    return {name: re.compile(pattern) for name, pattern in {**own, **DEATHS, **RANK_DEATHS}.items()}


@dataclass(frozen=True, kw_only=True)
class LogDialect(RowGrammar):
    """Describes a trainer's log format: its rows, and the other lines that are read."""

    name: str
    row: bytes  # a text of most rows; a dialect with this text in the log has priority
    patterns: Mapping[str, re.Pattern[bytes]]  # name → pattern of lines other than rows
    collector: Callable[[], EventCollector]
    run_starts: tuple[bytes, ...] = ()  # texts that begin another run in the same file, if the run before ended well
