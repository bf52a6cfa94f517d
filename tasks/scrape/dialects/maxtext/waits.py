"""Finds what a log says of time that its process spent beside the steps: waits for saves, blocking saves, evaluations.

What stands before the last steps is in the time of the step after it, where `stalls` finds it. What comes after the
last step was timed, such as the save on completion, is in no step's time.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from tasks.records import Source, Wait
from tasks.scrape.dialects.maxtext.checkpoints import CheckpointLog
from tasks.scrape.dialects.maxtext.evals import EvalLog
from tasks.scrape.prefixes import iso_time, prefix_of_text
from tasks.scrape.table.stalls import LATE
from tasks.scrape.window import Window

WAITS, BLOCKING, AT_THE_END, EVALUATION = (
    "waits for saves",
    "blocking saves",
    "wait at the end",
    "evaluation at the end",
)


@dataclass
class WaitLog:
    """The waits for saves in the order of their end."""

    told: list[tuple[float, Source]] = field(default_factory=list)  # with their seconds
    timed: list[tuple[str, str, Source]] = field(default_factory=list)  # with the times of their begin and end
    _begun: tuple[str, Source] | None = None

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Note one anchor; those that are no wait's are ignored."""
        if name == "save_waited":
            self.told.append((float(match[1]), window.source(match.start())))
            self.timed, self._begun = self.timed[:-1], None  # the same wait, with its two times
        prefix = prefix_of_text(window.data, match.start()) if name in ("wait_begins", "wait_ends") else None
        if prefix is not None and name == "wait_begins":
            self._begun = prefix.time, window.source(match.start())
        elif prefix is not None and self._begun is not None:
            self.timed.append((self._begun[0], prefix.time, self._begun[1]))
            self._begun = None

    def beside(
        self, steps: pl.DataFrame, saves: CheckpointLog, evals: EvalLog, *, deferred: bool, first_day: datetime | None
    ) -> tuple[Wait, ...]:
        """What is in no step's time, in the order of the log."""
        waits = [Wait(part=WAITS, seconds=took, line=at.line, offset=at.offset) for took, at in self.told]
        for begin, end, at in self.timed:
            took = _seconds(begin, end, first_day or datetime(2000, 1, 1))
            if took is not None:
                waits.append(Wait(part=AT_THE_END, seconds=took, line=at.line, offset=at.offset))
        for save in saves.saves:
            if save.blocking_s is not None:
                at = save.source
                waits.append(Wait(part=BLOCKING, seconds=save.blocking_s, line=at.line, offset=at.offset))
        for row in evals.rows:
            if row["eval_seconds"] is not None:
                waits.append(Wait(part=EVALUATION, seconds=row["eval_seconds"], line=row["line"], offset=row["offset"]))
        offsets, late = steps["offset"].to_list(), LATE if deferred else 0
        found = [wait for wait in waits if bisect_left(offsets, wait.offset) + late >= len(offsets)]
        return tuple(sorted(found, key=lambda wait: wait.offset))


def _seconds(begin: str, end: str, day: datetime) -> float | None:
    """What passed between two prefixes' times; None where damage made them no times, or put them in another order."""
    try:
        first, last = (datetime.fromisoformat(iso_time(raw, day) or "") for raw in (begin, end))
    except ValueError:
        return None
    return (last - first).total_seconds() if last >= first else None
