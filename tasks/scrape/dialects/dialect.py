"""What a dialect is: a row of the table in `dialects/__init__.py`. A new one is one module with one of these."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tasks.records import CheckpointEvent, Environment, LogError, Parameters, Source, Stall, UnreadLine
from tasks.scrape.death.log import DeathLog
from tasks.scrape.death.patterns import DEATHS, RANK_DEATHS
from tasks.scrape.dialects.schedule import ScheduleLog
from tasks.scrape.prefixes import PREFIX, iso_dates
from tasks.scrape.table.rows import RowGrammar
from tasks.scrape.table.stalls import find_stalls
from tasks.scrape.table.step_table import StepTable
from tasks.scrape.window import Window

type Match = re.Match[bytes]


class EventCollector:
    """What a log says beside its rows: everything found is handed to it, in order; at the end it gives its records.

    This is all that a trainer needs whose log has rows, an end and deaths: "finished" is the trainer's word that it is
    done, "exit_code" that of a frame around it. Others add what they find to `take` and `records`.
    """

    ranks = True  # many ranks under one launcher may write it

    def __init__(self) -> None:
        self.death = DeathLog(self.ranks)
        self.schedule = ScheduleLog()
        self.finished_at: int | None = None  # the offset of the trainer's word that it is done
        self.is_cut = False  # the text ends in the middle of a line
        self.started: str | None = None
        self.environment, self.parameters = Environment(), Parameters()
        self.facts: dict[str, Any] = {}
        self.evals: list[dict[str, Any]] = []
        self.checkpoints: list[CheckpointEvent] = []
        self.unread: list[UnreadLine] = []

    @property
    def ended_well(self) -> bool:
        """Whether the log showed a good end, behind which another run may begin."""
        return self.death.exit_code == 0 or (self.death.exit_code is None and self.finished_at is not None)

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        """Note what was found, under its name in the dialect's patterns."""
        self.death.take(name, match, window)
        if name == "finished":
            self.finished_at = self.finished_at or window.base + match.start()
        elif name == "operation":
            step = table.step_before(window.base + match.start())
            if not self.schedule.take(match.start(), window, step):
                self.refuse(match, window)

    def refuse(self, match: Match, window: Window) -> None:
        """Note a record that cannot be believed."""
        self.unread.append(window.unread(match.start()))

    def note_fact(self, key: str, value: Any, source: Source) -> None:
        """Keep what a log says once, with its place."""
        self.facts.setdefault(key, {"value": value, "line": source.line, "offset": source.offset})

    def settle(self, window: Window, table: StepTable) -> None:
        """Everything of a window was taken."""
        del table
        self.is_cut |= window.last and bool(window.data) and not window.data.endswith(b"\n")

    def cause(self, table: StepTable, last_step: int | None = None) -> LogError | None:
        """What ended the run, as far as is known; `last_step`: the offset of the last row that counts."""
        last_step = table.last_offset if last_step is None else last_step
        # a logger and its program's errors come through one stream
        ordered = self.ranks or PREFIX.search(table.before) is not None
        return self.death.cause(last_step=last_step, ordered=ordered, finished=self.finished_at)

    def stalls(self, steps: pl.DataFrame) -> tuple[Stall, ...]:
        """The steps that took far longer than their neighbours, and why."""
        saves = [event.offset for event in self.checkpoints]
        return find_stalls(
            steps, saving=lambda begin, end: any(begin <= offset < end for offset in saves),
            eval_offsets=[row["offset"] for row in self.evals],
        )  # fmt: skip

    def records(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        """The fields of the `RunReading`, all of its steps given; "is_ended": whether the log shows the run's end;
        "is_cut": whether its text ends in the middle; and of the receipt what is the dialect's own."""
        steps = steps.with_columns(time=iso_dates(pl.col("time")))
        error = self.cause(table, int(steps["offset"][-1]) if steps.height else -1)
        over = self.death.exit_code is not None or self.finished_at is not None or error is not None
        ended = over or (steps.height > 0 and steps["step"][-1] == table.total)
        return {
            "steps": steps, "exit_code": self.death.exit_code, "started": self.started, "error": error,
            "evals": tuple(self.evals), "environment": self.environment, "parameters": self.parameters,
            "checkpoints": tuple(self.checkpoints), "stalls": self.stalls(steps), "facts": self.facts,
            "schedule": tuple(self.schedule.events),
            "unread": tuple(self.unread), "is_ended": ended, "is_cut": not ended and self.is_cut,
        }  # fmt: skip


def patterns(own: Mapping[str, bytes]) -> dict[str, re.Pattern[bytes]]:
    """What a dialect of many ranks looks for: its own patterns, and those of deaths."""
    end = {"exit_code": rb"EXIT_CODE=(\d{1,3})(?!\d)"}
    return {name: re.compile(pattern) for name, pattern in {**own, **end, **DEATHS, **RANK_DEATHS}.items()}


@dataclass(frozen=True, kw_only=True)
class LogDialect(RowGrammar):
    """Describe how a trainer writes its log: its rows, and the other lines that are read."""

    name: str
    example: str  # a row, shown in messages
    marks: re.Pattern[bytes]  # occurs only in this trainer's logs
    row: bytes  # occurs in every row; text of another trainer before the first row is ignored
    patterns: Mapping[str, re.Pattern[bytes]]  # lines other than rows, by name
    collector: Callable[[], EventCollector]
    afresh: tuple[bytes, ...] = ()  # starts another run if the run before it ended well
