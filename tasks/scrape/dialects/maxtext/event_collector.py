"""Collects the lines of a MaxText log that are not step lines, and builds the fields of the run's reading.

Work between two steps is part of a later step's time, where `find_stalls` finds it. Work after the last step, such as
the final save, is in no step's time: `WaitLog.after_last_step` returns it.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from tasks.records.log_reading import Wait
from tasks.records.run_end import decide_fate
from tasks.records.shared_fields import Source
from tasks.scrape.dialects.dialect import EventCollector, Match
from tasks.scrape.dialects.maxtext.checkpoints import CheckpointLog, RestoreLog, Save
from tasks.scrape.dialects.maxtext.facts import FactCollector
from tasks.scrape.prefixes import PREFIX, iso_in_year, iso_time, prefix_before
from tasks.scrape.table.stalls import LATE, find_stalls, is_deferred
from tasks.scrape.table.step_table import StepTable
from tasks.scrape.window import Window, text_of

_PAIR = re.compile(r"[:,] ([^\s:=,][^:=,\n]*)(?:: |=)([\w.]+\([^()\n]*\)|[^\s,]+)")
_WRAPPED = re.compile(r"[\w.]+\(([^\s,()]+)[^()]*\)")  # Array(6.7, dtype=float32)
# name in logs of MaxText of 2024 (a variable's name) → name in later versions
_NAMES = {"eval_loss": "loss", "eval_step_count": "eval_steps"}
_PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)%?", re.IGNORECASE)


@dataclass
class EvalLog:
    """Collects evaluations."""

    # values of each evaluation, with its number of steps and the seconds of these steps (None if unknown)
    rows: list[dict[str, Any]] = field(default_factory=list)
    begun: list[tuple[int, int]] = field(default_factory=list)  # (step, offset) of each evaluation's start
    _steps: int = 0  # steps of the running evaluation; `_seconds`: their duration
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
        count = values.get("eval_steps")
        printed = int(count) if isinstance(count, float) and count.is_integer() else None
        self.rows.append({
            "step": int(match[1]), **values, "eval_steps": self._steps or printed,
            "eval_seconds": round(self._seconds, 6) if self._steps else None,
            "time": prefix_before(window, match.start())[0], **window.place(match.start()),
        })  # fmt: skip
        self._steps, self._seconds = 0, 0.0


def _values(text: str) -> dict[str, float | str]:
    """Return name → value of an evaluation's fields; a value that is not a number is text."""
    found = {}
    for key, value in _PAIR.findall(text):
        wrapped = _WRAPPED.fullmatch(value)
        plain = wrapped[1] if wrapped else value
        found[_NAMES.get(key, key)] = float(plain.rstrip("%")) if _PLAIN.fullmatch(plain) else value
    return found


@dataclass
class WaitLog:
    """Collects the waits for saves; `after_last_step` adds blocking saves and evaluations."""

    printed: list[Wait] = field(default_factory=list)  # waits with printed seconds
    timed: list[tuple[str, str, Source]] = field(default_factory=list)  # other waits: (begin time, end time, place)
    _begun: tuple[str, Source] | None = None

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        source = window.source(match.start())
        if name == "save_waited":
            self.printed.append(_wait("waits for saves", float(match[1]), source))
            self.timed, self._begun = self.timed[:-1], None  # the last timed wait is this wait
        time = prefix_before(window, match.start())[0] if name in ("wait_begins", "wait_ends") else None
        if time is not None and name == "wait_begins":
            self._begun = time, source
        elif time is not None and self._begun is not None:
            self.timed.append((self._begun[0], time, self._begun[1]))
            self._begun = None

    def after_last_step(
        self, steps: pl.DataFrame, saves: CheckpointLog, evals: EvalLog, *, deferred: bool, first_day: datetime | None
    ) -> tuple[Wait, ...]:
        """Return the waits after the last step, in log order.

        deferred: whether step lines are printed one iteration late. first_day: a day of the run, with its year.
        """
        day = first_day or datetime(2000, 1, 1)
        timed = [(_seconds(begin, end, day), at) for begin, end, at in self.timed]
        waits = [
            *self.printed,
            *(_wait("wait at the end", seconds, at) for seconds, at in timed if seconds is not None),
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
    """Return the seconds between the times of two prefixes; None if a time is damaged or the order is reversed."""
    try:
        first, last = (datetime.fromisoformat(iso_time(raw, day) or "") for raw in (begin, end))
    except ValueError:
        return None
    return (last - first).total_seconds() if last >= first else None


PRINTS_LATE = "metric_logger.py"  # MaxText's file that prints the line of each step one iteration late
DATED_WITHIN = 1 << 20  # bytes of a window searched for a date in a log without an XPK frame (see `facts`)
# output of `print_non_trivial_mesh_axis`; searched only before the first step, because later lines may look like it
_MESH_AXIS = re.compile(
    rb"(?<=\s)(diloco|data|stage|fsdp|fsdp_transpose|sequence|context|context_usp_ulysses|context_autoregressive|tensor|"
    rb"tensor_transpose|tensor_sequence|expert|autoregressive|model|attn_dp|attn_dp_expert): (\d+)(?=\s)"
)
# a date with its year, for logs without the dates of an XPK frame; the leading literal makes the search fast
_WHOLE_DATE = re.compile(rb"20(?<!\d20)\d\d-\d\d-\d\d \d\d:\d\d:\d\d")


class MaxTextEventCollector(EventCollector):
    """Collects MaxText's facts, evaluations, checkpoints, restores and waits."""

    ranks = False

    def __init__(self) -> None:
        super().__init__()
        self.run_facts, self.saves, self.restores = FactCollector(), CheckpointLog(), RestoreLog()
        self.evaluations, self.waits = EvalLog(), WaitLog()
        self._parts = (self.run_facts, self.saves, self.restores, self.evaluations, self.waits)
        self._dated: datetime | None = None  # the first date with a year, in the windows up to the first step

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        super().take(name, match, window, table)
        for part in self._parts:
            part.take(name, match, window)

    def end_window(self, window: Window, table: StepTable) -> None:
        """Finish a window; in the windows up to the first step, also read the mesh and a date."""
        first = table.first_offset - window.base if table.parsed else len(window.data)
        if first >= window.start:  # no window before this one has a step
            for match in _MESH_AXIS.finditer(window.data, window.start, first):
                self.run_facts.take("mesh_axis", match, window)
            if self.run_facts.start is None and self._dated is None:
                date = _WHOLE_DATE.search(window.data, window.start, window.start + DATED_WITHIN)
                self._dated = datetime.fromisoformat(date[0].decode()) if date else None
        super().end_window(window, table)

    def reading_fields(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        facts, day = self.run_facts, self.run_facts.start or self._dated
        steps = steps.with_columns(time=iso_in_year(pl.col("time"), day))
        last_step = -1 if steps.is_empty() else int(steps["offset"][-1])
        prefix = PREFIX.search(table.before)
        source_file = prefix[2].decode() if prefix else None
        count = facts.config.get("steps", "")
        planned = int(count) - 1 if count.isdigit() else None  # number of the last planned step
        ending = self.ending(steps, table, planned)
        error = ending["error"]
        ended = self.death.exit_code is not None or facts.end is not None
        truncated = self.is_cut and not ended
        done = planned is not None and not steps.is_empty() and int(steps["step"][-1]) >= planned
        lacks_end = (facts.start is not None and facts.end is None) or truncated or planned is not None
        found = facts.fields()
        begun = [(save.step, save.offset) for save in self.saves.saves] + self.evaluations.begun
        deferred = (source_file or "").startswith(PRINTS_LATE) or is_deferred(steps, begun)
        for restore in self.restores.restores:
            self.saves.restored(restore)
        return {
            "steps": steps, "exit_code": self.death.exit_code,
            "fate": decide_fate(self.death.exit_code, error, has_all_steps=done, lacks_end=lacks_end),
            **found, "started": day.isoformat() if day else None, **ending,
            "evals": tuple({**row, "time": iso_time(row["time"], day)} for row in self.evaluations.rows),
            "checkpoints": self.saves.events(
                first_day=day, process=found["environment"].process_index, ended=ended or error is not None
            ),
            "restores": self.restores.events(last_step), "stalls": self._stalls(steps, deferred=deferred),
            "waits": self.waits.after_last_step(steps, self.saves, self.evaluations, deferred=deferred, first_day=day),
            "deferred": deferred, "source_file": source_file,
            "schedule": tuple(self.schedule.events), "unread": tuple(self.unread),
            "ranks": tuple({"rank": rank, "schedule": summary} for rank, summary in self.schedule.by_rank().items()),
            "is_ended": ended, "is_cut": truncated, "interval": 1,
        }  # fmt: skip

    def _stalls(self, steps: pl.DataFrame, *, deferred: bool) -> Any:
        if steps.is_empty():
            return ()
        begin = int(steps["offset"][0])
        # profiler steps are printed without their time; the rest of the profiler's work prolongs the next step
        untimed = steps.filter(pl.col("seconds").is_null())["step"].to_list()
        return find_stalls(
            steps, saving=self.saves.in_flight, eval_offsets=[row["offset"] for row in self.evaluations.rows],
            profiler_offsets=self.run_facts.profiling,
            profiled_steps=self.run_facts.profiled(int(steps["step"][0])).union(step + 1 for step in untimed),
            starts=[offset for offset in self.run_facts.starts if offset > begin], deferred=deferred,
        )  # fmt: skip
