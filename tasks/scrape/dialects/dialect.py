"""What a dialect is: a row of the table in `dialects/__init__.py`. A new one is one module with one of these."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from tasks.records import LogError
from tasks.scrape.death.log import DeathLog
from tasks.scrape.table.rows import Row
from tasks.scrape.table.steps import StepTable
from tasks.scrape.window import Window

type Spans = Sequence[tuple[int, int]]
type Match = re.Match[bytes]


class Told(Protocol):
    """What a log says beside its rows: everything found is handed to it, in order; at the end it gives its records."""

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        """Note what was found, under its name in the dialect's patterns."""

    def settle(self, window: Window, table: StepTable) -> None:
        """Everything of a window was taken."""

    def cause(self, table: StepTable) -> LogError | None:
        """What ended the run, as far as is known."""

    def records(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        """The fields of the `RunReading`, all of its steps given; "is_ended": whether the log shows the run's end;
        "is_cut": whether its text ends in the middle; and of the receipt what is the dialect's own."""

    death: DeathLog

    @property
    def ended_well(self) -> bool:
        """Whether the log showed a good end, behind which another run may begin."""


@dataclass(frozen=True)
class Dialect:
    """How a trainer writes its log."""

    name: str
    example: str  # of its rows, for people
    marks: re.Pattern[bytes]  # what only its logs contain
    hints: tuple[bytes, ...]  # one of these stands in every mark: they are found a hundred times faster
    row: bytes  # stands in each row: where it is in a text, what another trainer printed before counts less
    head: re.Pattern[bytes]  # whatever looks like a row begins so: what is counted as seen
    parse: Callable[[bytes, int, Row | None, bool], Row | None]  # (line, position, one like it, is it the log's end)
    find: Callable[[Window, Spans], Iterator[tuple[str, Match]]]  # what else its logs say, in these stretches
    told: Callable[[], Told]
    time: re.Pattern[bytes]  # a time, its group 1, in what stands before a row; the last counts
    known: frozenset[str] = frozenset()  # the columns that some version prints
    unfinished: frozenset[str] = frozenset()  # the columns behind which every version prints more
    body: re.Pattern[bytes] | None = None  # stands in every row behind its head: alone, it is a row that lost it
    record: re.Pattern[bytes] | None = None  # begins a record, wherever on a line it stands
    rank: re.Pattern[bytes] | None = None  # whose row it is, in what stands before it
    first: Callable[[Sequence[tuple[bytes, int]]], Row | None] | None = None  # how a log prints its rows, by its first
    glued: Callable[[bytes], bool] | None = None  # whether a row behind this text shares its line with another record
    afresh: tuple[bytes, ...] = ()  # where one of these stands, another run begins, if the one before has ended well
