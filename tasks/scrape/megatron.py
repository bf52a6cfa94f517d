"""Reads the logs of Megatron-LM and its relatives (Megatron-DeepSpeed, MegatronDPP, Primus) into a RunReading."""

from typing import Any

import numpy as np
import polars as pl

from tasks.records import CheckpointEvent, Coverage, RunReading
from tasks.scrape.megatron_facts import MegatronFacts
from tasks.scrape.megatron_schedule import ScheduleLog
from tasks.scrape.megatron_table import RowTable
from tasks.scrape.megatron_validation import ValidationRows
from tasks.scrape.row_table import gaps_between, rewinds_in
from tasks.scrape.stalls import find_stalls
from tasks.scrape.tracebacks import RankTracebacks
from tasks.scrape.window import Window

FORMAT = "megatron"
UNREAD_SHOWN = 20


class MegatronReader:
    """Takes in the windows of one log; `finish` puts together what was found."""

    def __init__(self) -> None:
        self.table = RowTable()
        self.facts = MegatronFacts()
        self.schedule = ScheduleLog()
        self.validation = ValidationRows()
        self.tracebacks = RankTracebacks()
        self._cut = False

    def feed(self, window: Window) -> None:
        """Take in the next window."""
        gaps = self.table.add(window)
        self.facts.take(window, gaps)
        self.validation.take(window, self.table.step_before)
        self.schedule.take(window, self.table.step_before)
        self.tracebacks.take(window, max(self.table.until, self.table.last_offset) - window.base)
        if window.last:
            self._cut |= bool(window.data) and not window.data.endswith(b"\n")

    def finish(self, *, name: str, span: tuple[int, int]) -> RunReading:
        """The reading of the log that filled the byte range `span` of its file."""
        facts = self.facts
        steps = _with_step_times(self.table.frame(), facts.step_times)
        last_offset = int(steps["offset"][-1]) if steps.height else -1
        last_step = int(steps["step"][-1]) if steps.height else None
        error = self.tracebacks.cause(last_step=last_offset, exit_code=facts.exit_code, finished=facts.finished_at)
        ended = facts.finished or error is not None or (last_step is not None and last_step == self.table.total)
        summaries = self.schedule.by_rank()
        in_flight = any(summary["in_flight"] for summary in summaries.values())
        return RunReading(
            name=name,
            format=FORMAT,
            exit_code=facts.exit_code,
            started=facts.started,
            ended=facts.ended,
            error=error,
            steps=steps,
            evals=tuple(self.validation.rows),
            environment=facts.environment(),
            parameters=facts.total,
            checkpoints=self._checkpoints(ended=ended),
            stalls=find_stalls(
                steps, saving=self._saving, eval_offsets=[row["offset"] for row in self.validation.rows]
            ),
            config=facts.config,
            ranks=self._ranks(summaries),
            rank_memory=facts.memory.table(),
            schedule=tuple(self.schedule.events),
            facts=facts.facts,
            sources=facts.sources,
            timers=facts.timers.table(),
            span=span,
            coverage=self._coverage(steps, ended=ended, truncated=self._is_truncated(in_flight=in_flight, ended=ended)),
        )

    def _saving(self, begin: int, end: int) -> bool:
        return any(begin <= event.offset < end for event in self.facts.saves.values())

    def _checkpoints(self, *, ended: bool) -> tuple[CheckpointEvent, ...]:
        """A save that was not said to have succeeded did not, once the run is over: one process prints both lines."""
        return tuple(
            event.model_copy(update={"committed": False}) if event.committed is None and ended else event
            for event in self.facts.saves.values()
        )

    def _ranks(self, summaries: dict[int, dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        """One entry per global rank that the log names, and one per (tensor, pipeline) rank that has no other."""
        facts = self.facts
        numbers = facts.memory.ranks | set(summaries)
        places = {facts.place_of(rank): rank for rank in range(facts.environment().num_devices or 0)}
        numbers |= {places[key] for key in facts.parameters_of if key in places}
        entries: list[dict[str, Any]] = []
        for rank in sorted(numbers):
            place = facts.place_of(rank)
            entries.append(_entry(rank, place, facts.parameters_of.get(place) if place else None))
            entries[-1]["schedule"] = summaries.get(rank)
        named = {(entry["tensor"], entry["pipeline"]) for entry in entries}
        rest = sorted(key for key in facts.parameters_of if key not in named)
        return (*entries, *(_entry(None, key, facts.parameters_of[key]) for key in rest))

    def _is_truncated(self, *, in_flight: bool, ended: bool) -> bool:
        cut = self._cut or self.table.cut or self.validation.cut or self.schedule.cut
        return not ended and (cut or in_flight)

    def _coverage(self, steps: pl.DataFrame, *, ended: bool, truncated: bool) -> Coverage:
        table, numbers = self.table, steps["step"].to_list()
        every = self.facts.config.get("log_interval", "")
        glued = table.glued | self.schedule.glued
        found = (*table.unread, *self.validation.unread, *self.schedule.unread)
        unread = sorted(found, key=lambda line: line.offset)
        return Coverage(
            step_lines_seen=table.seen,
            step_lines_parsed=steps.height,
            gaps=gaps_between(numbers, int(every) if every.isdigit() else None),
            rewinds=rewinds_in(numbers),
            glued_lines=len(glued),
            truncated=truncated,
            unknown_keys=table.unknown_keys,
            complete=ended and not unread and not truncated,
            unread=tuple(unread[:UNREAD_SHOWN]),
        )


def _entry(rank: int | None, place: tuple[int, int] | None, counted: dict[str, Any] | None) -> dict[str, Any]:
    tensor, pipeline = place or (None, None)
    found = counted or {"parameters": None, "parameters_source": None}
    return {"rank": rank, "tensor": tensor, "pipeline": pipeline, **found, "schedule": None}


def _with_step_times(steps: pl.DataFrame, printed: list[tuple[int, float, float]]) -> pl.DataFrame:
    """The rows with the throughput that Megatron-Bridge prints before each, where both lines name the same time."""
    if not printed or steps.is_empty() or steps["tflops_per_device"].null_count() < steps.height:
        return steps
    times = pl.DataFrame(printed, schema=["offset", "printed", "tflops"], orient="row")
    after = np.searchsorted(steps["offset"].to_numpy(), times["offset"].to_numpy())
    rows = times.with_columns(pl.Series("index", after)).filter(pl.col("index") < steps.height)
    rows = rows.group_by("index").last()
    found = (
        steps.with_row_index("index").with_columns(pl.col("index").cast(pl.Int64)).join(rows, on="index", how="left")
    )
    # both are the same number, rounded to two decimals here and to less than a millisecond there
    agree = (found["seconds"] - found["printed"]).abs() < 0.0051
    return steps.with_columns(pl.when(agree).then(found["tflops"]).alias("tflops_per_device"))
