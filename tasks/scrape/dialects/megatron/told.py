"""What a log of Megatron-LM and its relatives says beside its rows, and its records."""

from typing import Any

import numpy as np
import polars as pl

from tasks.records import CheckpointEvent
from tasks.scrape.dialects.dialect import Match, Told
from tasks.scrape.dialects.megatron.facts import MegatronFacts
from tasks.scrape.dialects.megatron.schedule import ScheduleLog
from tasks.scrape.dialects.megatron.validation import ValidationRows
from tasks.scrape.prefixes import iso_times
from tasks.scrape.table.stalls import find_stalls
from tasks.scrape.table.steps import StepTable
from tasks.scrape.window import Window


class MegatronTold(Told):
    """What was found so far."""

    def __init__(self) -> None:
        super().__init__()
        self.facts, self.schedule, self.validation = MegatronFacts(), ScheduleLog(), ValidationRows()

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        """Note one anchor."""
        super().take(name, match, window, table)
        self.facts.take(name, match, window)

    def settle(self, window: Window, table: StepTable) -> None:
        """Read what is looked for in a whole window."""
        self.facts.settle(window)
        self.validation.take(window, table.step_before)
        self.schedule.take(window, table.step_before)
        super().settle(window, table)

    def records(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        """The fields of the reading."""
        facts = self.facts
        steps = _with_step_times(steps.with_columns(iso_times()), facts.step_times)
        last_offset = int(steps["offset"][-1]) if steps.height else -1
        error = self.cause(table, last_offset)
        ended = self.has_ended or error is not None or (steps.height > 0 and steps["step"][-1] == table.total)
        summaries = self.schedule.by_rank()
        in_flight = any(summary["in_flight"] for summary in summaries.values())
        cut = self.is_open or table.cut or self.validation.cut or self.schedule.cut
        every = facts.config.get("log_interval", "")
        return {
            "steps": steps, "exit_code": self.exit_code, "started": facts.started, "ended": facts.ended,
            "error": error, "evals": tuple(self.validation.rows), "environment": facts.environment(),
            "parameters": facts.total,
            "checkpoints": self._checkpoints(ended=ended),
            "stalls": find_stalls(
                steps, saving=self._saving, eval_offsets=[row["offset"] for row in self.validation.rows]
            ),
            "config": facts.config, "ranks": self._ranks(summaries), "rank_memory": facts.memory.table(),
            "schedule": tuple(self.schedule.events), "facts": facts.facts, "sources": facts.sources,
            "timers": facts.timers.table(), "is_ended": ended, "is_cut": not ended and (cut or in_flight),
            "interval": int(every) if every.isdigit() else None,
            "unread": (*self.validation.unread, *self.schedule.unread),
            "glued": self.schedule.glued,
        }  # fmt: skip

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
