"""Reads the events of a MaxText log (all but its step lines) and builds the run's record from them and the steps."""

from datetime import datetime
from typing import Any

import polars as pl

from tasks.records import decide_fate
from tasks.scrape.dialects.dialect import EventCollector, Match
from tasks.scrape.dialects.maxtext.anchors import MESH_AXIS, WHOLE_DATE
from tasks.scrape.dialects.maxtext.checkpoints import CheckpointLog, RestoreLog
from tasks.scrape.dialects.maxtext.evals import EvalLog, WaitLog
from tasks.scrape.dialects.maxtext.facts import Facts
from tasks.scrape.prefixes import PREFIX, iso_in_year
from tasks.scrape.table.stalls import find_stalls, is_deferred
from tasks.scrape.table.step_table import StepTable
from tasks.scrape.window import Window

PRINTS_LATE = "metric_logger.py"  # file of MaxText's logger that prints each step during the next one
DATED_WITHIN = 1 << 20  # bytes searched for a date in a log without a frame


class MaxTextEventCollector(EventCollector):
    """Collects MaxText's facts, evaluations, checkpoints, restores and waits."""

    ranks = False

    def __init__(self) -> None:
        super().__init__()
        self.said, self.saves, self.restores = Facts(), CheckpointLog(), RestoreLog()
        self.evaluations, self.waits = EvalLog(), WaitLog()
        self._parts = (self.said, self.saves, self.restores, self.evaluations, self.waits)
        self._written: datetime | None = None  # the first date with a year in the text

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        super().take(name, match, window, table)
        for part in self._parts:
            part.take(name, match, window)

    def settle(self, window: Window, table: StepTable) -> None:
        """Finish a window: read the mesh and a date before the first step, and whether the text ends within a line."""
        first = table.first_offset - window.base if table.parsed else len(window.data)
        if first >= window.start:  # no window before this one has a step
            for match in MESH_AXIS.finditer(window.data, window.start, first):
                self.said.take("mesh_axis", match, window)
            if self.said.start is None and self._written is None:
                date = WHOLE_DATE.search(window.data, window.start, window.start + DATED_WITHIN)
                self._written = datetime.fromisoformat(date[0].decode()) if date else None
        super().settle(window, table)

    def records(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        said, day = self.said, self.said.start or self._written
        steps = steps.with_columns(time=iso_in_year(pl.col("time"), day))
        last_step = -1 if steps.is_empty() else int(steps["offset"][-1])
        prefix = PREFIX.search(table.before)
        source_file = prefix[2].decode() if prefix else None
        steps_of = said.config.get("steps", "")
        planned = int(steps_of) - 1 if steps_of.isdigit() else None
        ending = self.ending(steps, table, planned)
        error = ending["error"]
        ended = self.death.exit_code is not None or said.end is not None
        truncated = self.is_cut and not ended
        done = planned is not None and not steps.is_empty() and int(steps["step"][-1]) >= planned
        cut_off = (said.start is not None and said.end is None) or truncated or planned is not None
        environment = said.environment()
        begun = [(save.step, save.offset) for save in self.saves.saves] + self.evaluations.begun
        deferred = (source_file or "").startswith(PRINTS_LATE) or is_deferred(steps, begun)
        for restore in self.restores.found:
            self.saves.restored(restore)
        return {
            "steps": steps, "exit_code": self.death.exit_code,
            "fate": decide_fate(self.death.exit_code, error, has_all_steps=done, is_cut_off=cut_off),
            "started": day.isoformat() if day else None, "ended": said.end.isoformat() if said.end else None,
            **ending, "evals": self.evaluations.table(day), "environment": environment, "memory": said.memory(),
            "parameters": said.parameters(), "flops": said.flops, "compiles": tuple(said.compiles),
            "checkpoints": self.saves.events(
                first_day=day, process=environment.process_index, ended=ended or error is not None
            ),
            "restores": self.restores.restores(last_step), "stalls": self._stalls(steps, deferred=deferred),
            "waits": self.waits.beside(steps, self.saves, self.evaluations, deferred=deferred, first_day=day),
            "deferred": deferred, "config": said.config, "sources": said.sources, "source_file": source_file,
            "printers": said.printers, "schedule": tuple(self.schedule.events), "unread": tuple(self.unread),
            "ranks": tuple({"rank": stage, "schedule": did} for stage, did in self.schedule.by_rank().items()),
            "is_ended": ended, "is_cut": truncated,
        }  # fmt: skip

    def _stalls(self, steps: pl.DataFrame, *, deferred: bool) -> Any:
        if steps.is_empty():
            return ()
        begin = int(steps["offset"][0])
        # profiler steps are printed without their time, so the step after them is longer
        untimed = steps.filter(pl.col("seconds").is_null())["step"].to_list()
        return find_stalls(
            steps, saving=self.saves.in_flight, eval_offsets=[row["offset"] for row in self.evaluations.rows],
            profiler_offsets=self.said.profiling,
            profiled_steps=self.said.profiled(int(steps["step"][0])).union(step + 1 for step in untimed),
            starts=[offset for offset in self.said.starts if offset > begin], deferred=deferred,
        )  # fmt: skip
