"""Collects MaxText's evaluations, and the waits after the last step: for saves, for blocking saves, for evaluations.

Work between two steps is part of the next step's time, where `find_stalls` finds it. Work after the last step, such as
the final save, is in no step's time.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from tasks.records import Source, Wait
from tasks.scrape.dialects.maxtext.checkpoints import CheckpointLog, Save
from tasks.scrape.prefixes import iso_time, prefix_before
from tasks.scrape.table.stalls import LATE
from tasks.scrape.window import Window, text_of

_PAIR = re.compile(r"[:,] ([^\s:=,][^:=,\n]*)(?:: |=)([\w.]+\([^()\n]*\)|[^\s,]+)")
_WRAPPED = re.compile(r"[\w.]+\(([^\s,()]+)[^()]*\)")  # Array(6.7, dtype=float32)
# MaxText of 2024 prints the names of its variables; → name in later versions
_NAMES = {"eval_loss": "loss", "eval_step_count": "eval_steps"}
_PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)%?", re.IGNORECASE)


@dataclass
class EvalLog:
    """Collects evaluations."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # one per evaluation, with number and seconds of its steps
    begun: list[tuple[int, int]] = field(default_factory=list)  # (step, offset) of each evaluation's start
    _steps: int = 0
    _seconds: float = 0.0

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        if name == "eval_start":
            self.begun.append((int(match[1]), window.base + match.start()))
        if name not in ("eval", "eval_step"):
            return
        # the last number may be incomplete if the log ends with it
        cut = window.last and match.end() == len(window.data)
        values = {} if cut else _values(text_of(match[2]))
        if name == "eval_step":
            self._steps += 1
            self._seconds += seconds if isinstance(seconds := values.get("seconds"), float) else 0.0
            return
        counted = values.get("eval_steps")
        printed = int(counted) if isinstance(counted, float) and counted.is_integer() else None
        self.rows.append({
            "step": int(match[1]), **values,
            "eval_steps": self._steps or printed,
            "eval_seconds": round(self._seconds, 6) if self._steps else None,
            "time": prefix_before(window, match.start())[0], **window.place(match.start()),
        })  # fmt: skip
        self._steps, self._seconds = 0, 0.0

    def table(self, first_day: datetime | None) -> tuple[dict[str, Any], ...]:
        return tuple({**row, "time": iso_time(row["time"], first_day)} for row in self.rows)


def _values(text: str) -> dict[str, float | str]:
    found = {}
    for key, value in _PAIR.findall(text):
        wrapped = _WRAPPED.fullmatch(value)
        plain = wrapped[1] if wrapped else value
        found[_NAMES.get(key, key)] = float(plain.rstrip("%")) if _PLAIN.fullmatch(plain) else value
    return found


@dataclass
class WaitLog:
    """Collects the waits for saves; `beside` adds blocking saves and evaluations."""

    printed: list[Wait] = field(default_factory=list)  # waits with printed seconds
    timed: list[tuple[str, str, Source]] = field(default_factory=list)  # other waits: (begin, end, place)
    _begun: tuple[str, Source] | None = None

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        source = window.source(match.start())
        if name == "save_waited":
            self.printed.append(_wait("waits for saves", float(match[1]), source))
            self.timed, self._begun = self.timed[:-1], None  # its last entry is the same wait
        time = prefix_before(window, match.start())[0] if name in ("wait_begins", "wait_ends") else None
        if time is not None and name == "wait_begins":
            self._begun = time, source
        elif time is not None and self._begun is not None:
            self.timed.append((self._begun[0], time, self._begun[1]))
            self._begun = None

    def beside(
        self, steps: pl.DataFrame, saves: CheckpointLog, evals: EvalLog, *, deferred: bool, first_day: datetime | None
    ) -> tuple[Wait, ...]:
        """Return the waits after the last step, in log order. deferred: see `find_stalls`."""
        day = first_day or datetime(2000, 1, 1)
        took = [(_seconds(begin, end, day), at) for begin, end, at in self.timed]
        waits = [
            *self.printed,
            *(_wait("wait at the end", seconds, at) for seconds, at in took if seconds is not None),
            *(_wait("blocking saves", save.blocking_s, save) for save in saves.saves if save.blocking_s is not None),
            *(Wait(part="evaluation at the end", seconds=row["eval_seconds"], line=row["line"], offset=row["offset"])
              for row in evals.rows if row["eval_seconds"] is not None),
        ]  # fmt: skip
        offsets, late = steps["offset"].to_list(), LATE if deferred else 0
        found = [wait for wait in waits if bisect_left(offsets, wait.offset) + late >= len(offsets)]
        return tuple(sorted(found, key=lambda wait: wait.offset))


def _wait(part: str, seconds: float, at: Source | Save) -> Wait:
    return Wait(part=part, seconds=seconds, line=at.line, offset=at.offset)


def _seconds(begin: str, end: str, day: datetime) -> float | None:
    """Return the seconds between two prefix times; None if either is damaged or their order is reversed."""
    try:
        first, last = (datetime.fromisoformat(iso_time(raw, day) or "") for raw in (begin, end))
    except ValueError:
        return None
    return (last - first).total_seconds() if last >= first else None
