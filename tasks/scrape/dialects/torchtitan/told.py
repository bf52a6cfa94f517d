"""What a torchtitan log says beside its rows, and its records; of the rows that its ranks print, those of one."""

import re
from typing import Any

import polars as pl

from tasks.records import CheckpointEvent, Environment, Parameters, UnreadLine
from tasks.scrape.dialects.dialect import Match, Told, patterns
from tasks.scrape.dialects.torchtitan.rows import VALIDATE, parse
from tasks.scrape.prefixes import iso_of, iso_times, time_before
from tasks.scrape.table.stalls import find_stalls
from tasks.scrape.table.steps import StepTable, gaps_between, usual_jump
from tasks.scrape.window import Window

ANCHORS = patterns(
    {
        "validate": VALIDATE.pattern,
        "parameters": rb"Model [^\n]{1,120}?size: ([\d,]+) total parameters",
        "capacity": rb"(?:CUDA|GPU|XPU|HPU|NPU|ROCM|\b\w{1,20}) capacity: ([^\n]{1,120}?) with ([\d.]+)GiB memory",
        "mesh": rb"Building \d+-D device mesh with \[([^\]\n]{0,500})\], \[([\d, ]{0,200})\]",
        "saving": rb"Saving (?:a|the) (?:[\w ]+ )?checkpoint\b(?:[^\n]{0,80}?step (\d+))?",
        "saved": rb"Finished saving the checkpoint(?: \(or staging if async is enabled\))? ?in (\d+\.\d+) seconds",
        # never asynchronous
        "saved_last": rb"Last step checkpoint completed in (\d+\.\d+)s",
        "loading": rb"Loading the checkpoint (?:from|at step) ([^\s]+?)\.?(?=\s)",
        "begun": rb"Training starts at step:? (\d+)",
        "finished": rb"Training completed\b",
    },
    rb"validate|parameters|capacity|mesh|checkpoint|Training",
    {"capacity": (b"capacity: ",)},
)
_DATE = re.compile(rb"(?:\[titan\] |(?m:^)|:)(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{3})?) - ")


class TorchtitanTold(Told):
    """What was found so far."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[str, Any] = {}
        self.checkpoints: list[CheckpointEvent] = []
        self.parameters, self.environment = Parameters(), Environment()
        self.evals: list[dict[str, Any]] = []
        self.unread: list[UnreadLine] = []
        self._started: str | None = None

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        """Note one anchor."""
        super().take(name, match, window, table)
        source = window.source(match.start())
        place = {"line": source.line, "offset": source.offset}
        match name:
            case "validate":
                self._validate(match, window, table)
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
                step = int(match[1]) if match[1] else table.step_before(source.offset) or 0
                if not self.checkpoints or self.checkpoints[-1].step != step:  # of the last step it says more
                    self.checkpoints.append(CheckpointEvent(step=step, **place))
            case "saved" if self.checkpoints:
                # with asynchronous saves this line ends the staging only: it is no commit
                self._update_last(blocking_s=float(match[1]))
            case "saved_last" if self.checkpoints:
                self._update_last(
                    blocking_s=float(match[1]), state="committed", committed=True, committed_line=source.line
                )
            case "loading":
                self.facts.setdefault("restored_from", {"value": match[1].decode("utf-8", "replace"), **place})
            case "begun":
                self.facts.setdefault("first_step", {"value": int(match[1]), **place})

    def _update_last(self, **update: Any) -> None:
        self.checkpoints[-1] = self.checkpoints[-1].model_copy(update=update)

    def _validate(self, match: Match, window: Window, table: StepTable) -> None:
        source = window.source(match.start())
        stop = window.data.find(b"\n", match.start()) + 1 or len(window.data)
        line = window.data[match.start() : stop]
        row = parse(line, 0, None, window.last and stop == len(window.data))
        if row is None:
            text = line[:200].decode("utf-8", "replace").rstrip("\n")
            self.unread.append(UnreadLine(line=source.line, offset=source.offset, text=text))
            table.cut |= window.last and window.is_last_line(match.start())
            return
        place = {"time": time_before(window, match.start()), "line": source.line, "offset": source.offset}
        self.evals.append({**{one.column: one.value for one in row.fields}, **place})

    def settle(self, window: Window, table: StepTable) -> None:
        """When the log begins, and whether its text ends in the middle of a line."""
        super().settle(window, table)
        if self._started is None and (date := _DATE.search(window.data, window.start)):
            self._started = iso_of(date[1])

    def records(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        """The fields of the reading."""
        steps = steps.with_columns(iso_times())
        chosen, ranks = _choose(steps)
        error = self.cause(table)
        ended = self.has_ended or error is not None
        return {
            "steps": chosen, "exit_code": self.exit_code, "started": self._started, "error": error,
            "evals": tuple(self.evals), "environment": self.environment, "parameters": self.parameters,
            "checkpoints": tuple(self.checkpoints),
            "stalls": find_stalls(chosen, saving=self._saving, eval_offsets=[row["offset"] for row in self.evals]),
            "ranks": ranks, "facts": self.facts, "is_ended": ended, "is_cut": not ended and (self.is_open or table.cut),
            "unread": tuple(self.unread), "gaps": _gaps(chosen["step"].to_list(), set(steps["step"].to_list())),
        }  # fmt: skip

    def _saving(self, begin: int, end: int) -> bool:
        return any(begin <= event.offset < end for event in self.checkpoints)


def _choose(steps: pl.DataFrame) -> tuple[pl.DataFrame, tuple[dict[str, Any], ...]]:
    """The rows of one rank, and what each rank printed. Stages of a pipeline that do not see the loss print −1: theirs
    come last. Of ranks without a name, what several print of one step counts once; a line that lost its rank is
    somebody's."""
    if "_rank" not in steps.columns:
        return steps, ()
    none, copy = pl.col("_rank").is_null(), pl.col("step") == pl.col("step").shift()
    nameless = steps.filter(none).filter(~copy.fill_null(value=False))
    named = steps.filter(~none)
    summary = pl.concat([nameless, named]).group_by("_rank", maintain_order=True).agg(
        rows=pl.len().cast(pl.Int64), last_step=pl.col("step").last(), blind=(pl.col("loss") == -1).all()
    )  # fmt: skip
    if summary.is_empty():
        return steps.drop("_rank"), ()
    best = summary.sort("blind", -pl.col("rows"), pl.col("_rank").is_null(), maintain_order=True)["_rank"][0]
    chosen = nameless if best is None else named.filter(pl.col("_rank") == best)
    if best is not None:
        chosen = pl.concat([chosen, nameless.join(chosen, on="step", how="anti")]).sort("offset")
    by_rank = steps.select("_rank").unique(maintain_order=True).join(summary, on="_rank").drop_nulls("_rank")
    ranks = tuple({"rank": row["_rank"], "rows": row["rows"], "last_step": row["last_step"]}
                  for row in by_rank.iter_rows(named=True))  # fmt: skip
    return chosen.drop("_rank"), ranks


def _gaps(numbers: list[int], every_rank: set[int]) -> tuple[tuple[int, int], ...]:
    """What the rows of the chosen rank leave out: between them, behind the first, and what another rank has."""
    rest = numbers[1:] if numbers[:1] == [1] else numbers  # the first is always printed, then every log_freq-th
    gaps, every = list(gaps_between(rest)), usual_jump(rest)
    if len(rest) < len(numbers) and every and rest[0] > max(every, 2):
        gaps.append((max(every, 2), rest[0] - every))
    others = every_rank.difference(numbers)
    gaps += [(step, step) for step in others if not any(first <= step <= last for first, last in gaps)]
    return tuple(sorted(gaps))
