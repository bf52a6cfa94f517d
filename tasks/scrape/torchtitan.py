"""Reads torchtitan's logs, coloured or not, into a RunReading."""

import re
from typing import Any

from tasks.records import CheckpointEvent, Coverage, Environment, Parameters, RunReading
from tasks.scrape.ranks import iso_of
from tasks.scrape.row_table import frame_of, rewinds_in
from tasks.scrape.stalls import find_stalls
from tasks.scrape.torchtitan_rows import ROW, VALIDATE, RankRows
from tasks.scrape.tracebacks import RankTracebacks
from tasks.scrape.window import Window

FORMAT = "torchtitan"
UNREAD_SHOWN = 20
_PATTERNS = {
    "parameters": rb"Model [^\n]{1,120}?size: ([\d,]+) total parameters",
    "capacity": rb"(?:CUDA|GPU|XPU|HPU|NPU|ROCM|\b\w{1,20}) capacity: ([^\n]{1,120}?) with ([\d.]+)GiB memory",
    "mesh": rb"Building \d+-D device mesh with \[([^\]\n]{0,500})\], \[([\d, ]{0,200})\]",
    "saving": rb"Saving (?:a|the) (?:[\w ]+ )?checkpoint\b(?:[^\n]{0,80}?step (\d+))?",
    "saved": rb"Finished saving the checkpoint(?: \(or staging if async is enabled\))? ?in (\d+\.\d+) seconds",
    # never asynchronous
    "saved_last": rb"Last step checkpoint completed in (\d+\.\d+)s",
    "loading": rb"Loading the checkpoint (?:from|at step) ([^\s]+?)\.?(?=\s)",
    "started": rb"Training starts at step:? (\d+)",
    "completed": rb"Training completed\b",
    "exit_code": rb"EXIT_CODE=(\d{1,3})(?!\d)",
}
_ANCHORS = {name: re.compile(pattern) for name, pattern in _PATTERNS.items()}
_DATE = re.compile(rb"(?:\[titan\] |(?m:^)|:)(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{3})?) - ")


class TorchtitanReader:
    """Takes in the windows of one log; `finish` puts together what was found."""

    def __init__(self) -> None:
        self.rows = RankRows()
        self.tracebacks = RankTracebacks()
        self.facts: dict[str, Any] = {}
        self.checkpoints: list[CheckpointEvent] = []
        self.parameters = Parameters()
        self.environment = Environment()
        self._started: str | None = None
        self._exit_code: int | None = None
        self._ended = False

    def feed(self, window: Window) -> None:
        """Take in the next window."""
        if self._started is None and (date := _DATE.search(window.data, window.start)):
            self._started = iso_of(date[1])
        self.rows.begin()
        hits = [
            (match.start(), name, match)
            for name, pattern in (("row", ROW), ("validate", VALIDATE), *_ANCHORS.items())
            for match in pattern.finditer(window.data, window.start)
            if match.start() < window.limit
        ]
        for _, name, match in sorted(hits, key=lambda hit: hit[:2]):
            if name in ("row", "validate"):
                self.rows.read(window, match, name)
            else:
                self._note(name, match, window)
        self.rows.find_headless(window)
        self.tracebacks.take(window, self.rows.last_offset - window.base)
        if window.last:
            self.rows.cut |= bool(window.data) and not window.data.endswith(b"\n")

    def finish(self, *, name: str, span: tuple[int, int]) -> RunReading:
        """The reading of the log that filled the byte range `span` of its file."""
        rows = self.rows.choose()
        steps = frame_of(rows)
        error = self.tracebacks.cause(last_step=self.rows.last_offset, exit_code=self._exit_code)
        ended = self._ended or error is not None
        numbers = [row["step"] for row in rows]
        truncated = self.rows.cut and not ended
        return RunReading(
            name=name,
            format=FORMAT,
            exit_code=self._exit_code,
            started=self._started,
            error=error,
            steps=steps,
            evals=tuple(self.rows.evals),
            environment=self.environment,
            parameters=self.parameters,
            checkpoints=tuple(self.checkpoints),
            stalls=find_stalls(steps, saving=self._saving, eval_offsets=[row["offset"] for row in self.rows.evals]),
            ranks=tuple(
                {"rank": rank, "rows": len(printed), "last_step": printed[-1]["step"]}
                for rank, printed in self.rows.of_rank.items()
                if rank is not None
            ),
            facts=self.facts,
            span=span,
            coverage=Coverage(
                step_lines_seen=self.rows.parsed + len(self.rows.unread),
                step_lines_parsed=self.rows.parsed,
                gaps=self.rows.gaps(numbers),
                rewinds=rewinds_in(numbers),
                glued_lines=len(self.rows.glued),
                truncated=truncated,
                unknown_keys=self.rows.unknown_keys,
                complete=ended and not self.rows.unread and not truncated,
                unread=tuple(self.rows.unread[:UNREAD_SHOWN]),
            ),
        )

    def _note(self, name: str, match: re.Match[bytes], window: Window) -> None:
        source = window.source(match.start())
        place = {"line": source.line, "offset": source.offset}
        match name:
            case "parameters":
                text = match[1].decode()
                self.parameters = Parameters(count=int(text.replace(",", "")), printed=text, source=source)
            case "capacity":
                kind = match[1].decode("utf-8", "replace")
                self.environment = self.environment.model_copy(update={"device_kind": kind})
                self.facts.setdefault("device_memory_gib", {"value": float(match[2]), **place})
            case "mesh":
                names = re.findall(r"\w+", match[1].decode("utf-8", "replace"))
                sizes = [int(size) for size in re.findall(rb"\d+", match[2])]
                mesh = {axis: size for axis, size in zip(names, sizes, strict=False) if size > 1}
                self.environment = self.environment.model_copy(update={"mesh": mesh or None})
            case "saving":
                step = int(match[1]) if match[1] else self.rows.last_step
                if not self.checkpoints or self.checkpoints[-1].step != step:  # of the last step it says more
                    self.checkpoints.append(CheckpointEvent(step=step, **place))
            case "saved" if self.checkpoints:
                # with asynchronous saves this line ends the staging only: it is no commit
                blocked = {"blocking_s": float(match[1])}
                self.checkpoints[-1] = self.checkpoints[-1].model_copy(update=blocked)
            case "saved_last" if self.checkpoints:
                whole = {"blocking_s": float(match[1]), "committed": True, "committed_line": source.line}
                self.checkpoints[-1] = self.checkpoints[-1].model_copy(update=whole)
            case "loading":
                self.facts.setdefault("restored_from", {"value": match[1].decode("utf-8", "replace"), **place})
            case "started":
                self.facts.setdefault("first_step", {"value": int(match[1]), **place})
            case "completed":
                self._ended = True
            case "exit_code":
                self._exit_code, self._ended = int(match[1]), True

    def _saving(self, begin: int, end: int) -> bool:
        return any(begin <= event.offset < end for event in self.checkpoints)
