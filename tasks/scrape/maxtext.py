"""Reads MaxText's logs, and those of trainers that print its lines, into a RunReading."""

from datetime import datetime

import numpy as np
import polars as pl

from tasks.records import CheckpointEvent, Coverage, LogError, RunFate, RunReading, Stall
from tasks.scrape.ahead import Ahead
from tasks.scrape.anchors import MESH_AXIS, find_anchors, find_date
from tasks.scrape.checkpoints import CheckpointLog
from tasks.scrape.death import DeathLog
from tasks.scrape.evals import EvalLog
from tasks.scrape.facts import Facts
from tasks.scrape.restores import RestoreLog
from tasks.scrape.stalls import find_stalls, is_deferred
from tasks.scrape.step_pieces import Known
from tasks.scrape.step_table import StepTable
from tasks.scrape.waits import WaitLog
from tasks.scrape.window import Window

FORMAT = "maxtext"
PRINTS_LATE = "metric_logger.py"  # of MaxText: it buffers each step until the next one is under way
DATED_WITHIN = 1 << 20  # bytes in which a log without a frame may show the day


class MaxTextReader:
    """Takes in the windows of one log; `finish` puts together what was found."""

    def __init__(self) -> None:
        self.steps = StepTable()
        self._ahead = Ahead(self.steps)
        self.facts = Facts()
        self.checkpoints = CheckpointLog()
        self.restores = RestoreLog()
        self.evals = EvalLog()
        self.waits = WaitLog()
        self.death = DeathLog()
        self._written: datetime | None = None  # the first whole date in the text
        self._cut = False

    def feed(self, window: Window) -> None:
        """Take in the next window."""
        for own, known in self._ahead.put(window):
            self._take(own, known)

    def _take(self, window: Window, known: Known) -> None:
        before_steps = not self.steps.parsed
        if window.base + window.start == 0:
            self.death.begin(window)
        gaps = self.steps.add(window, known)
        for begin, end in gaps:
            for name, match in find_anchors(window, begin, end):
                for part in (self.facts, self.checkpoints, self.restores, self.evals, self.waits, self.death):
                    part.take(name, match, window)
        if before_steps and gaps:
            for match in MESH_AXIS.finditer(window.data, *gaps[0]):
                self.facts.take("mesh_axis", match, window)
        if before_steps and self.facts.start is None and self._written is None:
            date = find_date(window.data, window.start, window.start + DATED_WITHIN)
            self._written = datetime.fromisoformat(date.decode()) if date else None
        self.steps.first_day = self.facts.start or self._written
        if window.last:
            self._cut = bool(window.data) and not window.data.endswith(b"\n")

    def finish(self, *, name: str, span: tuple[int, int]) -> RunReading:
        """The reading of the log that filled the byte range `span` of its file."""
        facts = self.facts
        first_day = facts.start or self._written
        steps = self.steps.frame(first_day)
        last_step = -1 if steps.is_empty() else int(steps["offset"][-1])
        error = self.death.cause(last_step=last_step, ordered=self.steps.source_file is not None)
        ended = facts.exit_code is not None or facts.end is not None
        coverage = self._coverage(steps, ended=ended)
        environment = facts.environment()
        deferred = self._is_deferred(steps)
        return RunReading(
            name=name,
            format=FORMAT,
            exit_code=facts.exit_code,
            fate=self._fate(error, steps, coverage),
            started=first_day.isoformat() if first_day else None,
            ended=facts.end.isoformat() if facts.end else None,
            error=error,
            steps=steps,
            evals=self.evals.table(first_day),
            environment=environment,
            memory=facts.memory(),
            parameters=facts.parameters(),
            flops=facts.flops(),
            checkpoints=self._checkpoints(
                first_day=first_day, process=environment.process_index, ended=ended or error is not None
            ),
            restores=self.restores.restores(last_step),
            stalls=self._stalls(steps, deferred=deferred),
            waits=self.waits.beside(steps, self.checkpoints, self.evals, deferred=deferred, first_day=first_day),
            deferred=deferred,
            config=facts.config,
            sources=facts.sources,
            source_file=self.steps.source_file,
            printers=facts.printers,
            span=span,
            coverage=coverage,
        )

    def _checkpoints(
        self, *, first_day: datetime | None, process: int | None, ended: bool
    ) -> tuple[CheckpointEvent, ...]:
        for step, path, source in self.restores.found:
            self.checkpoints.restored(step, path, source)
        return self.checkpoints.events(first_day=first_day, process=process, ended=ended)

    def _is_deferred(self, steps: pl.DataFrame) -> bool:
        begun = [(save.step, save.source.offset) for save in self.checkpoints.saves] + self.evals.begun
        return (self.steps.source_file or "").startswith(PRINTS_LATE) or is_deferred(steps, begun)

    def _stalls(self, steps: pl.DataFrame, *, deferred: bool) -> tuple[Stall, ...]:
        if steps.is_empty():
            return ()
        begin = int(steps["offset"][0])
        # the profiler's own steps are printed without their time, and the one after them bears what is left
        untimed = steps.filter(pl.col("seconds").is_null())["step"].to_list()
        return find_stalls(
            steps,
            saving=self.checkpoints.in_flight,
            eval_offsets=self.evals.offsets,
            profiler_offsets=self.facts.profiling,
            profiled_steps=self.facts.profiled(int(steps["step"][0])).union(step + 1 for step in untimed),
            starts=[offset for offset in self.facts.starts if offset > begin],
            deferred=deferred,
            in_order=self.steps.in_order,
        )

    def _fate(self, error: LogError | None, steps: pl.DataFrame, coverage: Coverage) -> RunFate:
        """How the run ended. Without an exit code, that all steps are there is taken for a good end."""
        if error is not None:
            return error.kind
        facts = self.facts
        if facts.exit_code is not None:
            return "finished" if facts.exit_code == 0 else "other"
        planned = facts.planned_steps
        if planned is not None and not steps.is_empty() and int(steps["step"][-1]) >= planned - 1:
            return "finished"
        begun = facts.start is not None and facts.end is None
        return "cut_off" if begun or coverage.truncated or planned is not None else "unknown"

    def _coverage(self, steps: pl.DataFrame, *, ended: bool) -> Coverage:
        gaps, rewinds = ((), 0) if self.steps.in_order else _jumps(steps)
        truncated = self.steps.cut or (self._cut and not ended)
        whole = self.steps.seen == self.steps.parsed
        return Coverage(
            step_lines_seen=self.steps.seen,
            step_lines_parsed=self.steps.parsed,
            gaps=gaps,
            rewinds=rewinds,
            glued_lines=self.steps.glued,
            truncated=truncated,
            unknown_keys=self.steps.unknown_keys,
            complete=ended and whole and not truncated,
            unread=tuple(self.steps.unread),
        )


def _jumps(steps: pl.DataFrame) -> tuple[tuple[tuple[int, int], ...], int]:
    """The first and the last step of every gap, and how often the steps went back."""
    numbers = steps["step"].to_numpy()
    jumps = np.diff(numbers)
    wide = np.flatnonzero(jumps > 1)
    gaps = tuple(zip((numbers[wide] + 1).tolist(), (numbers[wide + 1] - 1).tolist(), strict=True))
    return gaps, int(np.count_nonzero(jumps <= 0))
