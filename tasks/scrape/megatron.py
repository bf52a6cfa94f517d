"""Reads the logs of Megatron-LM and its relatives (Megatron-DeepSpeed, MegatronDPP, Primus) into a RunReading."""

import re
from typing import Any

from tasks.records import CheckpointEvent, Coverage, RunReading, UnreadLine
from tasks.scrape.megatron_facts import MegatronFacts
from tasks.scrape.megatron_rows import KNOWN, LOOSE, VALIDATION, Row, parse_row, parse_validation
from tasks.scrape.megatron_schedule import ScheduleLog
from tasks.scrape.ranks import is_glued, time_before
from tasks.scrape.row_table import frame_of, gaps_between, rewinds_in
from tasks.scrape.stalls import find_stalls
from tasks.scrape.tracebacks import RankTracebacks
from tasks.scrape.window import Window

FORMAT = "megatron"
UNREAD_SHOWN = 20


class MegatronReader:
    """Takes in the windows of one log; `finish` puts together what was found."""

    def __init__(self) -> None:
        self.facts = MegatronFacts()
        self.schedule = ScheduleLog()
        self.tracebacks = RankTracebacks()
        self.rows: list[dict[str, Any]] = []
        self.evals: list[dict[str, Any]] = []
        self.seen = 0
        self.unread: list[UnreadLine] = []
        self.glued: set[int] = set()
        self._places: list[tuple[int, int]] = []  # (offset, iteration) of every row
        self._keys: dict[str, None] = {}
        self._before: Row | None = None
        self._total: int | None = None
        self._cut = False

    def feed(self, window: Window) -> None:
        """Take in the next window."""
        self.facts.take(window)
        for match in LOOSE.finditer(window.data, window.start):
            if match.start() < window.limit:
                self._read_row(window, match.start())
        for match in VALIDATION.finditer(window.data, window.start):
            if match.start() < window.limit:
                self._read_validation(window, match)
        self.schedule.take(window, self._places)
        self.tracebacks.take(window)
        if window.last:
            self._cut |= bool(window.data) and not window.data.endswith(b"\n")

    def finish(self, *, name: str, span: tuple[int, int]) -> RunReading:
        """The reading of the log that filled the byte range `span` of its file."""
        facts = self.facts
        steps = frame_of(self.rows)
        last_step = self._places[-1][0] if self._places else -1
        error = self.tracebacks.cause(last_step=last_step, exit_code=facts.exit_code)
        ended = facts.finished or error is not None or (self._total is not None and self._last() == self._total)
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
            evals=tuple(self.evals),
            environment=facts.environment(),
            parameters=facts.total,
            checkpoints=self._checkpoints(ended=ended),
            stalls=find_stalls(steps, saving=self._saving, eval_offsets=[row["offset"] for row in self.evals]),
            config=facts.config,
            ranks=self._ranks(summaries),
            schedule=tuple(self.schedule.events),
            facts=facts.facts,
            sources=facts.sources,
            timers=tuple(facts.timers),
            span=span,
            coverage=self._coverage(ended=ended, truncated=self._is_truncated(in_flight=in_flight, ended=ended)),
        )

    def _read_row(self, window: Window, position: int) -> None:
        self.seen += 1
        source = window.source(position)
        row = parse_row(window.data, position, last=window.last, before=self._before)
        if row is None:
            text = window.data[position : position + 200].split(b"\n")[0].decode("utf-8", "replace")
            self.unread.append(UnreadLine(line=source.line, offset=source.offset, text=text))
            self._cut |= window.last and b"\n" not in window.data[position:]
            return
        if row.glued or is_glued(window.data, position):
            self.glued.add(source.line)
        self._before, self._total = row, row.total or self._total
        self._keys.update(dict.fromkeys(row.keys))
        self._places.append((source.offset, row.step))
        time = time_before(window, position)
        self.rows.append(
            {"step": row.step, "loss": None, **row.values, "time": time, "line": source.line, "offset": source.offset}
        )

    def _read_validation(self, window: Window, match: re.Match[bytes]) -> None:
        last_step = self._last()
        source = window.source(match.start())
        if window.last and match.end() == len(window.data) and not match[0].rstrip().endswith(b"|"):
            self._cut = True  # its last number may have lost digits
            return
        row = parse_validation(match, last_step=last_step)
        time = time_before(window, match.start())
        self.evals.append({**row, "time": time, "line": source.line, "offset": source.offset})

    def _last(self) -> int | None:
        return self._places[-1][1] if self._places else None

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
        numbers = set(facts.memory_of) | set(summaries)
        places = {facts.place_of(rank): rank for rank in range(facts.environment().num_devices or 0)}
        numbers |= {places[key] for key in facts.parameters_of if key in places}
        entries: list[dict[str, Any]] = []
        for rank in sorted(numbers):
            place = facts.place_of(rank)
            entries.append(_entry(rank, place, facts.parameters_of.get(place) if place else None))
            entries[-1]["memory"] = facts.memory_of.get(rank, [])
            entries[-1]["schedule"] = summaries.get(rank)
        named = {(entry["tensor"], entry["pipeline"]) for entry in entries}
        rest = sorted(key for key in facts.parameters_of if key not in named)
        return (*entries, *(_entry(None, key, facts.parameters_of[key]) for key in rest))

    def _is_truncated(self, *, in_flight: bool, ended: bool) -> bool:
        return not ended and (self._cut or self.schedule.cut or in_flight)

    def _coverage(self, *, ended: bool, truncated: bool) -> Coverage:
        numbers = [row["step"] for row in self.rows]
        every = self.facts.config.get("log_interval", "")
        glued = self.glued | self.schedule.glued
        unread = sorted((*self.unread, *self.schedule.unread), key=lambda line: line.offset)
        return Coverage(
            step_lines_seen=self.seen,
            step_lines_parsed=len(self.rows),
            gaps=gaps_between(numbers, int(every) if every.isdigit() else None),
            rewinds=rewinds_in(numbers),
            glued_lines=len(glued),
            truncated=truncated,
            unknown_keys=tuple(sorted(key for key in self._keys if key not in KNOWN)),
            complete=ended and not unread and not truncated,
            unread=tuple(unread[:UNREAD_SHOWN]),
        )


def _entry(rank: int | None, place: tuple[int, int] | None, counted: dict[str, Any] | None) -> dict[str, Any]:
    tensor, pipeline = place or (None, None)
    found = counted or {"parameters": None, "parameters_source": None}
    return {"rank": rank, "tensor": tensor, "pipeline": pipeline, **found, "memory": [], "schedule": None}
