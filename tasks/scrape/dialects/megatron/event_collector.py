"""Collects the lines other than rows (the lines of iterations) from logs of Megatron-LM and its forks."""

import re
from typing import Any

import polars as pl

from tasks.records.checkpoint_proof import CheckpointEvent
from tasks.records.log_reading import RANK_MEMORY_SCHEMA, TIMER_SCHEMA, Environment, Parameters
from tasks.records.shared_fields import Source
from tasks.scrape.dialects.dialect import EventCollector, Match, compile_patterns
from tasks.scrape.dialects.megatron.rows import read_fields
from tasks.scrape.dialects.schedule import OPERATION
from tasks.scrape.prefixes import iso_of, time_before
from tasks.scrape.table.step_table import StepTable
from tasks.scrape.window import Window, text_of

_NUMBER = rb"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_DATE = rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
_MEMORY_ROW = rb"((?: \| [a-z][a-z -]{0,60}: {0,20}\d{1,15}(?:\.\d{1,20})?)+)(?: \|)?(?=\s|\Z)"
# validation losses: ` validation loss at iteration 10 | lm_loss value: … | lm_loss_ppl value: … |`, and `test results`
_WHERE = rb" at (?:iteration {1,40}(\d{1,15})(?!\d)|(?!iteration)([^|\n]{1,120}?))((?: on| \[)[^|\n]{1,80}?)? {0,40}\|"
_VALIDATION = rb"(?:validation loss|\b(?:validation|valid|(test)) results)" + _WHERE
# text that is allowed after the values of an evaluation
_BEHIND = re.compile(rb"[ \t]*(?:\r?\n|\[|-{5,}|rank \d|iteration +\d|saving check|\Z)")
_VALUES = {"lm loss value": "loss", "LM loss": "loss", "lm loss PPL": "perplexity", "LM PPL": "perplexity",
          "lm_loss value": "loss", "lm_loss_ppl value": "perplexity"}  # fmt: skip
PATTERNS = compile_patterns(
    {
        # Bounded repetitions prevent quadratic time for long runs of blanks, dots or dashes. Leading dashes are checked
        # by a look-behind, so that the search can start at a word, which is fast.
        "table": rb" arguments (?<=-{5} arguments )-{5,80}",
        "table_end": rb" end of arguments (?<=-{5} end of arguments )-{5,80}",
        "world": rb"using world size: (\d+)",
        "parallel": rb"(?<!-)(data|context|tensor-model|pipeline-model|expert-model)-parallel[ -]size: (\d{1,9})(?!\d)",
        "vocabulary": rb"padded vocab \(size: (\d+)\) with (\d+) dummy tokens \(new size: (\d+)\)",
        # before 2021 there was no pipeline: `model parallel rank 0: 178100224`
        "rank_parameters": rb"number of parameters on (?:\(tensor, pipeline\) )?model parallel rank "
        rb"(?:\((\d{1,9}), (\d{1,9})\)|(\d{1,9}))(?:: |=) ?(\d{1,18})(?=\s)",
        "total": rb"Total number of parameters in billions: (\d+\.\d+)(?=\s)",
        "theory": rb"Theoretical memory footprints: ([^\n]{1,300})",
        "memory": rb"\[Rank (0|[1-9]\d{0,8})\] \(after (0|[1-9]\d{0,14}) iterations\) memory \((MB|GB)\)" + _MEMORY_ROW,
        # before 2021 only rank 0 prints its memory, without a rank in brackets
        "memory_of_first": rb"(?<![(\w])after (0|[1-9]\d{0,14}) iterations memory \((MB|GB)\)" + _MEMORY_ROW,
        "timer": rb"(?<![^\s\]:])([a-z][\w/-]{0,100}) \.{2,200}: \(%s, %s\)" % (_NUMBER, _NUMBER),
        # before 2023, and in DeepSpeed, all timers of a rank are on one line
        "times": rb"time \(ms\)((?: \| [a-z1][\w/ -]{0,80}: \d{1,15}(?:\.\d{1,9})?)+)(?: \|)?(?=\s)",
        # Megatron-Bridge prints this before each row
        "step_time": rb"Step Time ?: (\d{1,9}\.\d{2})s GPU utilization: (\d{1,9}\.\d)MODEL_TFLOP/s/GPU",
        "saving": rb"saving checkpoint at iteration {1,40}(\d{1,15}) to (\S{1,2000})(?=\s)",
        "scheduled": rb"scheduled an async checkpoint save at iteration {1,40}(\d{1,15}) to (\S{1,2000})(?=\s)",
        "saved": rb"successfully saved checkpoint (?:from|at) iteration {1,40}(\d{1,15}) to (\S{1,2000})(?=\s)",
        "loaded": rb"successfully loaded checkpoint from (\S{1,2000})(?: \[[^\]\n]{0,80}\])? {1,40}at iteration "
        rb"(\d{1,15})(?!\d)",
        "not_found": rb"could not find the metadata file (\S{1,2000})(?=\s)",
        "finished": rb"exiting program (?:at|after(?! receiving)) [^\n]{1,80}|\[after training is done\] datetime: ",
        "validation": _VALIDATION,
        "operation": OPERATION,
        "date": rb"\[([a-z][^\]\n]{3,80})\] datetime: %s" % _DATE,
    }
)
_ARGUMENT = re.compile(
    # dots pad names to 48 characters; longer names have no dots
    rb"(?<=[\s\]:])([A-Za-z_][\w-]{0,200})(?: \.{1,64} |(?<=[\w-]{46}) {2})([^\n]{0,8000}?)"
    rb"(?=\r?\n|\s{1,64}[A-Za-z_][\w-]{0,200} \.{1,64} |\s{2,64}[A-Za-z_][\w-]{45,200}  \S|"
    rb"\s{0,64}-{5,80} end of arguments)"
)
_MEMORY = re.compile(rb"\| ([a-z][a-z -]*): *(\d+(?:\.\d+)?)")
_TIME = re.compile(rb"\| ([^:|\n]+): (\d+(?:\.\d+)?)")
# printed name → name of the mesh axis
_MESH = {"tensor-model": "tensor", "pipeline-model": "pipeline", "data": "data",
         "context": "context", "expert-model": "expert"}  # fmt: skip
# pattern name → facts in the pattern's groups
_FACTS = {
    "world": ("world_size",), "vocabulary": ("vocab_size", "dummy_tokens", "padded_vocab_size"),
    "theory": ("theoretical_memory",), "loaded": ("restored_from", "restored_step"),
    "not_found": ("checkpoint_not_found",),
}  # fmt: skip


class MegatronEventCollector(EventCollector):
    """Collects Megatron's facts, evaluations, checkpoints and timers, and the memory of each rank."""

    def __init__(self) -> None:
        super().__init__()
        self.config: dict[str, str] = {}
        self.sources: dict[str, Source] = {}  # fact or `config.KEY` → place, as in `RunReading`
        self.mesh: dict[str, int] = {}  # axis → size
        self.step_times: list[tuple[int, float, float]] = []  # offset, seconds, TFLOP/s per GPU
        self.resumes: list[tuple[int, int]] = []  # offset, restored step
        self.parameters_of: dict[tuple[int, int], dict[str, Any]] = {}  # (tensor rank, pipeline rank) → parameters
        self.ended: str | None = None
        self.memory_ranks: set[int] = set()  # ranks with memory lines
        self._timers: list[tuple[Any, ...]] = []  # timers in this window
        self._memory: list[dict[str, Any]] = []  # memory lines in this window
        self._tables: list[tuple[pl.DataFrame, pl.DataFrame]] = []  # timers and memory lines of each earlier window
        self._arguments: int | None = None  # offset at which an unfinished table of arguments begins

    def take(self, name: str, match: Match, window: Window, table: StepTable) -> None:
        super().take(name, match, window, table)
        if name == "timer":  # handled first, for speed: a dozen may follow every row
            self._take_timer(match[1], float(match[2]), float(match[3]), window.source(match.start()))
            return
        source = window.source(match.start())
        place = source.model_dump()
        for key, text in zip(_FACTS.get(name, ()), match.groups(), strict=False):
            self.note_fact(key, int(text) if text.isdigit() else text_of(text).strip(), source)
        match name:
            case "table":
                self._arguments = window.base + match.end()
            case "table_end":
                self._read_arguments(window, match.end())
                self._arguments = None
            case "world":
                self.sources.setdefault("num_devices", source)
            case "parallel":
                self.mesh.setdefault(_MESH[match[1].decode()], int(match[2]))
            case "rank_parameters":
                where = (int(match[1] or match[3]), int(match[2] or 0))
                self.parameters_of.setdefault(where, {"parameters": int(match[4]), "parameters_source": place})
            case "total":
                printed = match[1].decode()
                count = round(float(printed) * 1e9) or None  # 0.000 may be any small model
                self.parameters = Parameters(count=count, printed=f"{printed} billion", source=source)
            case "loaded":
                self.resumes.append((source.offset, int(match[2])))
            case "memory":
                self._take_memory(int(match[1]), match[2], match[3], match[4], place)
            case "memory_of_first":
                self._take_memory(0, match[1], match[2], match[3], place)
            case "times":
                for each in _TIME.finditer(window.data, *match.span(1)):
                    self._take_timer(each[1], float(each[2]), float(each[2]), window.source(each.start(1)))
            case "step_time":
                self.step_times.append((source.offset, float(match[1]), float(match[2])))
            case "date":
                self.started = self.started or iso_of(match[2])
                if match[1].startswith(b"after training is done"):
                    self.ended = iso_of(match[2])
            case "saving" | "saved" | "scheduled":
                self._take_save(name, int(match[1]), text_of(match[2]), place)
            case "validation":
                row = _read_validation(match, window, table.step_before(source.offset))
                self.evals += [row] if row else []
                if row is None:
                    self.refuse(match, window)

    def end_window(self, window: Window, table: StepTable) -> None:
        """Finish a window; a table of arguments may continue in the next window."""
        super().end_window(window, table)
        self._read_arguments(window, len(window.data))
        if self._timers or self._memory:  # as tables, they need less memory
            timers = pl.DataFrame(self._timers, schema=TIMER_SCHEMA, orient="row")
            self._tables.append((timers, pl.DataFrame(self._memory, infer_schema_length=None)))
            self._timers, self._memory = [], []

    def _read_arguments(self, window: Window, end: int) -> None:
        """Read the config from the table of arguments up to a position, if a table has begun."""
        begin = end if self._arguments is None else max(self._arguments - window.base, 0)
        for match in _ARGUMENT.finditer(window.data, begin, end):
            if match.start() < window.limit:
                self.config.setdefault(match[1].decode(), text_of(match[2]).strip())
                self.sources.setdefault(f"config.{match[1].decode()}", window.source(match.start()))

    def _take_memory(self, rank: int, iterations: bytes, unit: bytes, row: bytes, place: dict[str, int]) -> None:
        values = {
            f"{_memory_name(key.decode())}_{unit.decode().lower()}": float(value) for key, value in _MEMORY.findall(row)
        }
        self._memory.append({"rank": rank, "iterations": int(iterations), **values, **place})
        self.memory_ranks.add(rank)

    def _take_timer(self, name: bytes, low: float, high: float, source: Source) -> None:
        self._timers.append((text_of(name), low, high, source.line, source.offset))
        if name == b"save-checkpoint" and self.checkpoints:
            self.checkpoints[-1] = self.checkpoints[-1].replace(blocking_s=high / 1000)

    def _take_save(self, name: str, step: int, path: str, place: dict[str, int]) -> None:
        steps = [event.step for event in self.checkpoints]
        index = steps.index(step) if step in steps else len(steps)
        if index == len(steps):
            self.checkpoints.append(CheckpointEvent(step=step, path=path, **place))
        if name == "saved":
            committed = {"state": "committed", "committed": True, "committed_line": place["line"]}
            self.checkpoints[index] = self.checkpoints[index].replace(**committed)

    def reading_fields(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        world = self.facts.get("world_size", {}).get("value")
        if world is None and self.config.get("world_size", "").isdigit():
            world = int(self.config["world_size"])
        mesh = {name: size for name, size in self.mesh.items() if size > 1}  # axes of size 1 are left out
        self.environment = Environment(num_devices=world, mesh=mesh or None)
        steps = _without_means(_with_step_times(_without_copies(steps), self.step_times), self.resumes)
        found, summaries = super().reading_fields(steps, table), self.schedule.by_rank()
        if found["is_ended"]:  # the process that announces a save also reports success; else the save failed
            found["checkpoints"] = tuple(
                event if event.committed else event.replace(committed=False) for event in self.checkpoints
            )
        timers = pl.concat([pl.DataFrame(schema=TIMER_SCHEMA), *(timers for timers, _ in self._tables)])
        memory = pl.concat(
            [pl.DataFrame(schema=RANK_MEMORY_SCHEMA), *(memory for _, memory in self._tables)], how="diagonal_relaxed"
        )
        in_flight = any(summary["in_flight"] for summary in summaries.values())
        interval = self.config.get("log_interval", "")
        return {
            **found, "ended": self.ended, "config": self.config, "sources": self.sources,
            "ranks": self._ranks(summaries), "timers": timers,
            "rank_memory": memory.select(pl.exclude("line", "offset"), "line", "offset"),
            "is_cut": found["is_cut"] or (in_flight and not found["is_ended"]),
            "interval": int(interval) if interval.isdigit() else None, "glued": self.schedule.glued,
        }  # fmt: skip

    def _ranks(self, summaries: dict[int, dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        """Return an entry for each global rank in the log, and for each further (tensor, pipeline) rank."""
        tensor, pipeline = self.mesh.get("tensor", 1), self.mesh.get("pipeline", 1)
        world = self.environment.num_devices or 0
        # global rank → (tensor, pipeline); known only if the world has no other axes; the tensor rank varies fastest
        places = {n: (n % tensor, n // tensor) for n in range(world)} if world == tensor * pipeline else {}
        counted = {rank for rank, place in places.items() if place in self.parameters_of}
        named = [(rank, places.get(rank)) for rank in sorted(self.memory_ranks | set(summaries) | counted)]
        rest = sorted(place for place in self.parameters_of if place not in [place for _, place in named])
        return tuple(
            {
                "rank": rank, "tensor": place and place[0], "pipeline": place and place[1],
                **self.parameters_of.get(place or (-1, -1), {"parameters": None, "parameters_source": None}),
                "schedule": summaries.get(-1 if rank is None else rank),
            }
            for rank, place in [*named, *((None, place) for place in rest)]
        )  # fmt: skip


def _memory_name(key: str) -> str:
    """Return the column of a memory value: one name for `max allocated` and `mem-max-allocated-gigabytes`."""
    words = key.strip().replace(" ", "-").split("-")
    return "_".join(word for word in words if word not in ("mem", "gigabytes"))


def _with_step_times(steps: pl.DataFrame, printed: list[tuple[int, float, float]]) -> pl.DataFrame:
    """If no row has a throughput, add the throughput of Megatron-Bridge's line before a row with an equal time."""
    if not printed or steps.is_empty() or steps["tflops_per_device"].null_count() < steps.height:
        return steps
    times = pl.DataFrame(printed, schema=["printed_at", "printed", "tflops"], orient="row").set_sorted("printed_at")
    rows = times.join_asof(
        steps.select("offset"), left_on="printed_at", right_on="offset", strategy="forward", coalesce=False
    )
    found = steps.join(rows.unique("offset", keep="last"), on="offset", how="left", maintain_order="left")
    # `printed` has two decimals, so the same time differs by at most 0.005 s plus a small error
    agree = (found["seconds"] - found["printed"]).abs() < 0.0051
    return steps.with_columns(pl.when(agree).then(found["tflops"]).alias("tflops_per_device"))


def _without_copies(steps: pl.DataFrame) -> pl.DataFrame:
    """Drop rows whose values all equal those of the row before, because Primus on one node prints each row twice."""
    if not (steps["step"].diff() == 0).any():
        return steps
    values = [pl.col(name) for name in steps.columns if name not in ("time", "line", "offset")]
    return steps.filter(~pl.all_horizontal(one.eq_missing(one.shift()) for one in values))


def _without_means(steps: pl.DataFrame, resumes: list[tuple[int, int]]) -> pl.DataFrame:
    """Move the mean time and throughput of the second row after a resume to columns with the suffix `(average)`.

    Megatron core 0.17 prints the first resumed step and does not reset its timer, so the next row has the mean time
    since the resume (NVIDIA/Megatron-LM issue 6237). Older versions reset the timer. `_find_mean` tells these
    versions apart.
    """
    places = [int(place) for offset, step in resumes if (place := _find_mean(steps, offset, step)) is not None]
    if not places:
        return steps
    is_mean = pl.int_range(pl.len()).is_in(places)
    names = ("seconds", "tflops_per_device", "tokens_per_s_per_device")
    for name in (name for name in names if steps[name].null_count() < steps.height):
        kept = pl.col(average) if (average := f"{name} (average)") in steps.columns else pl.lit(None, pl.Float64)
        steps = steps.with_columns(
            pl.when(is_mean).then(None).otherwise(name).alias(name),
            pl.when(is_mean).then(name).otherwise(kept).alias(average),
        )
    return steps


def _find_mean(steps: pl.DataFrame, offset: int, restored: int) -> int | None:
    """Return the index of the second row after a resume if that row's time is a mean, else None.

    offset: of the line about the resume. restored: the step of the checkpoint.
    """
    begin = int(steps["offset"].search_sorted(offset))
    numbers, seconds = steps["step"][begin : begin + 2].to_list(), steps["seconds"][begin : begin + 23]
    if len(numbers) < 2 or numbers[0] != restored + 1 or numbers[1] <= numbers[0] or None in seconds[:2].to_list():
        return None
    first, second, usual = seconds[0], seconds[1], seconds[2:].median()
    alone = 2 * second - first  # seconds of the second step, if the row has the mean of two steps
    skips_steps = numbers[1] > numbers[0] + 1  # the log omits steps, but not the first step after the resume
    fits = alone > 0 and (not isinstance(usual, float) or abs(alone - usual) < abs(second - usual))
    return begin + 1 if skips_steps or fits else None


def _read_validation(match: re.Match[bytes], window: Window, step_before: int | None) -> dict[str, Any] | None:
    """Return the evaluation at a match; None if damaged. `step_before`: iteration of the last row before."""
    values = _values(window.data, match.end())
    if values is None:
        return None
    test, step, at, on = match.groups()
    where = text_of(at or on or test).strip()
    return {
        "step": int(step) if step else step_before, **values, "set": where.removeprefix("on ").strip("[]") or None,
        "time": time_before(window, match.start()), **window.place(match.start()),
    }  # fmt: skip


def _values(data: bytes, position: int) -> dict[str, float] | None:
    """Return name → value of an evaluation's fields; None if damaged, e.g. if the numbers of decimals differ."""
    fields, end = read_fields(data, position)
    if not fields or any(isinstance(one.value, str) for one in fields) or not _BEHIND.match(data, end):
        return None
    values = {_VALUES.get(one.key, one.key): float(one.value) for one in fields}
    exponents = {one.shape for one in fields if one.shape[0] == "exponent"}
    losses = [name for name in values if name == "loss" or name.endswith(" value")]
    is_whole = not losses or any(name == "perplexity" or name.endswith(" PPL") for name in values)
    is_right = len(values) == len(fields) and len(exponents) <= 1 and (is_whole or not exponents)
    return values if is_right else None
